package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	records "github.com/redmux/redmux/proof/history"
)

// A referee dates what it is told, and counts locks that exclude each other and
// are valid at one time.
func TestReferee(t *testing.T) {
	type told struct {
		at     time.Duration
		client int
		event  event
		until  time.Duration
		form   records.Form
	}
	const s = time.Second
	for _, c := range []struct {
		name string
		told []told
		want int64
	}{
		{"two at one time", []told{{s, 1, evGrant, 10 * s, ""}, {2 * s, 2, evGrant, 12 * s, ""}}, 1},
		{"the first was released", []told{{s, 1, evGrant, 10 * s, ""}, {2 * s, 1, evRelease, 10 * s, ""}, {3 * s, 2, evGrant, 12 * s, ""}}, 0},
		{"the validity of the first is over", []told{{s, 1, evGrant, 10 * s, ""}, {11 * s, 2, evGrant, 20 * s, ""}}, 0},
		{"the second was paused past its own validity", []told{{s, 1, evGrant, 30 * s, ""}, {11 * s, 2, evGrant, 10 * s, ""}}, 0},
		{"two readers", []told{{s, 1, evGrant, 10 * s, records.ReadForm}, {2 * s, 2, evGrant, 12 * s, records.ReadForm}}, 0},
		{"a writer under a reader", []told{{s, 1, evGrant, 10 * s, records.ReadForm}, {2 * s, 2, evGrant, 12 * s, records.WriteForm}}, 1},
		{"two permits of two", []told{{s, 1, evGrant, 10 * s, records.PermitForm}, {2 * s, 2, evGrant, 12 * s, records.PermitForm}}, 0},
		{"three permits of two", []told{{s, 1, evGrant, 10 * s, records.PermitForm}, {2 * s, 2, evGrant, 12 * s, records.PermitForm},
			{3 * s, 3, evGrant, 12 * s, records.PermitForm}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := phase{referees: make([]referee, 1)}
			for _, e := range c.told {
				now := clock{base: time.Now().Add(-e.at)}
				p.referees[0].add(now, records.Event{Client: e.client, Resource: "r", Attempt: 1, Ev: e.event, Until: int64(e.until), Form: e.form, Permits: 2})
			}
			require.Equal(t, c.want, p.violated())
		})
	}
}

// There is a referee for each resource that callers share, up to a bound.
func TestReferees(t *testing.T) {
	require.Empty(t, newReferees(&flags{}))
	require.Len(t, newReferees(&flags{Keys: 7}), 7)
	require.Len(t, newReferees(&flags{Keys: 1e6}), mostReferees)
}
