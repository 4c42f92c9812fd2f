package pure

import (
	"fmt"
	"strconv"
	"strings"
)

// Names says under which names clients reach the members of a deployment:
// "member:name", with commas between them. A member has several where clients
// write its address in several ways. By them a node that has lost its seal gets
// its place again, and a client knows whether nodes are listed for its own set
// (R30).
type Names string

// mostNames bounds the names of one member. The script of the seal knows it
// too.
const mostNames = 4

// NameOf returns the name of a node: the FNV-1a hash of its address, with hosts
// in lower case, and its database. Addresses are hashed so that a node's seal
// does not reveal those of the others.
func NameOf(addr string, db int) string {
	addr = FoldHosts(addr)
	if db != 0 {
		addr += "/" + strconv.Itoa(db)
	}
	hash := uint64(14695981039346656037)
	for i := range len(addr) {
		hash = (hash ^ uint64(addr[i])) * 1099511628211
	}
	return fmt.Sprintf("%016x", hash)
}

// FoldHosts returns an address with its hosts in lower case. Case matters in
// what follows a slash: the path of a socket, and the name of a master that
// sentinels watch.
func FoldHosts(addr string) string {
	hosts, _, _ := strings.Cut(addr, "/")
	return strings.ToLower(hosts) + addr[len(hosts):]
}

// entries goes through the names.
func (n Names) entries(yield func(member, name string) bool) {
	for rest := string(n); rest != ""; {
		var entry string
		entry, rest, _ = strings.Cut(rest, ",")
		if member, name, _ := strings.Cut(entry, ":"); !yield(member, name) {
			return
		}
	}
}

// Lacks reports whether a member does not have a name, and may get another one.
func (n Names) Lacks(member, name string) bool {
	count := 0
	for m, its := range n.entries {
		if m == member && its == name {
			return false
		}
		if m == member {
			count++
		}
	}
	return count < mostNames
}

// With returns the names with another one, if the member lacks it.
func (n Names) With(member, name string) Names {
	switch {
	case !n.Lacks(member, name):
		return n
	case n == "":
		return Names(member + ":" + name)
	}
	return n + Names(","+member+":"+name)
}

// And returns the names and others.
func (n Names) And(others Names) Names {
	for member, name := range others.entries {
		n = n.With(member, name)
	}
	return n
}

// Member returns the id of the member with a name. It is "" for none, and for
// several: then the name depends on who uses it, as localhost does.
func (n Names) Member(name string) (id string) {
	for member, its := range n.entries {
		switch {
		case its != name:
		case id != "":
			return ""
		default:
			id = member
		}
	}
	return id
}

// sound reports whether these are names of members of a set.
func (n Names) sound(of Identity) bool {
	if strings.HasSuffix(string(n), ",") {
		return false
	}
	for member, name := range n.entries {
		if !hasDigits(member, memberDigits, hexDigits) || !hasDigits(name, memberDigits, hexDigits) || !of.Has(member) {
			return false
		}
	}
	return len(n) <= mostNodes*mostNames*(2*memberDigits+2)
}
