//go:build unix

// Command etcd measures this module beside etcd's Mutex and Election: N masters
// beside a cluster of N members, on servers that it starts, each in a process of
// its own. It is a module of its own, since etcd's server brings some sixty
// others.
//
//	go run . etcd        a minute
//	go run . elections   some four minutes
//
// etcd does other work for a lock: it replicates two entries of a log and syncs
// them to disk, and so does not forget a lock at a restart.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/redmux/redmux/bench/compare/cases"
)

// table are the cases of this module.
func table() []cases.Case {
	locks := cases.Case{Name: "etcd", About: "beside etcd's Mutex, with as many members as masters; a minute"}
	for _, nodes := range []int{1, 3} {
		for _, callers := range []int{1, 16, 128} {
			locks.Rows = append(locks.Rows, cases.Row{Flags: fmt.Sprintf(
				"--impl=redlock,etcd --network=tcp --spawn=%d --clients=%d --duration=1s --warmup=200ms --runs=5", nodes, callers)})
		}
	}
	return []cases.Case{locks, {Name: "elections", About: "when a leader leaves, beside etcd's Election; four minutes", Do: func(ctx context.Context, out io.Writer) error {
		return measureTakeovers(ctx, out, takeoverTimes, electionTTL, false)
	}}}
}

func main() {
	memberMain()    // does not return in a member
	candidateMain() // nor in a candidate
	var e etcd
	code := cases.Main(table(), e.implementation())
	e.close()
	os.Exit(code)
}
