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

// Now and then a lock that is held is compared with what the nodes hold. No
// other client uses its name, so the key has the holder's token or is not there.
// Anything else was put there, or said, by mistake (R16, R17).

// inspectTimeout bounds what an inspection costs when nodes are stopped.
const inspectTimeout = 20 * time.Millisecond

// inspectFromSide asks the nodes over connections of its own, for one caller at
// a time. A node that does not answer at once is left out. A lock that is
// missing on a quorum is excused if a node forgot its keys since.
func (w *worker) inspectFromSide(lock redlock.Lock, start time.Time) {
	if !w.inspecting.TryLock() {
		return
	}
	defer w.inspecting.Unlock()
	token := lock.Token()
	absent, strange := 0, 0
	for _, v := range w.askDirectly("GET", prefix+lock.Resource()) {
		switch {
		case v == nil: // or refused for some time
		case v.IsNull():
			absent++
		case string(v.Bytes()) != string(token[:]):
			strange++
		}
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

// inspectThroughClient asks through the client, among its other
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

// askDirectly sends all nodes a command, and returns their replies; nil for one
// that does not answer at once.
func (w *worker) askDirectly(command ...string) []*resp.Value {
	replies := make([]*resp.Value, len(w.Direct))
	var asking sync.WaitGroup
	for i, path := range w.Direct {
		asking.Go(func() { replies[i] = w.askOne(path, command) })
	}
	asking.Wait()
	return replies
}

func (w *worker) askOne(path string, command []string) *resp.Value {
	conn, err := net.DialTimeout("unix", path, inspectTimeout)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(inspectTimeout))
	if _, err := conn.Write(resp.AppendCommand(resp.AppendCommand(nil, "AUTH", userName, w.Password), command...)); err != nil {
		return nil
	}
	r, authenticated := resp.NewReader(resp.Limits{}), false
	for {
		switch v, ok, err := r.Next(); {
		case err != nil, ok && v.IsError():
			return nil
		case ok && authenticated:
			return &v
		case ok:
			authenticated = true
			continue
		}
		if _, err := r.Fill(conn); err != nil {
			return nil
		}
	}
}
