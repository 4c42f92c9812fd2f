package redistest

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/resp"
)

// call is a command being executed. The append methods of replies that differ
// between RESP2 and RESP3 hang on it.
type call struct {
	node *Node
	s    *session
	db   *DB
	args []string // without the command's name
}

// commands maps a name to the function that executes the command and the least
// number of its arguments. All other commands are unknown, as on an old server;
// a test that needs more adds a hook.
var commands map[string]struct {
	least int
	run   func(*call) []byte
}

// Scripts execute commands, and EVAL is one.
func init() {
	commands = map[string]struct {
		least int
		run   func(*call) []byte
	}{
		"HELLO": {0, (*call).hello}, "AUTH": {1, (*call).auth}, "SELECT": {1, (*call).selectDB},
		"PING": {0, (*call).ping}, "QUIT": {0, (*call).quit}, "TIME": {0, (*call).time},
		"CLIENT": {1, (*call).client}, "INFO": {0, (*call).info}, "ROLE": {0, (*call).role},
		"SET": {2, (*call).set}, "GET": {1, (*call).get}, "DEL": {1, (*call).del},
		"EXISTS": {1, (*call).exists}, "PTTL": {1, (*call).pttl}, "PEXPIRE": {2, (*call).pexpire},
		"DBSIZE": {0, (*call).dbsize}, "SCAN": {1, (*call).scan}, "FLUSHALL": {0, (*call).flushall},
		"SCRIPT": {1, (*call).script}, "EVAL": {2, (*call).eval}, "EVALSHA": {2, (*call).evalsha},
		"DELEX": {1, (*call).delex}, "DELIFEQ": {2, (*call).delifeq}, "MGET": {1, (*call).mget},
		"ZADD": {3, (*call).zadd}, "ZRANGE": {3, (*call).zrange}, "ZRANK": {2, (*call).zrank}, "ZSCORE": {2, (*call).zscore},
		"ZCARD": {1, (*call).zcard}, "ZREM": {2, (*call).zrem}, "ZREMRANGEBYSCORE": {3, (*call).zremrangebyscore},
		"HSET": {3, (*call).hset}, "HDEL": {2, (*call).hdel}, "HMGET": {2, (*call).hmget}, "HGETALL": {1, (*call).hgetall}, "HLEN": {1, (*call).hlen},
	}
}

// command executes one and returns its reply.
func (n *Node) command(s *session, args []string, db *DB) []byte {
	c := &call{node: n, s: s, db: db, args: args[1:]}
	cmd, ok := commands[name(args)]
	if !ok || n.unknown(name(args)) {
		return unknownCommand(args)
	}
	if !s.authed && name(args) != "HELLO" && name(args) != "AUTH" && name(args) != "QUIT" {
		return fail("NOAUTH Authentication required.")
	}
	if len(c.args) < cmd.least {
		return wrongNumber(strings.ToLower(args[0]))
	}
	if n.refusesAsReplica(name(args)) {
		return fail("READONLY You can't write against a read only replica.")
	}
	defer c.track(name(args))
	return cmd.run(c)
}

// refusesAsReplica reports whether a node that follows another refuses a
// command. Of a script it does not know whether it writes.
func (n *Node) refusesAsReplica(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.following && slices.Contains(writers, name)
}

// writers are the commands that write.
var writers = []string{"SET", "DEL", "PEXPIRE", "FLUSHALL", "EVAL", "EVALSHA", "DELEX", "DELIFEQ"}

// unknown reports whether this version of a server does not have a command.
func (n *Node) unknown(name string) bool {
	switch name {
	case "HELLO":
		return n.config.NoHello
	case "DELEX", "DELIFEQ":
		return !n.has(name)
	}
	return false
}

// has reports whether this version of a server has a native command.
func (n *Node) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return map[string]bool{"DELEX": n.config.DELEX, "DELIFEQ": n.config.DELIFEQ, "NXGET": n.config.NXGET}[name]
}

func (c *call) ping() []byte {
	if len(c.args) > 0 {
		return resp.AppendBulkString(nil, c.args[0])
	}
	return resp.AppendSimpleString(nil, "PONG")
}

// quit answers before the connection is closed. Commands behind it are lost.
func (c *call) quit() []byte {
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	c.s.closing = true
	return ok()
}

// time is seconds and microseconds of the node's clock.
func (c *call) time() []byte {
	now := c.node.clock.Now()
	b := resp.AppendArray(nil, 2)
	b = resp.AppendBulkString(b, strconv.FormatInt(now.Unix(), 10))
	return resp.AppendBulkString(b, strconv.Itoa(now.Nanosecond()/1000))
}

// set knows the options that an implementation of the algorithm may send (R2),
// and refuses all others, so that a test notices a new one.
func (c *call) set() []byte {
	var (
		nx, xx, get bool
		ttl         time.Duration
	)
	for i := 2; i < len(c.args); i++ {
		switch option := strings.ToUpper(c.args[i]); {
		case option == "NX":
			nx = true
		case option == "XX":
			xx = true
		case option == "GET":
			get = true
		case (option == "PX" || option == "EX") && i+1 < len(c.args):
			unit := time.Millisecond
			if option == "EX" {
				unit = time.Second
			}
			i++
			n, err := strconv.ParseInt(c.args[i], 10, 64)
			if err != nil {
				return fail("ERR value is not an integer or out of range")
			}
			if n <= 0 || n > int64(1<<62)/int64(unit) {
				return fail("ERR invalid expire time in 'set' command")
			}
			ttl = time.Duration(n) * unit
		default:
			return fail("ERR syntax error")
		}
	}
	if nx && xx || get && !c.node.has("NXGET") {
		return fail("ERR syntax error")
	}
	value, there := c.db.Get(c.args[0])
	refused := nx && there || xx && !there
	if !refused {
		c.db.Set(c.args[0], c.args[1], ttl)
	}
	switch {
	case get && there:
		return resp.AppendBulkString(nil, value)
	case get || refused:
		return c.null()
	}
	return ok()
}

func (c *call) get() []byte {
	if !c.db.isText(c.args[0]) {
		return wrongType()
	}
	value, ok := c.db.Get(c.args[0])
	if !ok {
		return c.null()
	}
	return resp.AppendBulkString(nil, value)
}

// mget says nothing of a key of another type.
func (c *call) mget() []byte {
	b := resp.AppendArray(nil, len(c.args))
	for _, key := range c.args {
		if value, ok := c.db.Get(key); ok && c.db.isText(key) {
			b = resp.AppendBulkString(b, value)
		} else {
			b = append(b, c.null()...)
		}
	}
	return b
}

// del counts the keys that lived.
func (c *call) del() []byte {
	n := 0
	for _, key := range c.args {
		if c.db.Delete(key) {
			n++
		}
	}
	return integer(n)
}

// exists counts a key as often as it is named, as a real server does.
func (c *call) exists() []byte {
	n := 0
	for _, key := range c.args {
		if _, ok := c.db.Get(key); ok {
			n++
		}
	}
	return integer(n)
}

// pttl cuts to whole milliseconds, so the answer is never longer than the
// truth.
func (c *call) pttl() []byte {
	ttl, ok := c.db.TTL(c.args[0])
	switch {
	case !ok:
		return integer(-2)
	case ttl == 0:
		return integer(-1)
	}
	return integer(int(ttl.Milliseconds()))
}

func (c *call) pexpire() []byte {
	n, err := strconv.ParseInt(c.args[1], 10, 64)
	if err != nil {
		return fail("ERR value is not an integer or out of range")
	}
	return boolean(c.db.Expire(c.args[0], time.Duration(n)*time.Millisecond))
}

func (c *call) dbsize() []byte { return integer(len(c.db.Keys())) }

// scan is SCAN cursor [MATCH pattern] [COUNT count]. A cursor is how many keys,
// in the order of their names, were looked at before.
func (c *call) scan() []byte {
	pattern, count := "*", 10
	for i := 1; i+1 < len(c.args); i += 2 {
		switch strings.ToUpper(c.args[i]) {
		case "MATCH":
			pattern = c.args[i+1]
		case "COUNT":
			count, _ = strconv.Atoi(c.args[i+1])
		default:
			return fail("ERR syntax error")
		}
	}
	from, err := strconv.Atoi(c.args[0])
	if err != nil || from < 0 {
		return fail("ERR invalid cursor")
	}
	if count < 1 {
		return fail("ERR syntax error")
	}
	keys, next := c.db.Keys(), 0
	slices.Sort(keys)
	keys = keys[min(from, len(keys)):]
	if len(keys) > count {
		keys, next = keys[:count], from+count
	}
	var names [][]byte
	for _, key := range keys {
		if name := c.node.view.Prefix + key; globs(pattern, name) {
			names = append(names, resp.AppendBulkString(nil, name))
		}
	}
	b := resp.AppendArray(nil, 2)
	b = resp.AppendBulkString(b, strconv.Itoa(next))
	return append(resp.AppendArray(b, len(names)), bytes.Join(names, nil)...)
}

// globs reports whether a name matches a pattern of literal text, with a
// backslash before what is special, and at most one * at its end.
func globs(pattern, name string) bool {
	for ; pattern != ""; pattern, name = pattern[1:], name[1:] {
		switch {
		case pattern == "*":
			return true
		case pattern[0] == '\\' && len(pattern) > 1:
			pattern = pattern[1:]
		case strings.ContainsRune("*?[]", rune(pattern[0])):
			panic("redistest: nodes in memory know no such pattern: " + pattern)
		}
		if name == "" || name[0] != pattern[0] {
			return false
		}
	}
	return name == ""
}

// flushall empties only the selected database.
func (c *call) flushall() []byte {
	c.db.flush()
	return ok()
}

// delex is DELEX key [IFEQ value].
func (c *call) delex() []byte {
	switch {
	case len(c.args) == 1:
		return boolean(c.db.Delete(c.args[0]))
	case len(c.args) == 3 && strings.EqualFold(c.args[1], "IFEQ"):
		return boolean(c.db.DeleteIf(c.args[0], c.args[2]))
	}
	return fail("ERR syntax error")
}

// delifeq is DELIFEQ key value, Valkey's name for the same.
func (c *call) delifeq() []byte { return boolean(c.db.DeleteIf(c.args[0], c.args[1])) }
