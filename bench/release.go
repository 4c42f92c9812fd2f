package bench

import (
	"crypto/sha1"
	"encoding/hex"
)

// ReleaseScript is what every peer releases with: a compare-and-delete (R9).
const ReleaseScript = `if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

// ReleaseSHA is what EVALSHA calls it.
var ReleaseSHA = func() string {
	sum := sha1.Sum([]byte(ReleaseScript))
	return hex.EncodeToString(sum[:])
}()
