package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/trial"
	"github.com/redmux/redmux/internal/redistest"
)

// page writes what came of the trials, as Markdown.
func page(w io.Writer, f *flags, results []result) error {
	var b strings.Builder
	b.WriteString(`# Others under the same faults

Written by ` + "`make peers`" + `, from what it measured. Each implementation has real servers of its own and meets the same fault; what is
called held is what its own ` + "`Until`" + ` (or, for redislock, the TTL from the call on) says. None of them promises more than its row in the
last table says, so a row is no verdict; it is what an operator has to expect.

`)
	fmt.Fprintf(&b, "Servers: %s. %s.\n\n", servers(), strings.Join(versions(), ", "))
	b.WriteString("| name | what it is |\n|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s; %d master(s) |\n", r.subject.Name, r.subject.About, r.subject.Nodes)
	}
	for _, section := range []func(*strings.Builder, *flags, []result){cancelled, lost, stalled, restarted, delayed, extended} {
		b.WriteString("\n")
		section(&b, f, results)
	}
	b.WriteString(promises)
	_, err := io.WriteString(w, b.String())
	return err
}

func cancelled(b *strings.Builder, f *flags, results []result) {
	fmt.Fprintf(b, `## The caller gives up

%d attempts by 16 callers, each with a resource of its own and a context that ends after 0 to 2 ms. Keys that are still there
100 ms and 1 s after the last attempt, on all masters together, block all clients until their TTL of 10 s ends. On the right, one
master is stopped (SIGSTOP) meanwhile and goes on before keys are counted; a minute at most. An implementation that answers within a fraction of a
millisecond hardly ever gives up here; that this module leaves nothing behind then is shown by its own tests.

| | gave up | keys after 100 ms | after 1 s | gave up, a master stopped | keys after 100 ms | after 1 s |
|---|---|---|---|---|---|---|
`, f.Attempts)
	for _, r := range results {
		if r.cancelled.Attempts+r.cancelledStopped.Attempts > 0 {
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.subject.Name, attempts(r.cancelled), attempts(r.cancelledStopped))
		}
	}
}

// attempts are three columns.
func attempts(c trial.Cancelled) string {
	if c.Attempts == 0 {
		return "– | – | –" // not measured
	}
	return fmt.Sprintf("%d of %d | %d | %d", c.GaveUp, c.Attempts, c.Soon, c.Later)
}

func lost(b *strings.Builder, _ *flags, results []result) {
	fmt.Fprintf(b, `## One reply is lost

A caller makes one try for a TTL of %v while just a quorum of the masters runs. One of them executes the command, and its
connection ends in place of the reply. No other client wants the lock. A client library that sends the command again over a new
connection is refused by its own key. If the key stays, it refuses every other client until its TTL ends; on the right, another
client tries until it gets the lock, from 100 ms after the failed try on.

| | trials | granted all the same | sent again | reported as held by another | its key still there after 100 ms | the next client got it after, median | longest |
|---|---|---|---|---|---|---|---|
`, restartTTL)
	for _, r := range results {
		if l := r.lost; l.Trials > 0 {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %s | %s |\n", r.subject.Name, l.Trials, l.Granted, l.Resent, l.SaidHeld,
				l.Left, orNone(l.Next.Median), orNone(l.Next.Max))
		}
	}
}

func stalled(b *strings.Builder, f *flags, results []result) {
	fmt.Fprintf(b, `## One of five masters hangs

A lone caller acquires and releases for %v, then one master is stopped (SIGSTOP: its connections stay open, and it answers
nothing), and the caller goes on for as long.

| | locks/s before | p99 of an acquisition | locks/s with it stopped | p50 | p99 | longest | without a grant for | attempts without a grant |
|---|---|---|---|---|---|---|---|---|
`, f.Each)
	for _, r := range results {
		if s := r.stalled; s.Healthy.Count > 0 {
			fmt.Fprintf(b, "| %s | %.0f | %s | %.1f | %s | %s | %s | %s | %d |\n", r.subject.Name, s.HealthyRate, short(s.Healthy.P99),
				s.StoppedRate, short(s.Stopped.Median), short(s.Stopped.P99), short(s.Stopped.Max), short(s.Gap), s.Failed)
		}
	}
}

func restarted(b *strings.Builder, _ *flags, results []result) {
	fmt.Fprintf(b, `## A master comes back empty

A lock with a TTL of %v is granted by just a quorum. One of the masters that granted it is killed (SIGKILL) and started again,
empty. Two other clients try at once, and go on: one that was there before, and one that is opened then.

| | trials | two holders within the first's validity | of which was left, at most | else: granted so long after its end, median |
|---|---|---|---|---|
`, restartTTL)
	for _, r := range results {
		if s := r.restarted; s.Trials > 0 {
			fmt.Fprintf(b, "| %s | %d | %d | %s | %s |\n", r.subject.Name, s.Trials, s.Second, orNone(s.Left), orNone(s.Free.Median))
		}
	}
}

func delayed(b *strings.Builder, _ *flags, results []result) {
	b.WriteString(`## A release arrives late

A first attempt fails, and the network keeps back its release to one master, on the connection that carried it, while the same
call goes on trying (12 s at most) with that master and just two others free. When it was granted the lock, the release arrives,
and another client tries.

| | trials | granted meanwhile | two holders once it had arrived |
|---|---|---|---|
`)
	for _, r := range results {
		if d := r.delayed; d.Trials > 0 {
			second := "–" // where nothing was granted, there is no first holder
			if d.Granted > 0 {
				second = fmt.Sprint(d.Second)
			}
			fmt.Fprintf(b, "| %s | %d | %d | %s |\n", r.subject.Name, d.Trials, d.Granted, second)
		}
	}
}

func extended(b *strings.Builder, _ *flags, results []result) {
	b.WriteString(`## Extending what was lost

The lock has run out and another client holds it; then the first extends and releases it. On the right, a majority of the
masters is stopped (for 8 s at most) while a lock is extended: how long until the caller learns that it was not.

| | trials | extension reported as held | release reported as done | the new holder's keys disturbed | learned after, median | longest | reported as held |
|---|---|---|---|---|---|---|---|
`)
	for _, r := range results {
		if e := r.extended; e.Trials > 0 {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %s | %s | %d |\n", r.subject.Name, e.Trials, e.SaidHeld, e.SaidReleased,
				e.Disturbed, short(e.Learned.Median), short(e.Learned.Max), e.SaidExtended)
		}
	}
}

const promises = `
## What each promises

| | |
|---|---|
| redlock | one holder within validity, under the conditions in the [README](../../README.md); across a master that comes back empty, unless ` + "`Forgetful`" + ` is set |
| rueidis, goredis-blocking | nothing: they are baselines for speed, written for this comparison |
| redsync | the algorithm of redis.io; its documentation says nothing of masters that restart empty, of contexts that end, or of releases that arrive late |
| redislock | "simplified distributed locking" with one master: a master that restarts, or is failed over, forgets |
`

// servers names the product and version that was started.
func servers() string {
	path, ok := redistest.Find()
	if !ok {
		return "none"
	}
	s, err := redistest.Start(redistest.Options{Path: path})
	if err != nil {
		return "unknown"
	}
	defer s.Close()
	info, _ := s.Do("INFO", "server")
	for _, name := range []string{"valkey_version", "redict_version", "redis_version"} {
		for line := range strings.Lines(fmt.Sprint(info)) {
			if version, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
				return strings.TrimSuffix(name, "_version") + "-server " + version
			}
		}
	}
	return "unknown"
}

// versions are those of what is compared, as they are in this program.
func versions() (all []string) {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	all = append(all, built.GoVersion)
	for _, m := range built.Deps {
		switch m.Path {
		case "github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9", "github.com/bsm/redislock", "github.com/redis/rueidis":
			all = append(all, m.Path+" "+m.Version)
		}
	}
	return all
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func orNone(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return short(d)
}
