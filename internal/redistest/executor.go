package redistest

import (
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// execute is the node's only thread, as in a real server. It takes one command
// at a time, in the node's Order, and gives the reply to the connection.
func (n *Node) execute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.did.Broadcast()
	for !n.closed {
		n.runErrands()
		n.publish()
		s := n.choose()
		if s == nil {
			n.work.Wait()
			continue
		}
		args, number := n.view.read(s.pop(), s.db)
		db := n.database(number)
		n.count(args)
		n.mu.Unlock()
		// Without the lock: hooks and scripts may call the node's methods.
		out := n.answer(s, args, db)
		n.mu.Lock()
		n.record(s, args, out.bytes)
		s.reply(out)
	}
}

// runErrands does what Between was asked for. The caller must hold the lock.
func (n *Node) runErrands() {
	for !n.paused && len(n.errands) > 0 {
		do := n.errands[0]
		n.errands = n.errands[1:]
		n.mu.Unlock()
		do()
		n.mu.Lock()
		n.did.Broadcast()
	}
}

// choose returns the connection whose first command is to be executed now. When
// all wait for a delay it arms the timer. The caller must hold the lock.
func (n *Node) choose() *session {
	if n.paused {
		return nil
	}
	var (
		best *session
		next time.Time
	)
	now := time.Now()
	for _, s := range n.sessions {
		if len(s.pending) == 0 {
			continue
		}
		if due := s.pending[0].due; due.After(now) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if best == nil || n.before(s, best) {
			best = s
		}
	}
	if best == nil && !next.IsZero() {
		n.wakeAt(next.Sub(now))
	}
	return best
}

// before reports whether a goes before b. Ids grow with each connection, so
// they are the connections' age.
func (n *Node) before(a, b *session) bool {
	switch n.order {
	case OldestFirst:
		return a.id < b.id
	case NewestFirst:
		return a.id > b.id
	}
	return a.pending[0].seq < b.pending[0].seq
}

// wakeAt wakes the executor when the next delay is over. The caller must hold
// the lock.
func (n *Node) wakeAt(d time.Duration) {
	if n.timer != nil {
		n.timer.Stop()
	}
	n.timer = time.AfterFunc(max(pure.Soon, d), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.work.Signal()
	})
}

// changed wakes the goroutines that wait for the node's state. The caller must
// hold the lock.
func (n *Node) changed() {
	n.work.Signal()
	for _, s := range n.sessions {
		s.ready.Broadcast()
	}
}

// answer returns the answer of a refusal, of a hook, or of the command itself.
func (n *Node) answer(s *session, args []string, db *DB) output {
	n.mu.Lock()
	hooks, streams := n.hooks, n.stream
	refusal := n.refusal[name(args)]
	if refusal == "" {
		refusal = n.refusal[subname(args)]
	}
	n.mu.Unlock()

	if refusal != "" {
		return output{bytes: []byte(refusal + "\r\n")}
	}
	for _, h := range hooks {
		if reply, handled := h(s.id, args); handled {
			return output{bytes: reply}
		}
	}
	if streams != nil {
		if f := streams(s.id, args); f != nil {
			return output{stream: f}
		}
	}
	return output{bytes: n.command(s, args, db)}
}

// delay returns how long a command waits before it is executed. The caller must
// hold the lock.
func (n *Node) delay(args []string) time.Duration {
	if d, ok := n.delays[subname(args)]; ok {
		return d
	}
	return n.delays[name(args)]
}

// The callers of count and record must hold the lock.
func (n *Node) count(args []string) {
	n.calls[name(args)]++
	if sub := subname(args); sub != "" {
		n.calls[sub]++
	}
}

func (n *Node) record(s *session, args []string, reply []byte) {
	if len(n.log) >= n.config.LogLimit {
		n.log = append(n.log[:0:0], n.log[len(n.log)/2:]...)
	}
	n.log = append(n.log, Executed{At: time.Now(), Conn: s.id, Args: args, Reply: string(reply)})
}

// name is a command's name in upper case.
func name(args []string) string { return strings.ToUpper(args[0]) }

// subname is "CLIENT KILL" for commands that have subcommands, else empty.
func subname(args []string) string {
	switch n := name(args); n {
	case "CLIENT", "SCRIPT", "CONFIG":
		if len(args) > 1 {
			return n + " " + strings.ToUpper(args[1])
		}
	}
	return ""
}
