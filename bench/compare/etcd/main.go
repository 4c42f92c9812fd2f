// Command etcd measures this module beside etcd's Mutex and Election: N masters
// beside a cluster of N members, on servers that it starts, each in a process of
// its own.
// It is a module of its own, since etcd's server brings some sixty others.
//
//	go run .                          four minutes; prints a page
//	go run . --write ../../ETCD.md    and writes it
//
// etcd does other work for a lock: it replicates two entries of a log and syncs
// them to disk, and so does not forget a lock at a restart. --no-fsync leaves the
// syncing out, which etcd calls unsafe.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/command"
	"github.com/redmux/redmux/bench/compare/internal/window"
)

// flags is the command line.
type flags struct {
	Members     []int         `sep:"," default:"1,3" help:"Sizes of clusters, and numbers of masters."`
	Callers     []int         `sep:"," default:"1,16,128" help:"Numbers of callers at once."`
	Rounds      int           `default:"5" help:"Rounds; in each, both have one window per case."`
	Window      time.Duration `default:"1s" help:"Measured time of a window."`
	Warmup      time.Duration `default:"200ms" help:"Unmeasured time before it."`
	NoFsync     bool          `name:"no-fsync" help:"Members do not sync to disk. Not safe."`
	Takeovers   int           `default:"9" help:"How often a leader of each election leaves in each way."`
	ElectionTTL time.Duration `default:"2s" help:"TTL of the elections; whole seconds."`
	Write       string        `placeholder:"FILE" help:"Also write the page to this file."`
}

func init() { compare.Peers = append(compare.Peers, etcd) }

func main() {
	memberMain()    // does not return in a member
	candidateMain() // nor in a candidate
	window.Main()   // nor in a window
	command.Main("etcd", "Measures this module beside etcd's Mutex.", &flags{}, run)
}

func run(ctx context.Context, f *flags) error {
	if f.Rounds < 1 || f.Window <= 0 || len(f.Members) == 0 || len(f.Callers) == 0 || f.Takeovers < 1 || f.ElectionTTL < time.Second {
		return errors.New("nothing is to be measured")
	}
	data, err := measure(ctx, f)
	if err != nil {
		return err
	}
	elections, err := measureTakeovers(ctx, f)
	if err != nil {
		return err
	}
	text := page(f, data, elections)
	fmt.Print(text)
	if f.Write == "" {
		return nil
	}
	return os.WriteFile(f.Write, []byte(text), 0o644)
}
