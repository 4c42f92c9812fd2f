package pure

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Which quarantined nodes' grants do not count (R10, R23): nodes 0 and 1 are
// quarantined, and were or were not when the key was set.
func TestVoid_R23(t *testing.T) {
	for _, c := range []struct {
		name    string
		claim   bool
		doubted uint16
		void    uint16
	}{
		{"a claim", true, 0, 0b0011},
		{"a claim, whatever the receipt says", true, 0b0001, 0b0011},
		{"an extension of a key that is older than the quarantine", false, 0, 0},
		{"an extension of a key that was set in the quarantine of one", false, 0b0001, 0b0001},
		{"an extension of a key that was set in a quarantine that is over", false, 0b0100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.void, Void(c.claim, 0b0011, c.doubted))
		})
	}
}

// A key that was set again counts only from a node that is not quarantined, nor
// was.
func TestRestoredCounts_R10(t *testing.T) {
	assert.True(t, RestoredCounts[uint16](2, 0b0011, 0b1000))
	assert.False(t, RestoredCounts[uint16](0, 0b0011, 0), "it was when the command got its place")
	assert.False(t, RestoredCounts[uint16](3, 0, 0b1000), "it is now")
}

// What a hold doubts after a renewal, and after its outcome (R10, R23).
func TestDoubtsOfAHold_R23(t *testing.T) {
	for _, c := range []struct {
		name                               string
		doubted, sent, quarantined         uint16
		heals                              bool
		after, unsure, granted, thereafter uint16
	}{
		{name: "nothing to doubt", sent: 0b0111, granted: 0b0111},
		{
			name: "a quarantine is over", doubted: 0b0011, sent: 0b0111, quarantined: 0b0001,
			after: 0b0001, granted: 0b0111, thereafter: 0b0001,
		},
		{
			name: "it is over, and the renewal did not reach the node", doubted: 0b0011, sent: 0b0101, quarantined: 0b0001,
			after: 0b0011, granted: 0b0101, thereafter: 0b0011,
		},
		{
			name: "a healing renewal may set the key in a quarantine", sent: 0b0111, quarantined: 0b0011, heals: true,
			after: 0b0011, unsure: 0b0011, granted: 0b0110, thereafter: 0b0001,
		},
		{
			name: "what was doubted before stays so", doubted: 0b0001, sent: 0b0111, quarantined: 0b0001, heals: true,
			after: 0b0001, granted: 0b0111, thereafter: 0b0001,
		},
		{name: "an extension sets nothing", sent: 0b0111, quarantined: 0b0011, granted: 0b0111},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, unsure := DoubtRenewal(c.doubted, c.sent, c.quarantined, c.heals)
			assert.Equal(t, c.after, after)
			assert.Equal(t, c.unsure, unsure)
			assert.Equal(t, c.thereafter, DoubtGranted(after, unsure, c.granted))
		})
	}
}
