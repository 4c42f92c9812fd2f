package locate

import (
	"errors"
	"strconv"
	"strings"

	"github.com/redmux/redmux/resp"
)

// ErrNoOwner is returned for a server that knows no master with the slot.
var ErrNoOwner = errors.New("it knows no master that has the slot")

// Owner returns the address and the id of the master with a slot, from the
// answer to CLUSTER SLOTS. asked is the host that gave the answer: one without
// a host means the same.
func Owner(v resp.Value, slot uint16, asked string) (addr, id string, err error) {
	if v.IsNull() || v.Type() != resp.Array {
		return "", "", unreadable(v)
	}
	for shard := range v.Elements() {
		first, last, master, ok := parseShard(shard)
		if !ok {
			return "", "", unreadable(shard)
		}
		if first <= int64(slot) && int64(slot) <= last {
			return parseServer(master, asked)
		}
	}
	return "", "", ErrNoOwner
}

// parseShard returns the range of slots and the master of an element of the
// answer. Replicas stand behind the master.
func parseShard(v resp.Value) (first, last int64, master resp.Value, ok bool) {
	if v.IsNull() || v.Type() != resp.Array || v.Len() < 3 {
		return 0, 0, resp.Value{}, false
	}
	i := 0
	for e := range v.Elements() {
		switch i {
		case 0:
			first, ok = e.Int64()
		case 1:
			var is bool
			last, is = e.Int64()
			ok = ok && is
		case 2:
			return first, last, e, ok && !e.IsNull() && e.Type() == resp.Array && e.Len() >= 2
		}
		i++
	}
	return 0, 0, resp.Value{}, false
}

// parseServer returns the address and the id of a server: its host, its port,
// and its id since version 4.0. The host is null or empty if it is the one that
// was asked, and "?" if it is unknown.
func parseServer(v resp.Value, asked string) (addr, id string, err error) {
	i, host, port := 0, "", int64(0)
	for e := range v.Elements() {
		switch i {
		case 0:
			host = string(e.Bytes())
		case 1:
			port, _ = e.Int64()
		case 2:
			id = string(e.Bytes())
		}
		i++
	}
	if host == "" {
		host = asked
	}
	addr, err = Address(host, strconv.FormatInt(port, 10))
	return addr, id, err
}

// Moved reports whether an error says that a slot is another server's: "MOVED",
// the slot, and its address.
func Moved(v resp.Value, slot uint16) bool {
	rest, ok := strings.CutPrefix(string(v.Bytes()), "MOVED "+strconv.Itoa(int(slot)))
	return ok && (rest == "" || rest[0] == ' ')
}
