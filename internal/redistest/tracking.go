package redistest

import (
	"strings"
	"time"

	"github.com/redmux/redmux/resp"
)

// tracking is CLIENT TRACKING as far as a lock's client uses it: OPTIN, where
// CLIENT CACHING YES makes the next command register its key, once. A push
// follows when the key changes or expires.
type tracking struct {
	// Guarded by the node's mu.
	keys    map[string]map[*session]struct{}
	changes []change // not yet pushed
}

// change is a key of database 0 that changed, or all of them.
type change struct {
	key string
	all bool
}

// expiryLag is how long after its TTL a tracked key is found to have expired:
// real servers look 4 to 18 ms after it.
const expiryLag = 10 * time.Millisecond

// clientTracking is CLIENT TRACKING ON OPTIN, and OFF. Without RESP3 it would
// need a redirection, which is not here.
func (c *call) clientTracking() []byte {
	switch options := strings.ToUpper(strings.Join(c.args[1:], " ")); {
	case options == "OFF":
		c.s.tracks, c.s.caching = false, false
	case options != "ON OPTIN":
		return fail("ERR syntax error")
	case c.s.proto != 3:
		return fail("ERR Client tracking can be enabled only in RESP3 or with a redirection")
	default:
		c.s.tracks = true
	}
	return ok()
}

// clientCaching is CLIENT CACHING YES.
func (c *call) clientCaching() []byte {
	if !c.s.tracks {
		return fail("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	}
	c.s.caching = true
	return ok()
}

// track registers the key of a command that reads, if the command before said
// so. The executor calls it.
func (c *call) track(command string) {
	if !c.s.caching || command == "CLIENT" {
		return
	}
	c.s.caching = false
	if command != "GET" && command != "PTTL" {
		return
	}
	key := c.args[0]
	n := c.node
	n.awaitExpiry(c.db, key)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracked.keys == nil {
		n.tracked.keys = make(map[string]map[*session]struct{})
	}
	if n.tracked.keys[key] == nil {
		n.tracked.keys[key] = make(map[*session]struct{})
	}
	n.tracked.keys[key][c.s] = struct{}{}
}

// awaitExpiry looks for a key right after its end, if it has one.
func (n *Node) awaitExpiry(db *DB, key string) {
	if ttl, _ := db.TTL(key); ttl > 0 {
		time.AfterFunc(n.clock.Lasts(ttl)+expiryLag, func() { db.Get(key) }) // which finds that it has expired, if it has
	}
}

// recheckExpiry is called when the node's clock is set, which changes when
// tracked keys expire.
func (n *Node) recheckExpiry() {
	n.mu.Lock()
	db := n.database(0)
	var keys []string
	for key := range n.tracked.keys {
		keys = append(keys, key)
	}
	n.mu.Unlock()
	for _, key := range keys {
		n.awaitExpiry(db, key)
		time.AfterFunc(expiryLag, func() { db.Get(key) })
	}
}

// noteChange is called for each change of database 0, by commands, scripts and
// tests.
func (n *Node) noteChange(c change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.tracked.keys) > 0 || c.all {
		n.tracked.changes = append(n.tracked.changes, c)
		n.work.Signal()
	}
}

// publish pushes what changed to those who asked, behind the reply to the
// command that changed it. The executor calls it, with the lock.
func (n *Node) publish() {
	if n.paused {
		return
	}
	for _, c := range n.tracked.changes {
		if c.all {
			for _, s := range n.sessions {
				if s.tracks {
					s.say(resp.AppendNull(invalidation()))
				}
			}
			clear(n.tracked.keys)
			continue
		}
		for s := range n.tracked.keys[c.key] {
			s.say(bulks(resp.AppendArray(invalidation(), 1), n.view.Prefix+c.key))
		}
		delete(n.tracked.keys, c.key)
	}
	n.tracked.changes = nil
}

func invalidation() []byte { return bulks(resp.AppendPush(nil, 2), "invalidate") }

// Push writes bytes that no command asked for to every client: spurious or
// hostile pushes.
func (n *Node) Push(bytes string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sessions {
		s.say([]byte(bytes))
	}
}

// say needs the node's lock.
func (s *session) say(b []byte) {
	if s.dead || s.closing {
		return
	}
	s.outputs = append(s.outputs, output{bytes: b})
	s.ready.Broadcast()
}
