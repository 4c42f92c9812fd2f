package floor

import (
	"bytes"
	"fmt"
)

// replies are what a master may answer to one kind of command. Anything else is an error: one byte too many or too few,
// and from there on every reply would be taken for that of another command.
type replies struct{ granted, refused []byte }

var (
	setReplies     = replies{[]byte("+OK\r\n"), []byte("$-1\r\n")}
	releaseReplies = replies{[]byte(":1\r\n"), []byte(":0\r\n")}
)

// parse looks at the beginning of b. The size is 0 while the reply is not complete. It compares instead of decoding: there
// are two possible replies of a known length, so nothing can be cheaper, and nothing else can pass.
func (r *replies) parse(b []byte) (size int, granted bool, err error) {
	switch {
	case bytes.HasPrefix(b, r.granted):
		return len(r.granted), true, nil
	case bytes.HasPrefix(b, r.refused):
		return len(r.refused), false, nil
	case bytes.HasPrefix(r.granted, b), bytes.HasPrefix(r.refused, b):
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("floor: unexpected reply %q", b[:min(len(b), 100)])
}

// votes are the votes on one command.
type votes struct{ granted, refused int }

// decided reports whether no further vote can change the outcome.
func (v *votes) decided(n int) bool {
	quorum := n/2 + 1 // of an even number, too: half of the masters are none
	return v.granted >= quorum || v.refused > n-quorum
}
