package redlock

import (
	"fmt"
	"slices"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/resp"
)

// A script is a Lua program that the nodes run, and its digest, which
// identifies it.
type script struct {
	source, digest string
	head           string // of a call with one key; see withHead
}

func newScript(source string) script { return script{source: source, digest: lua.Digest(source)} }

// withHead returns the script with what stands before the key in a call that
// has one key and the given number of arguments, encoded once for all calls.
func (s script) withHead(arguments int) script {
	s.head = string(appendScriptHead(nil, &s, 1, arguments))
	return s
}

var (
	releaseScript       = newScript(lua.Release).withHead(5)
	extendScript        = newScript(lua.Extend).withHead(7)
	releaseManyScript   = newScript(lua.ReleaseMany)
	extendManyScript    = newScript(lua.ExtendMany)
	healScript          = newScript(lua.Heal).withHead(7)
	shortenScript       = newScript(lua.Shorten).withHead(6)
	acquireAllScript    = newScript(lua.AcquireAll)
	releaseAllScript    = newScript(lua.ReleaseAll)
	extendAllScript     = newScript(lua.ExtendAll)
	readScript          = newScript(lua.Read)
	writeScript         = newScript(lua.Write)
	downgradeScript     = newScript(lua.Downgrade)
	extendReadScript    = newScript(lua.ExtendRead)
	releaseReadScript   = newScript(lua.ReleaseRead)
	acquirePermitScript = newScript(lua.AcquirePermit)
	extendPermitScript  = newScript(lua.ExtendPermit)
	releaseMarkedScript = newScript(lua.ReleaseMarked)
	askFairScript       = newScript(lua.AskFair)
	releaseFairScript   = newScript(lua.ReleaseFair)
	sealScript          = newScript(lua.Seal)
	fencedScript        = newScript(lua.AcquireFenced)
	floorScript         = newScript(lua.Floor)

	// scripts are all scripts that a node must know, and fencedScripts those
	// that it must also know for Config.Fenced.
	scripts = []*script{
		&releaseScript, &extendScript, &releaseManyScript, &extendManyScript, &healScript, &shortenScript,
		&acquireAllScript, &releaseAllScript, &extendAllScript, &sealScript,
		&readScript, &writeScript, &downgradeScript, &extendReadScript, &releaseReadScript,
		&acquirePermitScript, &extendPermitScript, &releaseMarkedScript,
		&askFairScript, &releaseFairScript,
	}
	fencedScripts = []*script{&fencedScript, &floorScript}
)

// scripts returns what a node must know for this client.
func (c *Client) scripts() []*script {
	if c.config.Fenced {
		return append(slices.Clone(scripts), fencedScripts...)
	}
	return scripts
}

func (s *script) loaded(v resp.Value) error {
	if string(v.Bytes()) != s.digest {
		return fmt.Errorf("redlock: SCRIPT LOAD answered %q, not the script's digest", v.Type())
	}
	return nil
}

// cure returns the commands that load scripts into a node (R24).
func cure(scripts []*script) [][]byte {
	var load [][]byte
	for _, s := range scripts {
		load = append(load, resp.AppendCommand(nil, "SCRIPT", "LOAD", s.source))
	}
	return load
}
