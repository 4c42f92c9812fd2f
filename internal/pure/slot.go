package pure

import "strings"

// slots is how many slots a cluster of servers has. Each key is in one of them.
const slots = 16384

// Slot returns the slot of a key in a cluster: that of its hash tag, if it has
// one.
func Slot(key string) uint16 {
	if tag, ok := hashTag(key); ok {
		key = tag
	}
	return crc16(key) % slots
}

// PrefixSlot returns the slot of all keys that begin with a prefix. ok is false
// if they are in several: only a whole hash tag decides the slot, whatever
// follows.
func PrefixSlot(prefix string) (slot uint16, ok bool) {
	if _, ok := hashTag(prefix); !ok {
		return 0, false
	}
	return Slot(prefix), true
}

// hashTag returns what is between the first "{" and the first "}" behind it. An
// empty tag is none, and no later one counts then. (redis.io: Cluster
// specification, Hash tags)
func hashTag(key string) (tag string, ok bool) {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, ok = strings.Cut(rest, "}")
	return tag, ok && tag != ""
}

// crc16 is CRC-16/XMODEM: the polynomial 0x1021, from 0 on, not reflected.
func crc16(text string) (sum uint16) {
	for i := range len(text) {
		sum ^= uint16(text[i]) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum
}
