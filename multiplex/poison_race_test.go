//go:build race

package multiplex

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// R20: in race builds what is given back is overwritten, so that a use of it
// shows at once.
func TestRecycledRoundsArePoisoned(t *testing.T) {
	r := loneRound(3, releaseKind.verb())
	r.command = append(r.command, "EVALSHA and a token"...)
	command := r.command
	r.drop()
	r.group.log.collect()
	require.Equal(t, bytes.Repeat([]byte{0xDB}, len(command)), command)
	require.Negative(t, r.at)
	require.Negative(t, r.ttl)
	require.Nil(t, r.verb)
}

func TestRecycledBatchesArePoisoned(t *testing.T) {
	var l broadcast
	l.buf = append(l.buf, "SET"...)
	batch := l.swap()
	l.recycle(batch)
	require.Equal(t, []byte{0xDB, 0xDB, 0xDB}, batch)
}
