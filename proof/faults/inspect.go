package faults

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/resp"
)

// An inspector compares a lock that is held with what the nodes hold. No other
// client uses its name, so the key has the holder's token or is not there.
// Anything else was put there, or said, by mistake (R16, R17). It asks the
// nodes over connections of its own to their unix sockets, for one caller at a
// time. A node that does not answer at once is left out.
type inspector struct {
	paths    []string
	password string
	mu       sync.Mutex // guards the following
	conns    []net.Conn // nil where there is none now
}

// inspectTimeout bounds what an inspection costs when nodes are stopped.
const inspectTimeout = 20 * time.Millisecond

func newInspector(paths []string, password string) *inspector {
	return &inspector{paths: paths, password: password, conns: make([]net.Conn, len(paths))}
}

// inspectFromSide compares a lock that is held with what the nodes have. A lock
// that is missing on a quorum is excused if a node forgot its keys since.
func (w *worker) inspectFromSide(lock redlock.Lock, start time.Time) {
	token := lock.Token()
	absent, strange, ok := w.inspector.inspect(prefix+lock.Resource(), string(token[:]))
	if !ok {
		return // another caller inspects
	}
	w.count(Looks)
	switch most := len(w.Nodes) - (len(w.Nodes)/2 + 1); {
	case lock.Validity() <= 0:
	case strange > 0:
		w.odd(start, false, "mix-up: %d nodes hold another token than that which was granted", strange)
	case absent > most:
		w.odd(start, true, "a lock that was granted is missing on %d of %d nodes", absent, len(w.Nodes))
	}
}

// inspectThroughClient asks the same through the client, among its other
// commands. Each node must answer with the holder's token or nothing.
func (w *worker) inspectThroughClient(client *redlock.Client, lock redlock.Lock, start time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	seen, err := admin.Inspect(ctx, client, lock.Resource())
	if err != nil {
		return // too few answered in time
	}
	w.count(Looks)
	own := lock.Token().Fingerprint()
	for _, n := range seen.Nodes {
		if n.Err == nil && (n.Foreign || n.Holder != "" && n.Holder != own) && lock.Validity() > 0 {
			w.odd(start, false, "mix-up: asked through the client, a node tells of another holder")
		}
	}
}

// inspect counts the nodes that certainly have no such key, and those that have
// it with another value. It is not ok while another caller inspects.
func (x *inspector) inspect(key, token string) (absent, strange int, ok bool) {
	if !x.mu.TryLock() {
		return 0, 0, false
	}
	defer x.mu.Unlock()
	deadline := time.Now().Add(inspectTimeout)
	var asking sync.WaitGroup
	answers := make([]answer, len(x.paths))
	for i := range x.paths {
		asking.Go(func() { answers[i] = x.ask(i, key, token, deadline) })
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

// ask asks one node. Any error ends the connection: the next answer on it would
// be to this question.
func (x *inspector) ask(node int, key, token string, deadline time.Time) answer {
	conn := x.conns[node]
	x.conns[node] = nil
	questions, skip := resp.AppendCommand(nil, "GET", key), 0
	if conn == nil {
		var err error
		if conn, err = net.DialTimeout("unix", x.paths[node], time.Until(deadline)); err != nil {
			return answerUnknown
		}
		questions, skip = append(resp.AppendCommand(nil, "AUTH", userName, x.password), questions...), 1
	}
	_ = conn.SetDeadline(deadline)
	value, err := lastReply(conn, questions, skip)
	switch {
	case err != nil || value == nil:
		_ = conn.Close()
		return answerUnknown
	case value.IsError(): // refused for some time: the connection is good
		x.conns[node] = conn
		return answerUnknown
	}
	x.conns[node] = conn
	switch {
	case value.IsNull():
		return answerAbsent
	case string(value.Bytes()) == token:
		return answerOwn
	}
	return answerStrange
}

// lastReply sends commands and returns the reply after skip others, or nil if
// one of those is an error.
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

func (x *inspector) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, c := range x.conns {
		if c != nil {
			_ = c.Close()
			x.conns[i] = nil
		}
	}
}
