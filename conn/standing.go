package conn

import (
	"bytes"
	"strconv"
	"time"

	"github.com/redmux/redmux/resp"
)

// A Standing is what a server says of its part in replication.
type Standing struct {
	Master bool // it is a master
	// Same reports that its replication history is that of the handshake: it
	// was no replica in between. Without one, neither is known.
	Same bool
	// Replicas counts the connected replicas, and Fresh those of them that
	// keep up.
	Replicas, Fresh int
}

// Standing reads a reply to INFO replication. Replicas keep up if they are no
// further behind than maxLag. It reports whether the reply is a text. It
// allocates nothing, since it is asked for often.
func (s *Server) Standing(v resp.Value, maxLag time.Duration) (standing Standing, ok bool) {
	info, err := text(v)
	if err != nil {
		return Standing{}, false
	}
	var id, former, offset []byte
	for len(info) > 0 {
		line, rest, _ := bytes.Cut(info, []byte("\n"))
		info = rest
		key, value, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(":"))
		switch string(key) {
		case "role":
			standing.Master = string(value) == "master"
		case "connected_slaves":
			standing.Replicas = count(value)
		case "master_replid":
			id = value
		case "master_replid2":
			former = value
		case "second_repl_offset":
			offset = value
		default:
			if bytes.HasPrefix(key, []byte("slave")) && fresh(value, maxLag) {
				standing.Fresh++
			}
		}
	}
	standing.Same = s.hasHistory(id, former, offset)
	return standing, true
}

// hasHistory reports whether these fields of INFO make the server's History.
// See Server.readInfo.
func (s *Server) hasHistory(id, former, offset []byte) bool {
	if len(id) == 0 {
		return s.History == ""
	}
	if len(s.History) < len(id) || s.History[:len(id)] != string(id) {
		return false
	}
	rest := s.History[len(id):]
	if len(bytes.Trim(former, "0")) == 0 && (len(offset) == 0 || string(offset) == "-1") {
		return rest == ""
	}
	return len(rest) == len(former)+len(offset)+2 && rest[0] == ':' && rest[1:1+len(former)] == string(former) &&
		rest[1+len(former)] == ':' && rest[2+len(former):] == string(offset)
}

// fresh reports whether a line such as
// "ip=10.0.0.2,port=6379,state=online,offset=14,lag=0" is of a replica that
// keeps up.
func fresh(replica []byte, maxLag time.Duration) bool {
	online, lag := false, -1
	for len(replica) > 0 {
		field, rest, _ := bytes.Cut(replica, []byte(","))
		replica = rest
		switch key, value, _ := bytes.Cut(field, []byte("=")); string(key) {
		case "state":
			online = string(value) == "online"
		case "lag":
			lag = count(value)
		}
	}
	return online && lag >= 0 && time.Duration(lag)*time.Second <= maxLag
}

// count returns a number that is not negative, or -1.
func count(digits []byte) int {
	if len(digits) == 0 || len(digits) > len("999999999") {
		return -1
	}
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' {
			return -1
		}
		n = 10*n + int(d-'0')
	}
	return n
}

// MinReplicas reads a reply to CONFIG GET min-replicas-*: how many replicas a
// primary needs to accept writes, and how far behind these may be. Both are
// zero for a server that does not say.
func MinReplicas(v resp.Value) (needed int, maxLag time.Duration) {
	if t := v.Type(); v.IsNull() || t != resp.Map && (t != resp.Array || v.Len()%2 != 0) {
		return 0, 0
	}
	for key, value := range v.Pairs() {
		n, err := strconv.ParseUint(string(value.Bytes()[:min(len(value.Bytes()), maxWord)]), 10, 30)
		if err != nil {
			continue
		}
		switch string(key.Bytes()) {
		case "min-replicas-to-write":
			needed = int(n)
		case "min-replicas-max-lag":
			maxLag = time.Duration(n) * time.Second
		}
	}
	return needed, maxLag
}
