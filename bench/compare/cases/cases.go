//go:build unix

// Package cases is what is published of this module beside other libraries: a
// table of cases, each some runs of loadgen.
package cases

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare/trial"
)

// A Case is some runs of loadgen that belong together.
type Case struct {
	Name string
	// About says in a line what is measured, and how long that takes.
	About string
	Rows  []Row
	// Least are ratios of which one round at least must have so much.
	Least []Ratio
	// MostAllocs bounds the allocations per pair of redlock, in one round at
	// least. If zero, they are not bounded.
	MostAllocs float64
	// Do is instead of rows, for what loadgen does not measure.
	Do func(ctx context.Context, out io.Writer) error
}

// A Row is the flags of one run of loadgen, without those that are the same for
// all, and the loops for each CPU that run beside it.
type Row struct {
	Flags string
	Busy  int
}

// A Ratio is that of redlock's pairs per second to those of another.
type Ratio struct {
	Over  string
	Least float64
}

const (
	// best are the best of each kind, where not all are measured.
	best = "--impl=redlock,rueidis,rueidis-tuned,go-redis,redsync"
	all  = "--impl=redlock,redlock-portable,rueidis,rueidis-all,rueidis-tuned,valkey,go-redis,go-redis-duplex,go-redis-blocking," +
		"redsync,redsync-tuned,redsync-rueidis"
	window = "--duration=400ms --warmup=300ms --runs=5"
	// waiting is for callers that wait for one resource until the window ends.
	waiting = "--network=tcp --keys=1 --wait=1h --duration=2s --warmup=300ms --runs=3"
)

// All are the cases of this module and the libraries of package peers.
var All = []Case{
	{
		Name: "quick", About: "128 callers beside rueidis and go-redis; fails if the engine has become slow; half a minute",
		Rows:  []Row{{Flags: "--clients=128 --impl=redlock,rueidis,rueidis-tuned,go-redis --duration=400ms --warmup=200ms --runs=15"}},
		Least: []Ratio{{"rueidis", 5}, {"rueidis-tuned", 2}, {"go-redis", 1.3}}, MostAllocs: 0.05,
	},
	{Name: "peers", About: "all libraries: networks, masters, callers, one master stopped; three quarters of an hour", Rows: matrix()},
	{Name: "hotkey", About: "a thousand callers of one client, and of two, want one resource; two minutes", Rows: rows(
		"--impl=redlock,redlock-alone,rueidis,redsync --clients=1000 "+waiting, "--instances=1 --hold=0s", "--instances=1 --hold=200us",
		"--instances=2 --hold=0s", "--instances=2 --hold=200us")},
	{Name: "handover", About: "two clients want one resource, for short and long holds; a minute", Rows: rows(
		"--impl=redlock,rueidis,redsync --clients=2 --instances=2 "+waiting, "--hold=1ms", "--hold=20ms", "--hold=500ms")},
	{Name: "kinds", About: "each kind of lock beside what is done without it; two minutes", Rows: rows(
		"--clients=16 --instances=16 --hold=1ms "+waiting, "--impl=redlock --kind=fair", "--impl=redlock --kind=rw:94", "--impl=redlock --kind=permits:4",
		"--impl=redlock,redsync", "--impl=redlock,redsync --keys=4")},
	{Name: "faults", About: "what others do under the same faults, for docs/internals/peers.md; ten minutes", Do: func(ctx context.Context, out io.Writer) error {
		return trial.Run(ctx, out, "")
	}},
	{Name: "overload", About: "a machine that has 2, 5 and 10 times more to do than it can; eight minutes", Rows: overload()},
}

// rows are runs with flags in common.
func rows(common string, each ...string) (all []Row) {
	for _, flags := range each {
		all = append(all, Row{Flags: common + " " + flags})
	}
	return all
}

// matrix is all networks and numbers of masters and callers. Everything is
// measured with the most masters; with fewer, all are up, and TLS is left out.
func matrix() (table []Row) {
	for _, network := range []string{"tcp", "unix", "tls"} {
		for _, nodes := range []int{1, 3, 5} {
			if network == "tls" && nodes < 5 {
				continue
			}
			for _, callers := range []int{1, 16, 128, 1024} {
				impls := all
				if network != "tcp" {
					impls = best + ",redlock-portable,valkey"
				}
				if nodes == 1 {
					impls += ",redislock"
				}
				flags := fmt.Sprintf("--network=%s --spawn=%d --clients=%d %s %s", network, nodes, callers, window, impls)
				table = append(table, Row{Flags: flags})
				if nodes == 5 {
					table = append(table, Row{Flags: flags + " --fault=0s:stop:2:1m"})
				}
			}
		}
	}
	return table
}

func overload() (table []Row) {
	for _, busy := range []int{2, 5, 10} {
		for _, callers := range []int{16, 128} {
			table = append(table, Row{Busy: busy, Flags: fmt.Sprintf(
				"--network=tcp --clients=%d --impl=redlock,rueidis,rueidis-tuned,redsync --duration=3s --warmup=1s --runs=3", callers)})
		}
	}
	return table
}

// takes is how long a row's windows are.
func (r Row) takes() (d time.Duration) {
	impls := strings.Count(r.flag("--impl"), ",") + 1
	runs, _ := strconv.Atoi(r.flag("--runs"))
	for _, name := range []string{"--duration", "--warmup"} {
		part, _ := time.ParseDuration(r.flag(name))
		d += part
	}
	return d * time.Duration(impls*max(runs, 1))
}

// flag returns a flag's last value, or "".
func (r Row) flag(name string) (value string) {
	for flag := range strings.FieldsSeq(r.Flags) {
		if v, ok := strings.CutPrefix(flag, name+"="); ok {
			value = v
		}
	}
	return value
}
