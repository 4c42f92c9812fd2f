package redlock

import (
	_ "embed"
	"strconv"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// appendAcquire appends SET key token NX PX ttl (R2). Times are relative only,
// since clocks differ.
func (c *Client) appendAcquire(dst []byte, resource string, token *Token, ttl time.Duration) []byte {
	dst = resp.AppendArray(dst, 6)
	dst = resp.AppendBulkString(dst, "SET")
	dst = c.appendKey(dst, resource)
	dst = resp.AppendBulkString(dst, token[:])
	dst = resp.AppendBulkString(dst, "NX")
	dst = resp.AppendBulkString(dst, "PX")
	return appendMilliseconds(dst, ttl)
}

// appendRelease appends the release of one lock. keyPart returns where its key
// lies.
func (c *Client) appendRelease(dst []byte, resource string, token *Token) []byte {
	dst = c.appendScript(dst, &releaseScript, resource, 5)
	return resp.AppendBulkString(dst, token[:])
}

// keyPart returns where the key lies in the encoded release or extension of one
// lock: between the command's head, which has the same length for both, and the
// token.
func (c *Client) keyPart(resource string) multiplex.Part {
	size := len(c.config.Prefix) + len(resource)
	encoded := len("$\r\n\r\n") + size
	for ; size > 0; size /= 10 {
		encoded++ // a digit of the length, which is never 0
	}
	return multiplex.Part{From: scriptHead, To: scriptHead + encoded}
}

var scriptHead = len(appendScriptHead(nil, &releaseScript, 1, 5))

// appendReleaseMany appends the head of the release of n locks; their keys and
// then their tokens follow.
func appendReleaseMany(dst []byte, n int) []byte {
	return appendScriptHead(dst, &releaseManyScript, n, 3+2*n)
}

// appendExtendMany appends the head of the extension of n locks; their keys,
// and then the token and the TTL of each follow.
func appendExtendMany(dst []byte, n int) []byte {
	return appendScriptHead(dst, &extendManyScript, n, 3+3*n)
}

func (c *Client) appendExtend(dst []byte, resource string, token *Token, ttl time.Duration) []byte {
	dst = c.appendScript(dst, &extendScript, resource, 6)
	dst = resp.AppendBulkString(dst, token[:])
	return appendMilliseconds(dst, ttl)
}

// appendScript appends the start of a command with the given number of
// arguments that runs a script on the resource's key.
func (c *Client) appendScript(dst []byte, s *script, resource string, arguments int) []byte {
	return c.appendKey(appendScriptHead(dst, s, 1, arguments), resource)
}

// appendScriptHead appends what stands before the keys.
func appendScriptHead(dst []byte, s *script, keys, arguments int) []byte {
	dst = resp.AppendArray(dst, arguments)
	dst = resp.AppendBulkString(dst, "EVALSHA")
	dst = resp.AppendBulkString(dst, s.digest)
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], int64(keys), 10))
}

// appendKey appends prefix and resource as one bulk string: by its length, so
// that no byte of it can inject a command (R19).
func (c *Client) appendKey(dst []byte, resource string) []byte {
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(len(c.config.Prefix)+len(resource)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, c.config.Prefix...)
	dst = append(dst, resource...)
	return append(dst, "\r\n"...)
}

func appendMilliseconds(dst []byte, d time.Duration) []byte {
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], d.Milliseconds(), 10))
}

func (c *Client) appendHeal(dst []byte, resource string, token *Token, ttl time.Duration) []byte {
	dst = c.appendScript(dst, &healScript, resource, 6)
	dst = resp.AppendBulkString(dst, token[:])
	return appendMilliseconds(dst, ttl)
}

// appendShorten appends the command that leaves a lock's key no more than the
// given time.
func (c *Client) appendShorten(dst []byte, resource string, token *Token, rest time.Duration) []byte {
	dst = c.appendScript(dst, &shortenScript, resource, 6)
	dst = resp.AppendBulkString(dst, token[:])
	return appendMilliseconds(dst, rest)
}

// sealName is the key of the seal, behind the prefix; no resource has this
// name.
const sealName = "redlock:seal"

// seal returns how the nodes' seals are read and written.
func (c *Client) seal() multiplex.Seal {
	key := c.config.Prefix + sealName
	return multiplex.Seal{
		Read: resp.AppendCommand(nil, "GET", key),
		Write: func(value string) []byte {
			return resp.AppendCommand(nil, "EVALSHA", sealScript.digest, "1", key, value)
		},
	}
}
