package redistest

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/redmux/redmux/resp"
)

// Nodes run the scripts that real servers run, in Lua. What the interpreter
// lacks of a server's, or gets wrong, they do not use: see TestScriptsAreSound.

// programs are compiled scripts, by SHA1: a compiled one never changes.
var programs sync.Map // of *lua.FunctionProto

// An interpreter runs one script at a time, for any node.
type interpreter struct {
	state   *lua.LState
	execute func(args []string) []byte // a command of the script that runs
	replies *resp.Reader
}

var interpreters = sync.Pool{New: func() any { return newInterpreter() }}

func newInterpreter() *interpreter {
	it := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true}), replies: resp.NewReader(resp.Limits{})}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		it.state.Push(it.state.NewFunction(open))
		it.state.Push(lua.LString(name))
		it.state.Call(1, 0)
	}
	redis := it.state.NewTable()
	it.state.SetFuncs(redis, map[string]lua.LGFunction{
		"call": it.callOrRaise, "pcall": it.callOrReturn,
		"sha1hex":      func(l *lua.LState) int { l.Push(lua.LString(SHA1(l.CheckString(1)))); return 1 },
		"error_reply":  func(l *lua.LState) int { l.Push(field(l, "err", l.CheckString(1))); return 1 },
		"status_reply": func(l *lua.LState) int { l.Push(field(l, "ok", l.CheckString(1))); return 1 },
	})
	it.state.SetGlobal("redis", redis)
	it.state.SetGlobal("tonumber", it.state.NewFunction(toNumber))
	return it
}

// toNumber is tonumber, for decimal numbers of any length: the library's own
// takes integers of 64 bits, and raises an error for none.
func toNumber(l *lua.LState) int {
	v := l.Get(1)
	if text, ok := v.(lua.LString); ok {
		v = lua.LNil
		if n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil || errors.Is(err, strconv.ErrRange) {
			v = lua.LNumber(n)
		}
	}
	if v.Type() != lua.LTNumber {
		v = lua.LNil
	}
	l.Push(v)
	return 1
}

// field returns a table with one field: an error or a status.
func field(l *lua.LState, name, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString(name, lua.LString(text))
	return t
}

// program returns a script as it was compiled, or why it cannot be.
func program(sha, source string) (*lua.FunctionProto, error) {
	if p, ok := programs.Load(sha); ok {
		return p.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), "@user_script")
	if err != nil {
		return nil, err
	}
	p, err := lua.Compile(chunk, "@user_script")
	if err == nil {
		programs.Store(sha, p)
	}
	return p, err
}

// runScript runs a script, and returns its reply.
func (c *call) runScript(sha, source string, keys, args []string) []byte {
	p, err := program(sha, source)
	if err != nil {
		return failf("ERR Error compiling script (new function): %v", err)
	}
	it := interpreters.Get().(*interpreter)
	defer func() {
		it.execute = nil // it would keep the node
		interpreters.Put(it)
	}()
	l := it.state
	it.execute = c.commander(keys)
	l.SetGlobal("KEYS", list(l, keys))
	l.SetGlobal("ARGV", list(l, args))
	l.Push(l.NewFunctionFromProto(p))
	if err := l.PCall(0, 1, nil); err != nil {
		return failf("%s script: %s, on @user_script.", raised(err), sha)
	}
	defer l.Pop(1)
	return c.appendLua(nil, l.Get(-1))
}

// commander returns what executes the commands of a script with the given keys.
// They speak RESP2, and select a database for themselves alone. One with another
// key is refused, and fails the test.
func (c *call) commander(keys []string) func(args []string) []byte {
	n, s, db := c.node, &session{node: c.node, id: c.s.id, proto: 2, db: c.s.db, authed: true}, c.db
	return func(args []string) []byte {
		if problem := undeclared(keys, args); problem != "" {
			if n.view.stray != nil {
				n.view.stray(problem)
			}
			return fail("ERR " + problem)
		}
		was := s.db
		reply := n.command(s, args, db)
		if s.db != was {
			n.mu.Lock()
			db = n.database(n.view.database(s.db))
			n.mu.Unlock()
		}
		return reply
	}
}

// raised is the text of an error that a script did not catch.
func raised(err error) string {
	if e, ok := err.(*lua.ApiError); ok {
		if t, ok := e.Object.(*lua.LTable); ok {
			return t.RawGetString("err").String()
		}
		return "ERR " + e.Object.String()
	}
	return "ERR " + err.Error()
}

func list(l *lua.LState, all []string) *lua.LTable {
	t := l.CreateTable(len(all), 0)
	for _, s := range all {
		t.Append(lua.LString(s))
	}
	return t
}

// appendLua appends what a script returned, as a real server does: numbers are
// cut to integers, and an array ends before its first nil.
func (c *call) appendLua(b []byte, v lua.LValue) []byte {
	switch v := v.(type) {
	case lua.LString:
		return resp.AppendBulkString(b, string(v))
	case lua.LNumber:
		return resp.AppendInteger(b, int64(v))
	case lua.LBool:
		if v {
			return resp.AppendInteger(b, 1)
		}
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return resp.AppendSimpleError(b, string(text))
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return resp.AppendSimpleString(b, string(text))
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		b = resp.AppendArray(b, n)
		for i := range n {
			b = c.appendLua(b, v.RawGetInt(i+1))
		}
		return b
	}
	return append(b, c.null()...)
}

// callOrRaise is redis.call.
func (it *interpreter) callOrRaise(l *lua.LState) int {
	v := it.run(l)
	if t, ok := v.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
		l.Error(t, 0)
	}
	l.Push(v)
	return 1
}

// callOrReturn is redis.pcall.
func (it *interpreter) callOrReturn(l *lua.LState) int {
	l.Push(it.run(l))
	return 1
}

// run executes the command that a script calls, and returns its reply.
func (it *interpreter) run(l *lua.LState) lua.LValue {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = decimal(float64(v))
		default:
			return field(l, "err", "ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		return field(l, "err", "ERR Please specify at least one argument for this redis.call() call")
	}
	it.replies.Reset()
	for reply := it.execute(args); len(reply) > 0; {
		n := copy(it.replies.Space(), reply)
		it.replies.Commit(n)
		reply = reply[n:]
	}
	v, _, err := it.replies.Next()
	if err != nil {
		return field(l, "err", "ERR "+err.Error())
	}
	return fromReply(l, v)
}

// fromReply returns a reply as a script sees it: null is false, and a status or
// an error is a table.
func fromReply(l *lua.LState, v resp.Value) lua.LValue {
	switch {
	case v.IsNull():
		return lua.LFalse
	case v.IsError():
		return field(l, "err", string(v.Bytes()))
	}
	switch v.Type() {
	case resp.SimpleString:
		return field(l, "ok", string(v.Bytes()))
	case resp.Integer:
		n, _ := v.Int64()
		return lua.LNumber(n)
	case resp.Array:
		t := l.CreateTable(v.Len(), 0)
		for e := range v.Elements() {
			t.Append(fromReply(l, e))
		}
		return t
	}
	return lua.LString(v.Bytes())
}

// decimal writes a number as a server passes it to a command.
func decimal(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', 17, 64)
}
