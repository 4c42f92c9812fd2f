package canned

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the name that the protocol gives to scripts
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/redmux/redmux/resp"
)

// session is one connection's state: who it is, and which version of the protocol it speaks.
type session struct {
	*endpoint
	id       int64
	peer     string
	protocol int
	request  request // the one being answered: here, because one of the stack's would be moved to the heap each time
}

// request is a command as far as a reply can depend on it: its first arguments, the name in upper case, and how many there
// are in all. The arguments are views of the reader's buffer, valid until the following call of its Next.
type request struct {
	name  []byte
	args  [3][]byte // behind the name; nil where there are fewer
	total int       // with the name
	room  [16]byte  // of name: longer than any that is known
}

// answer appends the reply to one request. It is not sound, and ends the connection, when v is no command, or the last one.
func (s *session) answer(dst []byte, v resp.Value) (replies []byte, sound bool) {
	r := &s.request
	if !r.read(v) {
		return dst, false
	}
	// These first, because a lock is made of nothing else. A switch over strings converted in place does not allocate.
	switch string(r.name) {
	case "SET":
		return append(dst, "+OK\r\n"...), true
	case "EVALSHA", "EVAL":
		return r.appendScript(dst), true
	case "QUIT":
		return append(dst, "+OK\r\n"...), false
	}
	return s.appendRare(dst, r), true
}

// read takes the request apart. It looks at no more elements than it keeps.
func (r *request) read(v resp.Value) bool {
	if v.Type() != resp.Array || v.Len() < 1 {
		return false
	}
	// What the last request left there is a view of bytes that are gone.
	r.args, r.total = [3][]byte{}, v.Len()
	i := 0
	for element := range v.Elements() {
		if element.Type() != resp.BulkString || element.IsNull() {
			return false
		}
		if i == 0 {
			r.name = upper(r.room[:0], element.Bytes())
		} else {
			r.args[i-1] = element.Bytes()
		}
		if i++; i > len(r.args) {
			break
		}
	}
	return true
}

// upper appends the name in upper case, or nothing where it is too long to be known. ToUpper of package bytes allocates.
func upper(dst, name []byte) []byte {
	if len(name) > cap(dst) {
		return dst
	}
	for _, c := range name {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// trial is in the name of the key with which redlock tries its scripts in the handshake. Nobody holds that key, and redlock
// refuses a server that says otherwise.
var trial = []byte("redlock:trial:")

// appendScript answers as the scripts of all the clients do when the key is the caller's: with 1, whether they release or
// extend it. Only redlock's merged release has several keys, and wants a result for each. (redislock acquires by a script,
// too, and takes any reply but null for a grant.)
func (r *request) appendScript(dst []byte) []byte {
	keys, err := strconv.Atoi(string(r.args[1]))
	switch {
	case err != nil || keys < 0 || keys > r.total-3:
		return append(dst, "-ERR Number of keys can't be greater than number of args\r\n"...)
	case keys == 1 && bytes.Contains(r.args[2], trial):
		return append(dst, ":0\r\n"...)
	case keys <= 1:
		return append(dst, ":1\r\n"...)
	}
	dst = resp.AppendArray(dst, keys)
	for range keys {
		dst = append(dst, ":1\r\n"...)
	}
	return dst
}

// appendRare answers what stands in handshakes and at the edges. What has a state on a real server is answered as though
// no key existed, and what changes something as though it had worked.
func (s *session) appendRare(dst []byte, r *request) []byte {
	switch string(r.name) {
	case "HELLO":
		return s.appendHello(dst, r)
	case "AUTH", "SELECT", "READONLY", "READWRITE", "FLUSHALL", "FLUSHDB", "PSETEX", "SETEX":
		return append(dst, "+OK\r\n"...)
	case "PING":
		return append(dst, "+PONG\r\n"...)
	case "CLIENT":
		return s.appendClient(dst, r)
	case "INFO":
		return s.appendText(dst, s.info())
	case "SCRIPT":
		return appendScriptAdmin(dst, r)
	case "COMMAND":
		return append(dst, "*0\r\n"...)
	case "CONFIG":
		return s.appendConfig(dst, r)
	case "SETNX":
		return append(dst, ":1\r\n"...)
	case "GET":
		return s.appendNull(dst)
	case "DEL", "UNLINK", "EXISTS", "PEXPIRE", "EXPIRE", "DBSIZE", "WAIT":
		return append(dst, ":0\r\n"...)
	case "PTTL", "TTL":
		return append(dst, ":-2\r\n"...)
	}
	return append(dst, "-ERR unknown command\r\n"...)
}

// version is that of a server which all the clients know well.
const version = "7.4.0"

// appendHello answers with a map in RESP3 and with the same as a flat array in RESP2, as redis-server does.
func (s *session) appendHello(dst []byte, r *request) []byte {
	switch string(r.args[0]) {
	case "": // tells about the connection as it is
	case "2":
		s.protocol = 2
	case "3":
		s.protocol = 3
	default:
		return append(dst, "-NOPROTO unsupported protocol version\r\n"...)
	}
	const pairs = 7
	if s.protocol == 3 {
		dst = resp.AppendMap(dst, pairs)
	} else {
		dst = resp.AppendArray(dst, 2*pairs)
	}
	word := func(key, value string) {
		dst = resp.AppendBulkString(resp.AppendBulkString(dst, key), value)
	}
	number := func(key string, value int64) {
		dst = resp.AppendInteger(resp.AppendBulkString(dst, key), value)
	}
	word("server", "redis")
	word("version", version)
	number("proto", int64(s.protocol))
	number("id", s.id)
	word("mode", "standalone")
	word("role", "master")
	return resp.AppendArray(resp.AppendBulkString(dst, "modules"), 0)
}

// appendClient answers what clients say about themselves, and ask about their connection, before the first lock.
func (s *session) appendClient(dst []byte, r *request) []byte {
	switch string(bytes.ToUpper(r.args[0])) {
	case "ID":
		return resp.AppendInteger(dst, s.id)
	case "INFO":
		return s.appendText(dst, fmt.Sprintf("id=%d addr=%s laddr=%s fd=8 name= db=0 resp=%d\n", s.id, s.peer, s.addr, s.protocol))
	case "GETNAME":
		return s.appendNull(dst)
	case "KILL":
		return append(dst, ":0\r\n"...) // nobody of that id is connected: whoever fences a connection is content
	case "SETINFO", "SETNAME", "TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH":
		return append(dst, "+OK\r\n"...)
	}
	// go-redis asks for MAINT_NOTIFICATIONS, which this version does not have; with an error it does without.
	return append(dst, "-ERR unknown subcommand\r\n"...)
}

// info has what a client may want to know of a master: that it is one, has not just begun, and evicts nothing.
func (s *session) info() string {
	return "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\nrun_id:" + s.runID + "\r\nuptime_in_seconds:864000\r\n" +
		"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n" +
		"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
}

// appendScriptAdmin knows every script, but has to compute its name: clients check it.
func appendScriptAdmin(dst []byte, r *request) []byte {
	switch string(bytes.ToUpper(r.args[0])) {
	case "LOAD":
		sum := sha1.Sum(r.args[1])
		return resp.AppendBulkString(dst, hex.EncodeToString(sum[:]))
	case "EXISTS":
		dst = resp.AppendArray(dst, r.total-2)
		for range r.total - 2 {
			dst = append(dst, ":1\r\n"...) // every script is known
		}
		return dst
	case "FLUSH":
		return append(dst, "+OK\r\n"...)
	}
	return append(dst, "-ERR unknown subcommand\r\n"...)
}

// appendConfig knows no parameter.
func (s *session) appendConfig(dst []byte, r *request) []byte {
	switch {
	case !bytes.EqualFold(r.args[0], []byte("GET")):
		return append(dst, "+OK\r\n"...)
	case s.protocol == 3:
		return append(dst, "%0\r\n"...)
	}
	return append(dst, "*0\r\n"...)
}

// appendText is how the protocol's versions give text for people. Clients of RESP3 are strict about it, so it is as on a
// real server.
func (s *session) appendText(dst []byte, text string) []byte {
	if s.protocol == 3 {
		return resp.AppendVerbatimString(dst, "txt", text)
	}
	return resp.AppendBulkString(dst, text)
}

// appendNull answers that there is no such key.
func (s *session) appendNull(dst []byte) []byte {
	if s.protocol == 3 {
		return resp.AppendNull(dst)
	}
	return resp.AppendNullBulkString(dst)
}
