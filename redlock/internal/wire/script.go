package wire

import (
	"fmt"
	"strconv"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// A Script is a Lua program for the nodes, and its digest, its name there.
type Script struct {
	Source, Digest string
	head           string // of a call with one key; see withHead
}

// NewScript returns a script.
func NewScript(source string) Script {
	return Script{Source: source, Digest: lua.Digest(source)}
}

// withHead returns the script with what stands before the key in a call with
// one key and the given number of arguments, encoded once for all calls.
func (s Script) withHead(arguments int) Script {
	s.head = string(s.Call(nil, 1, arguments))
	return s
}

// The scripts of locks, and those of seals and fencing numbers.
var (
	Release       = NewScript(lua.Release).withHead(5)
	Extend        = NewScript(lua.Extend).withHead(7)
	ReleaseMany   = NewScript(lua.ReleaseMany)
	ExtendMany    = NewScript(lua.ExtendMany)
	Heal          = NewScript(lua.Heal).withHead(7)
	Shorten       = NewScript(lua.Shorten).withHead(6)
	AcquireAll    = NewScript(lua.AcquireAll)
	ReleaseAll    = NewScript(lua.ReleaseAll)
	ExtendAll     = NewScript(lua.ExtendAll)
	Read          = NewScript(lua.Read)
	Write         = NewScript(lua.Write)
	Downgrade     = NewScript(lua.Downgrade)
	ExtendRead    = NewScript(lua.ExtendRead)
	ReleaseRead   = NewScript(lua.ReleaseRead)
	AcquirePermit = NewScript(lua.AcquirePermit)
	ExtendPermit  = NewScript(lua.ExtendPermit)
	ReleasePermit = NewScript(lua.ReleasePermit)
	ReleaseMarked = NewScript(lua.ReleaseMarked)
	AskFair       = NewScript(lua.AskFair)
	ReleaseFair   = NewScript(lua.ReleaseFair)
	Seal          = NewScript(lua.Seal)
	AcquireFenced = NewScript(lua.AcquireFenced)
	Floor         = NewScript(lua.Floor)
)

// Scripts returns what a node must know, and for fencing numbers also the
// scripts of those.
func Scripts(fenced bool) (all []Script) {
	for _, source := range lua.Locks() {
		all = append(all, NewScript(source))
	}
	if fenced {
		for _, source := range lua.Numbers() {
			all = append(all, NewScript(source))
		}
	}
	return all
}

// Call appends the arguments before the keys of a call.
func (s *Script) Call(dst []byte, keys, arguments int) []byte {
	dst = resp.AppendArray(dst, arguments)
	dst = Text(dst, "EVALSHA")
	dst = Text(dst, s.Digest)
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], int64(keys), 10))
}

// Loaded checks the reply to SCRIPT LOAD.
func (s *Script) Loaded(v resp.Value) error {
	if string(v.Bytes()) != s.Digest {
		return fmt.Errorf("redlock: SCRIPT LOAD answered %q, not the script's digest", v.Type())
	}
	return nil
}

// Load returns the command to load the script.
func (s *Script) Load() []byte { return resp.AppendCommand(nil, "SCRIPT", "LOAD", s.Source) }

// Cure returns the commands to load scripts into a node (R24).
func Cure(scripts []Script) (load [][]byte) {
	for _, s := range scripts {
		load = append(load, s.Load())
	}
	return load
}

// SealOf returns the commands to read and write a node's seal.
func SealOf(prefix string) multiplex.Seal {
	seal := prefix + SealName
	return multiplex.Seal{
		Read: resp.AppendCommand(nil, "GET", seal),
		Write: func(args ...string) []byte {
			return resp.AppendCommand(nil, append([]string{"EVALSHA", Seal.Digest, "1", seal}, args...)...)
		},
	}
}

// ReadRecord returns the command to read a node's record of fencing numbers.
func ReadRecord(prefix string) []byte { return resp.AppendCommand(nil, "GET", prefix+RecordName) }

// WriteFloor encodes a call of floor.lua for the process with a run id, with
// its last arguments.
func WriteFloor(prefix, seal, run string, numbers ...string) []byte {
	if run == "" {
		run = pure.NoRun
	}
	args := append([]string{"EVALSHA", Floor.Digest, "2", prefix + RecordName, prefix + SealName, seal, run}, numbers...)
	return resp.AppendCommand(nil, args...)
}
