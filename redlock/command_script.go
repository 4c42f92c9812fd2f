package redlock

import (
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	"encoding/hex"
	"fmt"

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

	// scripts are all scripts that a node must know.
	scripts = []*script{
		&releaseScript, &extendScript, &releaseManyScript, &extendManyScript, &healScript, &shortenScript,
		&acquireAllScript, &releaseAllScript, &extendAllScript, &sealScript,
	}
)

func (s *script) loaded(v resp.Value) error {
	if string(v.Bytes()) != s.digest {
		return fmt.Errorf("redlock: SCRIPT LOAD answered %q, not the script's digest", v.Type())
	}
	return nil
}

// cure returns the commands that load the scripts into a node (R24).
func cure() [][]byte {
	var load [][]byte
	for _, s := range scripts {
		load = append(load, resp.AppendCommand(nil, "SCRIPT", "LOAD", s.source))
	}
	return load
}
