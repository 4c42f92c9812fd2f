package load

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	records "github.com/redmux/redmux/proof/history"
)

// line is what checkhistory reads.
type line struct {
	T        int64  `json:"t"`
	Client   int    `json:"client"`
	Resource string `json:"resource"`
	Attempt  int64  `json:"attempt"`
	Event    event  `json:"ev"`
	Token    string `json:"token"`
	Until    int64  `json:"until"`
}

func readHistory(t *testing.T, name string) (lines []line) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		var l line
		require.NoError(t, json.Unmarshal(s.Bytes(), &l), s.Text())
		lines = append(lines, l)
	}
	return lines
}

// A history contains every attempt from start to end, and its locks exclude
// each other.
func TestHistory(t *testing.T) {
	_, nodes := servers(t, 3)
	for _, impl := range (&flags{}).implementations() {
		t.Run(impl, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "history")
			before := records.Monotonic()
			// The timeouts are for a busy machine: an unanswered release ends
			// differently.
			r := measure(t, openSystem, exitGood, nodes, "-n200", untilDone, patient, "--warmup=0s", "-c6", "--keys=2", "--wait=1s", "--hold=exp:100us", "--impl="+impl, "--history", name).Runs[0]
			after := records.Monotonic()
			lines := readHistory(t, name)

			type attempt struct {
				client int
				number int64
			}
			attempts := map[attempt][]line{}
			clients := map[int]int64{}
			for _, l := range lines {
				key := attempt{l.Client, l.Attempt}
				attempts[key] = append(attempts[key], l)
				require.GreaterOrEqual(t, l.T, max(clients[l.Client], before), "each client's lines are in order")
				require.LessOrEqual(t, l.T, after)
				clients[l.Client] = l.T
			}
			require.Len(t, clients, 6)
			holds := map[string][][2]int64{}
			tokens, grants := map[string]bool{}, 0
			for _, a := range attempts {
				var events []event
				for _, l := range a {
					events = append(events, l.Event)
				}
				require.Equal(t, evStart, events[0])
				if len(events) == 2 {
					require.Contains(t, []event{evHeld, evCancel}, events[1])
					continue
				}
				require.Equal(t, []event{evStart, evGrant, evRelease, evReleased}, events)
				grant, release := a[1], a[2]
				require.Equal(t, grant.Token, release.Token)
				if grant.Client%2 == 0 {
					require.Regexp(t, "^[0-9a-f]{8}$", grant.Token)
					require.False(t, tokens[grant.Token], "R3: every attempt has its own token")
					tokens[grant.Token] = true
				} else {
					require.Empty(t, grant.Token, "so that it can be handed over")
				}
				grants++
				// R4: at most the TTL less the drift and the time until the
				// grant, which may be long on a busy machine.
				left := time.Duration(grant.Until - grant.T)
				require.LessOrEqual(t, left, 9898*time.Millisecond)
				require.Greater(t, left, 4898*time.Millisecond)
				holds[grant.Resource] = append(holds[grant.Resource], [2]int64{grant.T, min(release.T, grant.Until)})
			}
			require.Equal(t, 200, grants)
			require.NotEmpty(t, tokens)
			require.EqualValues(t, 200, r.Outcomes.Granted)
			require.ElementsMatch(t, []string{"k0", "k1"}, slices.Collect(maps.Keys(holds)))
			for resource, intervals := range holds {
				slices.SortFunc(intervals, func(a, b [2]int64) int { return int(a[0] - b[0]) })
				for i := 1; i < len(intervals); i++ {
					require.Greater(t, intervals[i][0], intervals[i-1][1], "%s was held twice at once", resource)
				}
			}
		})
	}
}

func TestHistoryLine(t *testing.T) {
	h := &history{clock: clock{offset: 1000}}
	line := h.append(nil, entry{at: 5, client: 3, resource: "k\"\\\n\xff1", attempt: 17, event: evHeld})
	require.Equal(t, `{"t":1005,"client":3,"resource":"k\"\\\u000a\\xff1","attempt":17,"ev":"held"}`+"\n", string(line))
	lease := fakeLease{}
	line = h.append(nil, entry{at: 5, resource: "k1", attempt: 1, event: evGrant, token: &lease.token, until: 9})
	require.Equal(t, `{"t":1005,"client":0,"resource":"k1","attempt":1,"ev":"grant","token":"ea49aa9f6f6cf2d5","until":1009}`+"\n", string(line))
}

func TestHistoryThatCannotBeWritten(t *testing.T) {
	code := Run([]string{"-q", "--embedded", "--spawn=1", "-n1", "--warmup=0s", "--history", t.TempDir()}, io.Discard, io.Discard, nil)
	require.Equal(t, exitFailed, code)
	if _, err := os.Stat("/dev/full"); err == nil {
		code = Run([]string{"-q", "--embedded", "--spawn=1", "-n1", "--warmup=0s", "--history=/dev/full"}, io.Discard, io.Discard, nil)
		require.Equal(t, exitFailed, code)
	}
}
