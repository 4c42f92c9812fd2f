package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokensLeaveNothingInTheBuffer(t *testing.T) { // R3: each byte is used once
	var source Tokens
	for range 450 { // more than two buffers
		random := source.draw()
		require.NotContains(t, string(source.pool[:]), string(random[:]), "a token that was given out is still there")
	}
}
