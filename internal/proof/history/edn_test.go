package history

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every way in which an attempt and a lock can end, in the form that Knossos
// reads.
func TestEDN(t *testing.T) {
	var d EDN
	for _, e := range []Event{
		{T: 1, Client: 0, Attempt: 1, Ev: Start},
		{T: 2, Client: 1, Attempt: 1, Ev: Start},
		{T: 3, Client: 0, Attempt: 1, Ev: Grant, Until: 100},
		{T: 4, Client: 1, Attempt: 1, Ev: Held},
		{T: 50, Client: 0, Attempt: 1, Ev: Extend, Until: 120},
		{T: 60, Client: 0, Attempt: 1, Ev: Release},
		{T: 61, Client: 0, Attempt: 1, Ev: Released},
		{T: 62, Client: 1, Attempt: 2, Ev: Start}, // is released too late
		{T: 63, Client: 1, Attempt: 2, Ev: Grant, Until: 80},
		{T: 64, Client: 2, Attempt: 1, Ev: Start}, // comes too late
		{T: 90, Client: 1, Attempt: 2, Ev: Release},
		{T: 91, Client: 2, Attempt: 1, Ev: Grant, Until: 91},
		{T: 92, Client: 3, Attempt: 1, Ev: Start}, // dies as the holder
		{T: 93, Client: 3, Attempt: 1, Ev: Grant, Until: 99},
		{T: 100, Client: 4, Attempt: 1, Ev: Start}, // dies without an answer
	} {
		e.Resource = "r"
		d.Add(e)
	}
	require.Equal(t, []string{"r"}, d.Resources())
	var text strings.Builder
	require.NoError(t, d.Write(&text, "r"))
	require.Equal(t, `{:process 0, :type :invoke, :f :acquire, :value nil, :time 1}
{:process 1, :type :invoke, :f :acquire, :value nil, :time 2}
{:process 0, :type :ok, :f :acquire, :value nil, :time 3}
{:process 1, :type :fail, :f :acquire, :value nil, :time 4}
{:process 0, :type :invoke, :f :release, :value nil, :time 60}
{:process 0, :type :ok, :f :release, :value nil, :time 60}
{:process 2, :type :invoke, :f :acquire, :value nil, :time 62}
{:process 2, :type :ok, :f :acquire, :value nil, :time 63}
{:process 3, :type :invoke, :f :acquire, :value nil, :time 64}
{:process 2, :type :invoke, :f :release, :value nil, :time 80}
{:process 2, :type :ok, :f :release, :value nil, :time 80}
{:process 3, :type :fail, :f :acquire, :value nil, :time 91}
{:process 4, :type :invoke, :f :acquire, :value nil, :time 92}
{:process 4, :type :ok, :f :acquire, :value nil, :time 93}
{:process 4, :type :invoke, :f :release, :value nil, :time 99}
{:process 4, :type :ok, :f :release, :value nil, :time 99}
{:process 5, :type :invoke, :f :acquire, :value nil, :time 100}
`, text.String())
}
