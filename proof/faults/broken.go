package faults

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Ways to be wrong on purpose. Tests of this package use them: a run with one
// of them must end with violations.
const (
	// brokenQuorum makes each process ask one node only, not the same one for
	// all.
	brokenQuorum = "no-quorum"
	// brokenRelease deletes the key some time after the lock was released,
	// whichever holder has it then.
	brokenRelease = "plain-del"
	// brokenOrphan leaves a key behind after each hundredth release.
	brokenOrphan = "orphan"
	// brokenReplies swaps two replies of different kinds now and then.
	brokenReplies = "swapped-replies"
	// brokenNumber tells of fencing numbers of a second ago, now and then.
	brokenNumber = "old-number"
	// brokenSet takes the first of several resources for all of them.
	brokenSet = "part-of-a-set"
	// brokenWriter lets readers write.
	brokenWriter = "reader-writes"
	// brokenPermits has a semaphore of its own in each process.
	brokenPermits = "own-permits"
	// brokenQueue takes a fair lock without the queue, every second time.
	brokenQueue = "no-queue"
	// brokenLeader leads on for a while when its term is over.
	brokenLeader = "leads-on"
)

// Broken lists them.
func Broken() []string {
	return []string{brokenQuorum, brokenRelease, brokenOrphan, brokenReplies, brokenNumber, brokenSet, brokenWriter, brokenPermits,
		brokenQueue, brokenLeader}
}

// breakConfig breaks the configuration of a client.
func (w *worker) breakConfig(config *redlock.Config) {
	switch w.Broken {
	case brokenQuorum:
		config.Nodes = config.Nodes[w.Name%len(config.Nodes):][:1]
		config.MaxTTL, config.Forgetful, config.Fenced = 0, true, false // or it would be refused (R30)
	case brokenReplies:
		config.Connect.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return swapper{c}, nil
		}
	}
}

// breakNumber is called with the number of each lock, or 0.
func (w *worker) breakNumber(number uint64) uint64 {
	if w.Broken == brokenNumber && number != 0 && w.broken.Add(1)%16 == 0 {
		number -= uint64(time.Second / time.Microsecond)
	}
	return number
}

// breakSet is called with the resources of each lock.
func (w *worker) breakSet(resources []string) []string {
	if w.Broken == brokenSet {
		return resources[:1]
	}
	return resources
}

// breakWriter is called with the lock of each writer.
func (w *worker) breakWriter(rw redlock.RWLock) redlock.Locker {
	if w.Broken == brokenWriter {
		return rw.Read()
	}
	return rw.Write()
}

// breakPermits is called with the name of the semaphore.
func (w *worker) breakPermits(name string) string {
	if w.Broken == brokenPermits {
		name += fmt.Sprint(w.Name)
	}
	return name
}

// breakQueue is called for each fair lock, and reports whether a plain one is
// taken instead.
func (w *worker) breakQueue() bool { return w.Broken == brokenQueue && w.broken.Add(1)%2 == 0 }

// breakLeader is called when a hold is about to be released, and reports whether
// it is a leader's, who goes on.
func (w *worker) breakLeader(b bid) bool { return w.Broken == brokenLeader && b.caller == candidate }

// breakRelease is called before each release.
func (w *worker) breakRelease(lock redlock.Lock) {
	key := prefix + lock.Resources()[0]
	switch {
	case w.Broken == brokenRelease:
		time.AfterFunc(2*time.Millisecond, func() { w.askDirectly("DEL", key) })
	case w.Broken == brokenOrphan && w.broken.Add(1)%100 == 0:
		token := lock.Token()
		time.AfterFunc(10*time.Millisecond, func() {
			w.askDirectly("SET", key, string(token[:]), "PX", fmt.Sprint(w.MaxTTL.Milliseconds()))
		})
	}
}

// A swapper is a connection that swaps a grant and a refusal that arrive
// together.
type swapper struct{ net.Conn }

// Read waits as the connection does. It returns what that returns, swapped.
func (s swapper) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	grant, refusal := []byte("+OK\r\n_\r\n"), []byte("_\r\n+OK\r\n")
	if i := bytes.Index(b[:n], grant); i >= 0 {
		copy(b[i:], refusal)
	} else if i := bytes.Index(b[:n], refusal); i >= 0 {
		copy(b[i:], grant)
	}
	return n, err
}
