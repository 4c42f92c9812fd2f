package redlock

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// A script is a Lua program that the nodes run, and the digest they know it by.
type script struct{ source, digest string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

var (
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string

	//go:embed release_many.lua
	releaseManySource string
	//go:embed extend_many.lua
	extendManySource string

	//go:embed heal.lua
	healSource string
	//go:embed shorten.lua
	shortenSource string

	releaseScript     = newScript(releaseSource)
	extendScript      = newScript(extendSource)
	releaseManyScript = newScript(releaseManySource)
	extendManyScript  = newScript(extendManySource)
	healScript        = newScript(healSource)
	shortenScript     = newScript(shortenSource)

	//go:embed seal.lua
	sealSource string
	sealScript = newScript(sealSource)

	// scripts are all that a node must know.
	scripts = []*script{
		&releaseScript, &extendScript, &releaseManyScript, &extendManyScript, &healScript, &shortenScript, &sealScript,
	}
)

// The three commands of the algorithm, and what their replies mean.
var (
	acquireKind = &multiplex.Kind{Mode: multiplex.Claim, Judge: judgeSet, Undo: releaseKind}
	extendKind  = &multiplex.Kind{Mode: multiplex.Confirm, Judge: judgeScript, Script: true, Merger: extendMerger}
	releaseKind = &multiplex.Kind{
		Mode: multiplex.Confirm, Judge: judgeScript, Script: true, Release: true, Merger: releaseMerger, Native: releaseForms,
	}

	// releaseForms are the native commands that do what release.lua does (R25), Redis' from 8.4 on and Valkey's from 9.0 on.
	// Extensions have none: at maxmemory the script succeeds where SET … IFEQ is refused.
	releaseForms = []multiplex.Form{
		{Name: "DELEX", Head: []byte("*4\r\n$5\r\nDELEX\r\n"), Middle: []byte("$4\r\nIFEQ\r\n"), Step: 0},
		{Name: "DELIFEQ", Head: []byte("*3\r\n$7\r\nDELIFEQ\r\n"), Step: 1},
	}

	// handoverKind releases a lock for which others wait here. It is not merged with others, since a merged release gets its
	// place in the log only when it is written, and the SET of whoever is next must stand behind it.
	handoverKind = &multiplex.Kind{
		Mode: multiplex.Confirm, Judge: judgeScript, Script: true, Release: true, Native: releaseForms,
	}

	releaseMerger = &multiplex.Merger{Kind: manyKind, AppendHead: appendReleaseMany}
	extendMerger  = &multiplex.Merger{Kind: manyKind, AppendHead: appendExtendMany}
	manyKind      = &multiplex.Kind{Judge: judgeOneOfMany, Script: true}
)

// judgeSet takes +OK as a grant and null as a refusal; nothing else answers SET (R16, R17).
func judgeSet(v resp.Value) multiplex.Vote {
	switch {
	case v.IsOK():
		return multiplex.Granted
	case v.IsNull() && v.Type() != resp.Array:
		return multiplex.Refused
	default:
		return multiplex.Alien
	}
}

// judgeScript takes 1 as a grant and 0 as a refusal; the scripts return nothing else (R16).
func judgeScript(v resp.Value) multiplex.Vote {
	n, ok := v.Int64()
	switch {
	case ok && n == 1:
		return multiplex.Granted
	case ok && n == 0:
		return multiplex.Refused
	default:
		return multiplex.Alien
	}
}

// judgeOneOfMany is judgeScript for an element of a merged command's reply, where -1 stands for an error with this key.
func judgeOneOfMany(v resp.Value) multiplex.Vote {
	if n, ok := v.Int64(); ok && n == -1 {
		return multiplex.Failed
	}
	return judgeScript(v)
}

// appendAcquire appends SET key token NX PX ttl (R2): relative time only, since clocks differ.
func (c *Client) appendAcquire(dst []byte, resource string, token *Token, ttl time.Duration) []byte {
	dst = resp.AppendArray(dst, 6)
	dst = resp.AppendBulkString(dst, "SET")
	dst = c.appendKey(dst, resource)
	dst = resp.AppendBulkString(dst, token[:])
	dst = resp.AppendBulkString(dst, "NX")
	dst = resp.AppendBulkString(dst, "PX")
	return appendMilliseconds(dst, ttl)
}

// appendRelease appends the release of one lock. keyPart says where its key lies.
func (c *Client) appendRelease(dst []byte, resource string, token *Token) []byte {
	dst = c.appendScript(dst, &releaseScript, resource, 5)
	return resp.AppendBulkString(dst, token[:])
}

// keyPart is where the key lies in the encoded release or extension of one lock: between the command's head, which has
// the same length for both, and the token.
func (c *Client) keyPart(resource string) multiplex.Part {
	size := len(c.config.Prefix) + len(resource)
	encoded := len("$\r\n\r\n") + size
	for ; size > 0; size /= 10 {
		encoded++ // a digit of the length, which is never 0
	}
	return multiplex.Part{From: scriptHead, To: scriptHead + encoded}
}

var scriptHead = len(appendScriptHead(nil, &releaseScript, 1, 5))

// appendReleaseMany appends the head of the release of n locks; their keys and then their tokens follow.
func appendReleaseMany(dst []byte, n int) []byte {
	return appendScriptHead(dst, &releaseManyScript, n, 3+2*n)
}

// appendExtendMany appends the head of the extension of n locks; their keys, and then each one's token and TTL follow.
func appendExtendMany(dst []byte, n int) []byte {
	return appendScriptHead(dst, &extendManyScript, n, 3+3*n)
}

func (c *Client) appendExtend(dst []byte, resource string, token *Token, ttl time.Duration) []byte {
	dst = c.appendScript(dst, &extendScript, resource, 6)
	dst = resp.AppendBulkString(dst, token[:])
	return appendMilliseconds(dst, ttl)
}

// appendScript appends the beginning of a command with so many arguments that runs a script on the resource's key.
func (c *Client) appendScript(dst []byte, s *script, resource string, arguments int) []byte {
	return c.appendKey(appendScriptHead(dst, s, 1, arguments), resource)
}

// appendScriptHead appends what stands before the keys.
func appendScriptHead(dst []byte, s *script, keys, arguments int) []byte {
	dst = resp.AppendArray(dst, arguments)
	dst = resp.AppendBulkString(dst, "EVALSHA")
	dst = resp.AppendBulkString(dst, s.digest)
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], int64(keys), 10))
}

// appendKey appends prefix and resource as one bulk string: by its length, so that no byte of it can inject anything
// (R19).
func (c *Client) appendKey(dst []byte, resource string) []byte {
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(len(c.config.Prefix)+len(resource)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, c.config.Prefix...)
	dst = append(dst, resource...)
	return append(dst, "\r\n"...)
}

func appendMilliseconds(dst []byte, d time.Duration) []byte {
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], d.Milliseconds(), 10))
}

// cure makes a node know the scripts (R24).
func cure() [][]byte {
	var load [][]byte
	for _, s := range scripts {
		load = append(load, resp.AppendCommand(nil, "SCRIPT", "LOAD", s.source))
	}
	return load
}

// prelude returns what each handshake must show of a node before it gets a lock:
// that it knows the scripts and that the user may run them on our keys, and
// which of these steps may fail by Allow.MissingPermissions. A user who may SET
// but not EVAL would leave orphans, and is refused (R22).
//
// The key of the trial does not exist, so a script on trial gets no further than
// its GET. What else the user may do is tried by commands of its own.
func (c *Client) prelude() (steps []conn.Step, optional trials) {
	resource := "redlock:trial:" + rand.Text() // no lock has this name: DEL is executed
	key := c.config.Prefix + resource
	var token Token
	// The native forms come first, each as the step that its Form names. A server
	// without it, or a user who may not run it, refuses the trial, and gets the
	// script (R25).
	release := c.appendRelease(nil, resource, &token)
	for i := range releaseForms {
		native := releaseForms[i].Append(nil, release, c.keyPart(resource))
		steps = append(steps, conn.Step{Command: native, Check: refused, Optional: true})
	}
	require := func(name string, command []byte, check func(resp.Value) error) {
		if c.config.Allow.MissingPermissions {
			optional = append(optional, trial{len(steps), name})
		}
		step := conn.Step{Command: command, Check: check, Optional: c.config.Allow.MissingPermissions}
		steps = append(steps, explain(step, name))
	}
	for i, load := range cure() {
		require("SCRIPT LOAD", load, scripts[i].loaded)
	}
	const ofScript = "EVALSHA of a script with GET"
	require(ofScript, release, refused)
	require(ofScript, c.appendExtend(nil, resource, &token, time.Second), refused)
	require("DEL", resp.AppendCommand(nil, "DEL", key), nil)
	require("PTTL", resp.AppendCommand(nil, "PTTL", key), nil)
	require("PEXPIRE", resp.AppendCommand(nil, "PEXPIRE", key, "1000"), nil)
	return steps, optional
}

func (s *script) loaded(v resp.Value) error {
	if string(v.Bytes()) != s.digest {
		return fmt.Errorf("redlock: SCRIPT LOAD answered %q, not the script's digest", v.Type())
	}
	return nil
}

func refused(v resp.Value) error {
	if judgeScript(v) != multiplex.Refused {
		return fmt.Errorf("redlock: the trial of a script answered %q, not 0", v.Type())
	}
	return nil
}
