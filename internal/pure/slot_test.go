package pure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The slots are those that a server gives (CLUSTER KEYSLOT): redlocktest asks
// one for more keys.
func TestSlots(t *testing.T) {
	require.EqualValues(t, 0x31c3, crc16("123456789"), "the check value of this CRC")
	for key, slot := range map[string]uint16{
		"": 0, "06S": 0, "foo": 12182, "bar": 5061, "{foo}": 12182, "a{foo}b": 12182, "{foo}{bar}": 12182,
	} {
		require.Equal(t, slot, Slot(key), "%q", key)
	}
	require.NotEqual(t, Slot("{user1000}a"), Slot("{}{user1000}a"), "an empty tag is none, and no later one counts")
}

// A prefix has a slot if it has a whole hash tag: then no name behind it
// matters.
func TestSlotOfAPrefix(t *testing.T) {
	tagged := map[string]string{
		"{locks}:": "locks", "app:{locks}:": "locks", "{a}{b}": "a", "{{}": "{", "{a}}": "a", "}{a}": "a", "{a\x00b}": "a\x00b",
	}
	for prefix, tag := range tagged {
		slot, ok := PrefixSlot(prefix)
		require.True(t, ok, "%q", prefix)
		for _, name := range []string{"", "r", "{other}", "}", "{", "{}", "redlock:seal", strings.Repeat("{x}", 300)} {
			require.Equal(t, slot, Slot(prefix+name), "%q", prefix+name)
		}
		require.Equal(t, crc16(tag)%slots, slot, "%q", prefix)
	}
	for _, prefix := range []string{"", "lock:", "{", "}", "{}", "{}{a}", "{}a{b}", "{a", "a}b", "}{", "a{b"} {
		slot, ok := PrefixSlot(prefix)
		require.False(t, ok, "%q", prefix)
		require.Zero(t, slot)
	}
	require.NotEqual(t, Slot("{a"+"b}"), Slot("{a"+"c}"), "names complete a tag that is not whole")
}
