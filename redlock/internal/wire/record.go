package wire

import (
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// SealOf returns the commands to read and write the nodes' seals.
func SealOf(prefix string) multiplex.Seal {
	seal, opening := prefix+SealName, prefix+OpeningName
	return multiplex.Seal{
		Read: [2][]byte{resp.AppendCommand(nil, "GET", seal), resp.AppendCommand(nil, "GET", opening)},
		Write: func(args ...string) []byte {
			return resp.AppendCommand(nil, append([]string{"EVALSHA", Seal.Digest, "2", seal, opening}, args...)...)
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
