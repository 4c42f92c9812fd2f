package pure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that only remembers the deployment, because no connected node shows
// it, does not give it to an emptied node at once: the set may have been lost
// and opened anew while the client was away.
func TestRememberedDeploymentWaits_R30(t *testing.T) {
	who := Identity{ID: "00000000000000000000000000000001", Nodes: 3, Members: MembersOf([]string{"a", "b", "c"})}
	shows := Sighting{What: SealSeen, Seal: Seal{Identity: who, Run: "r", MaxTTL: time.Second}}
	empty := Sighting{What: SealAbsent}
	random := func() uint64 { return 1 }
	d := NewDeployment([]string{"a", "b", "c"})
	for i := range 3 {
		d.Sight(i, shows, 0, 0)
		d.Join(i)
	}
	for i := range 3 {
		d.Part(i)
	}
	d.Sight(0, empty, time.Second, time.Second)
	d.Join(0)
	require.Equal(t, Order{}, d.Next(time.Second, random))
	require.Equal(t, Order{}, d.Next(time.Second+adoptAlone-1, random))

	alone := d
	alone.nodes = append([]nodeView(nil), d.nodes...)
	require.Equal(t, Order{Adopt, 1, who}, alone.Next(time.Second+adoptAlone, random))

	d.Sight(1, shows, 2*time.Second, 2*time.Second)
	d.Join(1)
	require.Equal(t, Order{Adopt, 1, who}, d.Next(2*time.Second, random), "another node shows it")
}
