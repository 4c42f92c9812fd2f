package floor

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redmux/redmux/resp"
)

// releaseScript is the compare-and-delete of the algorithm's description, as all the clients have it.
const releaseScript = `if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

var releaseDigest = func() string {
	sum := sha1.Sum([]byte(releaseScript))
	return hex.EncodeToString(sum[:])
}()

// token has the length of redlock's. Its beginning is random and its end counts, which makes it unique at no cost; a client
// must do more, since a token should be hard to guess, too.
type token [27]byte

func newToken() (t token) {
	rand.Read(t[:19]) // never fails: it ends the program where it cannot be served
	return t
}

// next makes a token that no other pair of this or any other process has.
func (t *token) next() {
	binary.NativeEndian.PutUint64(t[19:], binary.NativeEndian.Uint64(t[19:])+1)
}

// appendSet appends what redlock sends, byte for byte but for the token: the masters must have the same work to do as for
// those with whom the floor is compared. It is encoded anew for each pair, as a client must, which takes about a tenth of a
// microsecond.
func appendSet(dst []byte, resource string, t *token, ttl time.Duration) []byte {
	dst = resp.AppendArray(dst, 6)
	dst = resp.AppendBulkString(dst, "SET")
	dst = resp.AppendBulkString(dst, resource)
	dst = resp.AppendBulkString(dst, t[:])
	dst = resp.AppendBulkString(dst, "NX")
	dst = resp.AppendBulkString(dst, "PX")
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], ttl.Milliseconds(), 10))
}

// appendRelease appends the release by digest. It differs from redlock's in the text of the script only, not in its work.
func appendRelease(dst []byte, resource string, t *token) []byte {
	dst = resp.AppendArray(dst, 5)
	dst = resp.AppendBulkString(dst, "EVALSHA")
	dst = resp.AppendBulkString(dst, releaseDigest)
	dst = resp.AppendBulkString(dst, "1")
	dst = resp.AppendBulkString(dst, resource)
	return resp.AppendBulkString(dst, t[:])
}
