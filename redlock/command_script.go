package redlock

import (
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/resp"
)

// A script is a Lua program that the nodes run, and its digest, which
// identifies it.
type script struct{ source, digest string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

var (
	releaseScript     = newScript(lua.Release)
	extendScript      = newScript(lua.Extend)
	releaseManyScript = newScript(lua.ReleaseMany)
	extendManyScript  = newScript(lua.ExtendMany)
	healScript        = newScript(lua.Heal)
	shortenScript     = newScript(lua.Shorten)
	acquireAllScript  = newScript(lua.AcquireAll)
	releaseAllScript  = newScript(lua.ReleaseAll)
	extendAllScript   = newScript(lua.ExtendAll)
	sealScript        = newScript(lua.Seal)
	fencedScript      = newScript(lua.AcquireFenced)
	floorScript       = newScript(lua.Floor)

	// scripts are all scripts that a node must know, and fencedScripts those
	// that it must also know for Config.Fenced.
	scripts = []*script{
		&releaseScript, &extendScript, &releaseManyScript, &extendManyScript, &healScript, &shortenScript,
		&acquireAllScript, &releaseAllScript, &extendAllScript, &sealScript,
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
