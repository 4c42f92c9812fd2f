package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// idle measures what waiters of one client cost the servers in a second while
// another client holds the lock.
func idle(ctx context.Context, f *flags, servers []*redistest.Server, out io.Writer) error {
	const settle = 300 * time.Millisecond // until all have asked for the first time
	fmt.Fprintf(out, "%d waiters for one lock, %d masters: in a second\n", f.Idle, f.Nodes)
	fmt.Fprintf(out, "%-8s %14s %16s\n", "impl", "commands", "servers' CPU")
	for _, name := range f.Impl {
		p, err := openPair(name, redistest.URLs(servers))
		if err != nil {
			return err
		}
		release, err := p.holder.Acquire(ctx, "idle:"+name, ttl)
		if err != nil {
			return err
		}
		waiting, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range f.Idle {
			wg.Go(func() { _, _ = p.waiter.Acquire(waiting, "idle:"+name, ttl) })
		}
		time.Sleep(settle)
		commands, cpu := spent(servers)
		time.Sleep(time.Second)
		commandsAfter, cpuAfter := spent(servers)
		fmt.Fprintf(out, "%-8s %14d %16v\n", name, commandsAfter-commands-int64(2*len(servers)), cpuAfter-cpu)
		cancel()
		wg.Wait()
		_ = release()
		p.close()
	}
	return ctx.Err()
}

// spent is how many commands the servers have executed, and what CPU they have
// used. It costs each of them two commands.
func spent(servers []*redistest.Server) (commands int64, cpu time.Duration) {
	for _, s := range servers {
		for _, section := range []string{"stats", "cpu"} {
			info, _ := s.Do("INFO", section)
			text, _ := info.(string)
			for line := range strings.Lines(text) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				n, _ := strconv.ParseFloat(value, 64)
				switch key {
				case "total_commands_processed":
					commands += int64(n)
				case "used_cpu_sys", "used_cpu_user":
					cpu += time.Duration(n * float64(time.Second))
				}
			}
		}
	}
	return commands, cpu.Round(100 * time.Microsecond)
}
