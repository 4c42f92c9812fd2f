// Command kinds measures the kinds of lock beyond the plain one, each beside the
// nearest that can be done without it: one resource that many clients want, each
// in a loop that acquires, holds and releases. The contestants of a case take
// turns, on the same servers.
//
//	go run ./cmd/kinds                       two minutes; writes ../KINDS.md
//	go run ./cmd/kinds --rounds 1 --out -
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/command"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// flags is the command line.
type flags struct {
	Clients int           `default:"16" help:"Clients, each with connections of its own."`
	Hold    time.Duration `default:"1ms" help:"How long each lock is held."`
	For     time.Duration `default:"3s" help:"How long each measurement takes."`
	Rounds  int           `default:"3" help:"Measurements of each contestant."`
	Masters int           `default:"5" help:"Masters."`
	TTL     time.Duration `default:"10s" help:"Of the locks."`
	Out     string        `default:"../KINDS.md" help:"The page; - is standard output."`
}

func main() {
	command.Main("kinds", "Measures each kind of lock beside the nearest that can be done without it.", &flags{}, run)
}

func run(ctx context.Context, f *flags) error {
	servers, err := redistest.StartN(f.Masters, redistest.Options{TCP: true})
	if err != nil {
		return err
	}
	defer redistest.CloseAll(servers)
	config := redlock.Config{Nodes: redlock.Nodes(redistest.URLs(servers)...)}
	if _, err := admin.Init(ctx, config); err != nil {
		return err
	}
	rows, err := f.all(ctx, servers)
	if err != nil {
		return err
	}
	return command.Write(f.Out, func(w io.Writer) error { return page(w, f, rows) })
}

// A row is what was measured of the callers of one class of one contestant,
// round by round.
type row struct {
	kind, contestant, class string
	rounds                  []result
}

// all measures all cases.
func (f *flags) all(ctx context.Context, servers []*redistest.Server) (all []row, err error) {
	for _, c := range cases {
		rows := make(map[string]*row)
		var order []*row
		for turn := range f.Rounds * len(c.contestants) {
			who := c.contestants[(turn+turn/len(c.contestants))%len(c.contestants)]
			fmt.Fprintf(os.Stderr, "%s, round %d: %s\n", c.kind, turn/len(c.contestants), who.name)
			// A new resource each time: callers that give up may leave a key.
			results, err := f.measure(ctx, servers, who, fmt.Sprint("kind", time.Now().UnixNano()))
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", c.kind, who.name, err)
			}
			for _, class := range slices.Sorted(maps.Keys(results)) {
				key := who.name + "\x00" + class
				if rows[key] == nil {
					rows[key] = &row{kind: c.kind, contestant: who.name, class: class}
					order = append(order, rows[key])
				}
				rows[key].rounds = append(rows[key].rounds, results[class])
			}
		}
		for _, r := range order {
			all = append(all, *r)
		}
	}
	return all, nil
}
