package redlock

import (
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// appendAcquire appends SET key token NX PX ttl (R2). Times are relative only,
// since clocks differ.
func (c *Client) appendAcquire(dst []byte, resource string, token *veiled, ttl time.Duration) multiplex.Encoded {
	dst = append(dst, "*6\r\n$3\r\nSET\r\n"...)
	from := len(dst)
	dst = c.appendKey(dst, resource)
	key := multiplex.Part{From: from, To: len(dst)}
	dst = c.appendValue(dst, token)
	dst = append(dst, "$2\r\nNX\r\n$2\r\nPX\r\n"...)
	return multiplex.Encoded{Bytes: appendMilliseconds(dst, ttl), Key: key}
}

// appendRelease appends the release of one lock.
func (c *Client) appendRelease(dst []byte, resource string, token *veiled) multiplex.Encoded {
	dst, key := c.appendScript(dst, &releaseScript, resource)
	return multiplex.Encoded{Bytes: c.appendValue(dst, token), Key: key}
}

// appendReleaseMarked appends the release of a permit or a writer.
func (c *Client) appendReleaseMarked(dst []byte, l *Lock) multiplex.Encoded {
	dst = appendScriptHead(dst, &releaseMarkedScript, 2, 3+2+1)
	if l.form.is(permit) {
		dst = c.appendPermit(dst, l)
		dst = c.appendKeyWith(dst, l.resource, wantedSuffix)
	} else {
		dst = c.appendKey(dst, l.resource)
		dst = c.appendKeyWith(dst, l.resource, markSuffix)
	}
	return multiplex.Encoded{Bytes: c.appendValue(dst, &l.token)}
}

// appendReleaseMany appends the head of the release of n locks. Their keys must
// follow, and then their tokens.
func appendReleaseMany(dst []byte, n int) []byte {
	return appendScriptHead(dst, &releaseManyScript, n, 3+2*n)
}

// appendExtendMany appends the head of the extension of n locks. Their keys
// must follow, and then the token and the two TTLs of each.
func appendExtendMany(dst []byte, n int) []byte {
	return appendScriptHead(dst, &extendManyScript, n, 3+4*n)
}

// appendExtend appends the extension of one lock. other is the TTL for a key
// that has none.
func (c *Client) appendExtend(dst []byte, resource string, token *veiled, ttl, other time.Duration) multiplex.Encoded {
	e := c.appendTimed(dst, &extendScript, resource, token, ttl)
	e.Bytes = appendMilliseconds(e.Bytes, other)
	return e
}

// appendHeal is appendExtend for a hold that sets missing keys again.
func (c *Client) appendHeal(dst []byte, resource string, token *veiled, ttl, other time.Duration) multiplex.Encoded {
	e := c.appendTimed(dst, &healScript, resource, token, ttl)
	e.Bytes = appendMilliseconds(e.Bytes, other)
	return e
}

// appendShorten appends the command that shortens what remains of a lock's key
// to the given time.
func (c *Client) appendShorten(dst []byte, resource string, token *veiled, rest time.Duration) multiplex.Encoded {
	return c.appendTimed(dst, &shortenScript, resource, token, rest)
}

// appendTimed appends a script that takes a lock's token and a time.
func (c *Client) appendTimed(dst []byte, s *script, resource string, token *veiled, t time.Duration) multiplex.Encoded {
	dst, key := c.appendScript(dst, s, resource)
	dst = c.appendValue(dst, token)
	return multiplex.Encoded{Bytes: appendMilliseconds(dst, t), Key: key}
}

// appendAll appends a script that takes the keys of a lock on several resources
// and its token, and some times.
func (c *Client) appendAll(dst []byte, s *script, all *form, token *veiled, times ...time.Duration) multiplex.Encoded {
	dst = appendScriptHead(dst, s, len(all.names), 4+len(all.names)+len(times))
	from := len(dst)
	for _, name := range all.names {
		dst = c.appendKey(dst, name)
	}
	keys := multiplex.Part{From: from, To: len(dst), Keys: len(all.names)}
	dst = c.appendValue(dst, token)
	for _, t := range times {
		dst = appendMilliseconds(dst, t)
	}
	return multiplex.Encoded{Bytes: dst, Key: keys}
}

// appendScript appends the start of a command that runs a script on the
// resource's key. It returns where in dst the key lies.
func (c *Client) appendScript(dst []byte, s *script, resource string) ([]byte, multiplex.Part) {
	dst = append(dst, s.head...)
	from := len(dst)
	dst = c.appendKey(dst, resource)
	return dst, multiplex.Part{From: from, To: len(dst)}
}

// appendScriptHead appends the arguments before the keys.
func appendScriptHead(dst []byte, s *script, keys, arguments int) []byte {
	dst = resp.AppendArray(dst, arguments)
	dst = resp.AppendBulkString(dst, "EVALSHA")
	dst = resp.AppendBulkString(dst, s.digest)
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], int64(keys), 10))
}

// appendKey appends prefix and resource as one bulk string.
func (c *Client) appendKey(dst []byte, resource string) []byte {
	return c.appendKeyWith(dst, resource, "")
}

// appendKeyWith appends prefix, resource and suffix as one bulk string: by its
// length, so that no byte of it can inject a command (R19).
func (c *Client) appendKeyWith(dst []byte, resource, suffix string) []byte {
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(len(c.config.Prefix)+len(resource)+len(suffix)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, c.config.Prefix...)
	dst = append(dst, resource...)
	dst = append(dst, suffix...)
	return append(dst, "\r\n"...)
}

// appendValue appends the value of a lock's keys as one bulk string: the token,
// and the owner's label if there is one. Every command that sets, compares or
// deletes has the whole value.
func (c *Client) appendValue(dst []byte, token *veiled) []byte {
	owner, text := c.config.Owner, token.unveil()
	if owner == "" {
		dst = append(dst, "$27\r\n"...)
		dst = append(dst, text[:]...)
		return append(dst, "\r\n"...)
	}
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(len(text)+1+len(owner)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, text[:]...)
	dst = append(dst, pure.OwnerSeparator)
	dst = append(dst, owner...)
	return append(dst, "\r\n"...)
}

func appendMilliseconds(dst []byte, d time.Duration) []byte {
	return appendInteger(dst, d.Milliseconds())
}

func appendInteger(dst []byte, n int64) []byte {
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], n, 10))
}

// The keys of the seal and of the opening that precedes it, behind the prefix.
// No resource has these names.
const (
	sealName    = "redlock:seal"
	openingName = "redlock:opening"
)

// seal returns the commands that read and write the nodes' seals.
func (c *Client) seal() multiplex.Seal {
	seal, opening := c.config.Prefix+sealName, c.config.Prefix+openingName
	return multiplex.Seal{
		Read: [2][]byte{resp.AppendCommand(nil, "GET", seal), resp.AppendCommand(nil, "GET", opening)},
		Write: func(args ...string) []byte {
			return resp.AppendCommand(nil, append([]string{"EVALSHA", sealScript.digest, "2", seal, opening}, args...)...)
		},
	}
}
