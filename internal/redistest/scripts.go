package redistest

import (
	"strconv"
	"strings"

	"github.com/redmux/redmux/resp"
)

// A node runs scripts as a real server does, from the SHA1 to NOSCRIPT. For a
// source that a test names, a Go function of the test stands instead.

// script is SCRIPT LOAD, EXISTS and FLUSH.
func (c *call) script() []byte {
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	switch strings.ToUpper(c.args[0]) {
	case "LOAD":
		if len(c.args) != 2 {
			return wrongNumber("script|load")
		}
		sha := SHA1(c.args[1])
		n.load(sha, c.args[1])
		return resp.AppendBulkString(nil, sha)
	case "EXISTS":
		b := resp.AppendArray(nil, len(c.args)-1)
		for _, sha := range c.args[1:] {
			_, known := n.loaded[strings.ToLower(sha)]
			b = append(b, boolean(known)...)
		}
		return b
	case "FLUSH":
		clear(n.loaded)
		return ok()
	}
	return unknownSubcommand("SCRIPT", c.args[0])
}

// eval loads the script too, as a real server does.
func (c *call) eval() []byte {
	sha := SHA1(c.args[0])
	c.node.mu.Lock()
	c.node.load(sha, c.args[0])
	c.node.mu.Unlock()
	return c.run(sha)
}

// evalsha takes the SHA1 in either case and answers NOSCRIPT to one that was
// not loaded since the last restart or flush (R24).
func (c *call) evalsha() []byte {
	sha := strings.ToLower(c.args[0])
	c.node.mu.Lock()
	_, loaded := c.node.loaded[sha]
	c.node.mu.Unlock()
	if !loaded {
		return fail("NOSCRIPT No matching script. Please use EVAL.")
	}
	return c.run(sha)
}

// load keeps a script. The caller must hold the lock.
func (n *Node) load(sha, source string) { n.loaded[sha] = source }

// run runs a script, or the Go function that stands for it.
func (c *call) run(sha string) []byte {
	n, err := strconv.Atoi(c.args[1])
	switch {
	case err != nil:
		return fail("ERR value is not an integer or out of range")
	case n < 0:
		return fail("ERR Number of keys can't be negative")
	case n > len(c.args)-2:
		return fail("ERR Number of keys can't be greater than number of args")
	}
	c.node.mu.Lock()
	f, source := c.node.scripts[sha], c.node.loaded[sha]
	c.node.mu.Unlock()
	keys, args := c.args[2:2+n], c.args[2+n:]
	if f != nil {
		return c.encode(nil, f(keys, args, c.db))
	}
	return c.runScript(sha, source, keys, args)
}
