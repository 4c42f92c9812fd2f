package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/resp"
)

// A kind is what a node has under a lock's name. The zero kind is nothing, or a
// value that may be a token.
type kind struct {
	// Type is the type by the server, for example "string" or "hash".
	Type string
	// Size is the number of bytes of a string, or of elements of anything else;
	// -1 if unknown.
	Size int64
	// Number reports whether a string is a whole number, as a counter is.
	Number bool
	// Redisson reports whether a hash has the fields of a Redisson lock: the id
	// of a client, a colon and the number of a thread.
	Redisson bool
}

// longestToken is longer than the tokens of this library and of other
// implementations of the algorithm (docs/migrating.md).
const longestToken = 128

// foreign reports whether no implementation of this algorithm can have written
// the key. A program that locks in another way, or does not lock at all, may
// use it.
func (k kind) foreign() bool {
	return k.Type != "" && (k.Type != "string" || k.Number || k.Size > longestToken)
}

// String describes the key without its content.
func (k kind) String() string {
	switch {
	case k.Type == "":
		return ""
	case k.Type == "string" && k.Number:
		return "a whole number (a counter?)"
	case k.Type == "string":
		return "a string of " + count(int(k.Size), "byte")
	case k.Type == "hash" && k.Size < 0:
		return "a hash"
	case k.Type == "hash" && k.Redisson:
		return "a Redisson lock: a hash of " + count(int(k.Size), "field")
	case k.Type == "hash":
		return "a hash of " + count(int(k.Size), "field")
	case k.Size < 0:
		return "a key of type " + plain(k.Type)
	default:
		return fmt.Sprintf("a key of type %s, %s", plain(k.Type), count(int(k.Size), "element"))
	}
}

// sizeCommands count the elements of a key, by its type.
var sizeCommands = map[string]string{
	"string": "STRLEN", "hash": "HLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "stream": "XLEN",
}

// kindsOf asks the nodes that have a key what it is. If the user may not ask,
// or a node does not answer, it stays unknown.
func kindsOf(ctx context.Context, d *deployment, probes []*probe.Probe, key string, found admin.Inspection) []kind {
	kinds := make([]kind, len(probes))
	if !slices.ContainsFunc(found.Nodes, hasKey) {
		return kinds
	}
	d.forEach(ctx, probes, func(ctx context.Context, i int, node *probe.Probe) {
		if i < len(found.Nodes) && hasKey(found.Nodes[i]) {
			kinds[i] = kindOf(ctx, node, key)
		}
	})
	return kinds
}

func hasKey(n admin.InspectedNode) bool { return n.Err == nil && (n.Foreign || n.Holder != "") }

// kindOf asks one node. It fetches no more than the beginning of a value, and
// keeps none of it (R27).
func kindOf(ctx context.Context, node *probe.Probe, key string) (k kind) {
	k.Size = -1
	err := node.Ask(ctx, probe.Question{Command: resp.AppendCommand(nil, "TYPE", key), Take: func(v resp.Value) error {
		if name := string(v.Bytes()); !v.IsError() && name != "none" && len(name) <= longestType {
			k.Type = name
		}
		return nil
	}})
	command := sizeCommands[k.Type]
	if err != nil || command == "" {
		return k
	}
	questions := []probe.Question{{Command: resp.AppendCommand(nil, command, key), Take: func(v resp.Value) error {
		if n, ok := v.Int64(); ok && n >= 0 {
			k.Size = n
		}
		return nil
	}}}
	switch k.Type {
	case "string":
		questions = append(questions, probe.Question{
			Command: resp.AppendCommand(nil, "GETRANGE", key, "0", strconv.Itoa(longestNumber)), Take: func(v resp.Value) error {
				k.Number = isNumber(string(v.Bytes())) && !v.IsError()
				return nil
			}})
	case "hash":
		// HSCAN returns few fields of a large hash, where HKEYS would return
		// all.
		questions = append(questions, probe.Question{
			Command: resp.AppendCommand(nil, "HSCAN", key, "0", "COUNT", "1"), Take: func(v resp.Value) error {
				k.Redisson = looksLikeRedisson(v)
				return nil
			}})
	}
	if err := node.Ask(ctx, questions...); err != nil {
		return kind{Type: k.Type, Size: -1}
	}
	return k
}

const (
	longestType   = 32 // modules name types of their own
	longestNumber = 20 // the digits of an int64, and a sign
)

// isNumber reports whether INCR works on a value.
func isNumber(value string) bool {
	_, err := strconv.ParseInt(value, 10, 64)
	return err == nil
}

// looksLikeRedisson takes the answer to HSCAN: a cursor, and the fields with
// their values. Redisson names a field by a UUID, a colon and the number of a
// thread; a read-write lock also has a field "mode".
func looksLikeRedisson(v resp.Value) bool {
	place, holders := 0, 0
	for part := range v.Elements() {
		if place++; place != 2 || part.Type() != resp.Array {
			continue
		}
		for field := range part.Pairs() {
			switch name := string(field.Bytes()); {
			case redissonField.MatchString(name):
				holders++
			case name != "mode":
				return false
			}
		}
	}
	return holders > 0
}

var redissonField = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+(:[a-z]+)?$`)

// foreignText says which keys of another kind exist, on how many nodes, and
// until when.
func foreignText(found admin.Inspection, kinds []kind) string {
	on := make(map[string]int)
	var names []string
	var ttl time.Duration
	for i, n := range found.Nodes {
		if !isForeign(n, kindAt(kinds, i)) {
			continue
		}
		name := kindName(kindAt(kinds, i))
		if on[name]++; on[name] == 1 {
			names = append(names, name)
		}
		if ttl != admin.NoExpiry && (n.TTL == admin.NoExpiry || n.TTL > ttl) {
			ttl = n.TTL
		}
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s on %d of %s", name, on[name], count(len(found.Nodes), "node"))
	}
	expiry := "never expires"
	if ttl != admin.NoExpiry {
		expiry = "expires in " + ttl.Round(time.Millisecond).String()
	}
	return strings.Join(names, ", ") + "; it " + expiry
}

// kindName describes a key of another kind, even if the user may not ask for
// its type.
func kindName(k kind) string {
	if k.Type == "" {
		return "a key that is not a string"
	}
	return k.String()
}

// isForeign reports whether a node has a key that no client of this algorithm
// set.
func isForeign(n admin.InspectedNode, k kind) bool {
	return n.Err == nil && (n.Foreign || n.Holder != "" && k.foreign())
}

// kindAt returns the zero kind if the nodes were not asked.
func kindAt(kinds []kind, i int) kind {
	if i >= len(kinds) {
		return kind{}
	}
	return kinds[i]
}
