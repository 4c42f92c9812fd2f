package faults

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/resp"
)

// Looks at what the nodes hold, while a lock is held whose name nobody else knows: the key has the holder's token or is not
// there. Anything else was put there, or said, by mistake (R16, R17).

// A looker asks the nodes from the side, over connections of its own to their unix sockets. One caller at a time looks; a
// node that does not answer at once is left out, since looks shall find mistakes and not measure nodes.
type looker struct {
	paths    []string
	password string
	mu       sync.Mutex // guards the following
	conns    []net.Conn // nil where there is none now
}

// lookTimeout bounds what a look costs when nodes are stopped.
const lookTimeout = 20 * time.Millisecond

func newLooker(paths []string, password string) *looker {
	return &looker{paths: paths, password: password, conns: make([]net.Conn, len(paths))}
}

// lookFromSide compares a lock that is held with what the nodes have. That fewer than a quorum can have it is excused if a
// node forgot its keys since.
func (w *worker) lookFromSide(lock redlock.Lock, start time.Time) {
	token := lock.Token()
	absent, strange, ok := w.looker.look(prefix+lock.Resource(), string(token[:]))
	if !ok {
		return // another looks
	}
	w.looks.Add(1)
	switch most := len(w.Nodes) - (len(w.Nodes)/2 + 1); {
	case lock.Validity() <= 0:
	case strange > 0:
		w.odd(start, false, "mix-up: %d nodes hold another token than that which was granted", strange)
	case absent > most:
		w.odd(start, true, "a lock that was granted is missing on %d of %d nodes", absent, len(w.Nodes))
	}
}

// askThrough puts the same question through the client, among the commands of all others. Each node has to answer with the
// holder's token or nothing.
func (w *worker) askThrough(client *redlock.Client, lock redlock.Lock, start time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	seen, err := client.Inspect(ctx, lock.Resource())
	if err != nil {
		return // too few answered in time
	}
	w.looks.Add(1)
	own := lock.Token().Fingerprint()
	for _, n := range seen.Nodes {
		if n.Err == nil && (n.Foreign || n.Holder != "" && n.Holder != own) && lock.Validity() > 0 {
			w.odd(start, false, "mix-up: asked through the client, a node tells of another holder")
		}
	}
}

// look counts the nodes that certainly have no such key, and those that have one with another value.
func (l *looker) look(key, token string) (absent, strange int, ok bool) {
	if !l.mu.TryLock() {
		return 0, 0, false
	}
	defer l.mu.Unlock()
	deadline := time.Now().Add(lookTimeout)
	var asking sync.WaitGroup
	answers := make([]answer, len(l.paths))
	for i := range l.paths {
		asking.Go(func() { answers[i] = l.ask(i, key, token, deadline) })
	}
	asking.Wait()
	for _, a := range answers {
		switch a {
		case answerAbsent:
			absent++
		case answerStrange:
			strange++
		}
	}
	return absent, strange, true
}

type answer uint8

const (
	answerUnknown answer = iota
	answerOwn
	answerAbsent
	answerStrange
)

// ask asks one node. Any error ends the connection: the next answer on it would be to this question.
func (l *looker) ask(node int, key, token string, deadline time.Time) answer {
	conn := l.conns[node]
	l.conns[node] = nil
	questions, skip := resp.AppendCommand(nil, "GET", key), 0
	if conn == nil {
		var err error
		if conn, err = net.DialTimeout("unix", l.paths[node], time.Until(deadline)); err != nil {
			return answerUnknown
		}
		questions, skip = append(resp.AppendCommand(nil, "AUTH", userName, l.password), questions...), 1
	}
	_ = conn.SetDeadline(deadline)
	value, err := lastReply(conn, questions, skip)
	switch {
	case err != nil || value == nil:
		_ = conn.Close()
		return answerUnknown
	case value.IsError(): // refused for some time: the connection is good
		l.conns[node] = conn
		return answerUnknown
	}
	l.conns[node] = conn
	switch {
	case value.IsNull():
		return answerAbsent
	case string(value.Bytes()) == token:
		return answerOwn
	}
	return answerStrange
}

// lastReply sends commands and returns the reply that comes after so many others, or nil if one of those is an error.
func lastReply(conn net.Conn, commands []byte, skip int) (*resp.Value, error) {
	if _, err := conn.Write(commands); err != nil {
		return nil, err
	}
	r := resp.NewReader(resp.Limits{})
	for {
		v, ok, err := r.Next()
		switch {
		case err != nil:
			return nil, err
		case ok && skip == 0:
			return &v, nil
		case ok && v.IsError():
			return nil, nil
		case ok:
			skip--
			continue
		}
		if _, err := r.Fill(conn); err != nil {
			return nil, err
		}
	}
}

func (l *looker) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.conns {
		if c != nil {
			_ = c.Close()
			l.conns[i] = nil
		}
	}
}
