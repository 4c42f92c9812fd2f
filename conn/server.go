package conn

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// Server is what a node said of itself in the handshake. A field that the user
// may not ask for is "" or 0: unknown, not a fault (R22).
type Server struct {
	// Addr is the address to which Endpoint.Seeds led. Without them it is "".
	Addr string
	ID   int64 // of this connection, for CLIENT KILL
	// ClientAddr is this end's address: as the node sees it if AddrKnown,
	// otherwise as this end sees it, and "" on unix sockets.
	ClientAddr string
	AddrKnown  bool

	RunID   string // of the server's process, new with each start
	Product string // "redis", "valkey", "redict" …
	// Version is the product's, not that of the Redis it is compatible with.
	Version        string
	Role           string // "master" or "replica"
	Mode           string // "standalone", "cluster" or "sentinel"
	EvictionPolicy string // the setting maxmemory-policy
	Protocol       int    // the version of RESP in use
	// Uptime is the age of the process by the node's clock, in whole seconds.
	Uptime time.Duration
	// Unpromoted reports that the node never was a replica of another.
	Unpromoted bool
	// History names the node's replication history: its id, and once the
	// node was promoted, also the id and the offset of the history before,
	// with colons between them. A replica has that of its master. A master
	// begins another one at its promotion, at the coming of its first
	// replica, and some time after the leaving of its last.
	History string
	// Accepted and Refused are the names of the optional steps of
	// Config.Prelude.
	Accepted, Refused []string
	// Forbidden are dispensable commands of the handshake, other than INFO,
	// that the user may not run; see Config.Omit.
	Forbidden []string
}

// helloReader returns the check of the reply to HELLO 3: a map, or in RESP2 an
// array of keys and values. A node that answers with another version than 3
// stays with RESP2, as kvrocks does, unless RESP3 is required.
func (s *Server) helloReader(required bool) func(v resp.Value) error {
	return func(v resp.Value) error {
		if v.IsError() {
			return errRefused
		}
		proto, err := s.readHello(v)
		switch {
		case err != nil:
			return err
		case proto == 3 && v.Type() == resp.Map:
			return nil
		case required || proto > 3:
			return fmt.Errorf("%w: HELLO 3 answered with another version", ErrProtocol)
		}
		s.Protocol = 2
		return nil
	}
}

// readHello reads the keys and values that answer HELLO, and returns the
// version of RESP among them. A map without it is RESP3.
func (s *Server) readHello(v resp.Value) (proto int64, err error) {
	if t := v.Type(); v.IsNull() || t != resp.Map && (t != resp.Array || v.Len() == 0 || v.Len()%2 != 0) {
		return 0, wrongType(v)
	}
	if v.Type() == resp.Map {
		proto = 3
	}
	for key, value := range v.Pairs() {
		switch string(key.Bytes()) {
		case "server":
			s.Product = word(value.Bytes())
		case "version":
			s.Version = word(value.Bytes())
		case "proto":
			proto = number(value)
		case "id":
			s.ID = number(value)
		case "mode":
			s.Mode = word(value.Bytes())
		case "role":
			s.Role = role(value.Bytes())
		}
	}
	return proto, nil
}

// number returns an integer, also if it comes as text, or zero.
func number(v resp.Value) int64 {
	if n, ok := v.Int64(); ok {
		return n
	}
	n, _ := strconv.ParseInt(string(v.Bytes()[:min(len(v.Bytes()), maxWord)]), 10, 64)
	return n
}

func (s *Server) readClientID(v resp.Value) error {
	id, ok := v.Int64()
	if !ok {
		return wrongType(v)
	}
	s.ID = id
	return nil
}

// readClientInfo takes id and address, which the fence needs (R8). A proxy that
// spreads commands over several connections makes the ids differ; then neither
// is this connection's.
func (s *Server) readClientInfo(v resp.Value) error {
	text, err := text(v)
	if err != nil {
		return err
	}
	id, addr := parseClientInfo(text)
	if id == 0 || s.ID != 0 && s.ID != id {
		s.ID = 0
		return nil
	}
	s.ID, s.ClientAddr, s.AddrKnown = id, addr, addr != ""
	return nil
}

// parseClientInfo takes id and address from a line such as "id=7
// addr=127.0.0.1:4000 laddr=127.0.0.1:6379 fd=8 name= …". The address of a unix
// socket is its path, which may contain spaces, so it ends where the next field
// begins.
func parseClientInfo(line []byte) (id int64, addr string) {
	line, ok := bytes.CutPrefix(line, []byte("id="))
	if !ok {
		return 0, ""
	}
	number, line, ok := bytes.Cut(line, []byte(" addr="))
	id, err := strconv.ParseInt(string(number), 10, 64)
	if !ok || err != nil {
		return 0, ""
	}
	end := bytes.Index(line, []byte(" laddr="))
	if end < 0 {
		end = bytes.IndexByte(line, ' ')
	}
	if end < 0 || end > maxAddr {
		return id, ""
	}
	return id, string(line[:end])
}

// readInfo takes the known fields of any section of INFO.
func (s *Server) readInfo(v resp.Value) error {
	text, err := text(v)
	if err != nil {
		return err
	}
	id, former, offset := "", "", ""
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		switch string(key) {
		case "master_replid":
			id = word(value)
		case "master_replid2":
			former = word(value)
		case "second_repl_offset":
			offset = word(value)
		default:
			s.set(string(key), value)
		}
	}
	// A promoted node keeps the history that it had as a replica here.
	none := strings.Trim(former, "0") == ""
	s.Unpromoted = s.Unpromoted || former != "" && none && offset == "-1"
	if id != "" {
		s.History = id
		if !none || offset != "" && offset != "-1" {
			s.History += ":" + former + ":" + offset
		}
	}
	return nil
}

// ReadInfo returns what a reply to INFO says besides what is known. It reports
// whether the reply is a text: without the right to ask, it is not.
func (s *Server) ReadInfo(v resp.Value) (Server, bool) {
	now := *s
	return now, now.readInfo(v) == nil
}

func (s *Server) set(key string, value []byte) {
	switch key {
	case "run_id":
		s.RunID = word(value)
	case "redis_mode", "server_mode", "redict_mode":
		s.Mode = word(value)
	case "role":
		s.Role = role(value)
	case "maxmemory_policy":
		s.EvictionPolicy = word(value)
	case "uptime_in_seconds":
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/int64(time.Second) {
			s.Uptime = time.Duration(n) * time.Second
		}
	case "redis_version":
		// Every product has this line first. A product of another name adds a
		// line with its own version.
		if s.Product == "" {
			s.Product, s.Version = "redis", word(value)
		}
	case "valkey_version", "redict_version", "keydb_version", "dragonfly_version", "garnet_version":
		s.Product, s.Version = key[:len(key)-len("_version")], word(value)
	}
}

// text returns the text of a reply to INFO or CLIENT INFO, which is a bulk
// string in RESP2 and a verbatim string in RESP3.
func text(v resp.Value) ([]byte, error) {
	if t := v.Type(); v.IsNull() || t != resp.BulkString && t != resp.VerbatimString {
		return nil, wrongType(v)
	}
	return v.Bytes(), nil
}

const (
	maxWord = 64  // longer than any name, version or run id
	maxAddr = 256 // longer than any path of a unix socket
)

// word copies a value in a printable form of bounded length.
func word(b []byte) string { return errtext.Printable(string(b[:min(len(b), maxWord)])) }

// role translates the old word that INFO keeps for compatibility.
func role(b []byte) string {
	if string(b) == "slave" {
		return "replica"
	}
	return word(b)
}
