package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// A seal is read as a whole, also while a deployment of sixteen nodes is
// replaced by one with as many names as it may have.
func TestTheLongestSealIsRead_R30(t *testing.T) {
	var members, old []string
	var names pure.Names
	for i := range 16 {
		members, old = append(members, fmt.Sprintf("%016d", i)), append(old, fmt.Sprintf("%016d", 100+i))
		for j := range 5 {
			names = names.With(members[i], fmt.Sprintf("%016d", 10*i+j))
		}
	}
	run, longest := strings.Repeat("a", 160), 100*365*24*time.Hour
	want := pure.Seal{
		Seat: pure.Seat{Member: members[0], Listed: pure.IdentityOf(slices.Clone(members)), Open: pure.IdentityOf(old)}, Names: names,
		Run: run, MaxTTL: longest, Watched: longest, Uptime: longest, Failover: pure.Failover{Expected: true, Bound: longest},
	}
	var l look
	require.NoError(t, l.readSeal(decode(t, string(resp.AppendBulkString(nil, want.String())))))
	require.Equal(t, pure.Sighting{What: pure.SealSeen, Seal: want}, l.sighting, "%d bytes", len(want.String()))
}
