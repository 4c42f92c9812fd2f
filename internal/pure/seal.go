package pure

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Identity names a deployment: a set of nodes that hold the locks of one set
// of clients (R30). The zero Identity names none.
type Identity struct {
	ID    string // 32 hexadecimal digits, random
	Nodes int    // how many nodes the set has
	// Members has the hash of each node's address, sorted, with commas between
	// them; see MembersOf.
	Members string
}

// FoldHosts returns an address with its hosts in lower case. Case matters in
// what follows a slash: the path of a socket, and the name of a master that
// sentinels watch.
func FoldHosts(addr string) string {
	hosts, _, _ := strings.Cut(addr, "/")
	return strings.ToLower(hosts) + addr[len(hosts):]
}

// MemberOf returns the name under which an identity lists a node: the FNV-1a
// hash of its address, with hosts in lower case. Addresses are hashed so that a
// node's seal does not reveal those of the others.
func MemberOf(addr string) string {
	addr = FoldHosts(addr)
	hash := uint64(14695981039346656037)
	for i := range len(addr) {
		hash = (hash ^ uint64(addr[i])) * 1099511628211
	}
	return fmt.Sprintf("%016x", hash)
}

// MembersOf returns the list of the nodes with these addresses.
func MembersOf(addrs []string) string {
	all := make([]string, len(addrs))
	for i, addr := range addrs {
		all[i] = MemberOf(addr)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// Lists reports whether the identity lists a member.
func (i Identity) Lists(member string) bool { return strings.Contains(i.Members, member) }

// String returns the text that seals and openings contain.
func (i Identity) String() string {
	return "deployment=" + i.ID + " nodes=" + strconv.Itoa(i.Nodes) + " members=" + i.Members
}

// A Seal is the value of the seal's key. It says which deployment the node
// belongs to, its MaxTTL, and how long the process with this name was watched
// (R23, R30). It is stored as text: "redlock-seal 3 deployment=… nodes=5
// members=… run_id=… max_ttl_ms=30000 watched_ms=30305 uptime_ms=91000".
//
// The seal of a node that fails over has form 4, with "failover_ms=7000" behind
// max_ttl_ms: its Failover.Bound. Clients that take it for a lone master must
// not believe it, and those that know form 3 alone cannot.
//
// Form 2 has the run id alone, so it proves nothing about a server with a
// replication history. Clients of form 2 must not read form 3: they would find
// another process there. Form 1, "redlock-seal 1 run_id=… max_ttl_ms=…
// watched_ms=…", also names no deployment.
type Seal struct {
	Identity        Identity // zero in form 1
	Run             string   // see ProcessName; "-" if the run id may not be asked
	MaxTTL, Watched time.Duration
	Failover        Failover
	// Uptime is the longest possible run of the process at the time of
	// Watched. It is 0 for unknown, and in form 1.
	Uptime time.Duration
}

// NoRun stands in a seal for a run id that is not known.
const NoRun = "-"

const (
	anySealHead = "redlock-seal "
	overHead    = anySealHead + "4 "
	sealHead    = anySealHead + "3 "
	runSealHead = anySealHead + "2 "
	oldSealHead = anySealHead + "1 "
)

// String returns the value of the key.
func (s Seal) String() string {
	head, bound := sealHead, ""
	if s.Failover.Expected {
		head, bound = overHead, " failover_ms="+strconv.FormatInt(s.Failover.Bound.Milliseconds(), 10)
	}
	proof := "run_id=" + s.Run + " max_ttl_ms=" + strconv.FormatInt(s.MaxTTL.Milliseconds(), 10) + bound +
		" watched_ms=" + strconv.FormatInt(s.Watched.Milliseconds(), 10)
	if s.Identity == (Identity{}) {
		return oldSealHead + proof
	}
	return head + s.Identity.String() + " " + proof + " uptime_ms=" + strconv.FormatInt(s.Uptime.Milliseconds(), 10)
}

// Over returns the result of writing this seal over an old one. What the old
// one says of the same process is never lowered (R23).
func (s Seal) Over(old Seal) Seal {
	s.MaxTTL = max(s.MaxTTL, old.MaxTTL)
	s.Failover.Bound = max(s.Failover.Bound, old.Failover.Bound)
	if s.Run == old.Run && old.Watched >= s.Watched {
		s.Watched, s.Uptime = old.Watched, old.Uptime
	}
	return s
}

// errSeal is returned for a value that is not a seal or an opening, or is of an
// unknown version.
var errSeal = errors.New("not a seal")

// ParseSeal parses a seal. It accepts only what String returns, and form 2.
func ParseSeal(text string) (Seal, error) {
	var s Seal
	rest, isOld := strings.CutPrefix(text, oldSealHead)
	if !isOld {
		head := sealHead
		for _, other := range [...]string{overHead, runSealHead} {
			if strings.HasPrefix(text, other) {
				head = other
			}
		}
		s.Failover.Expected = head == overHead
		var err error
		if s.Identity, rest, err = parseIdentity(text, head); err != nil {
			return Seal{}, err
		}
	}
	p := scanner{rest: rest}
	p.skip("run_id=")
	s.Run = p.word(" max_ttl_ms=")
	if s.Failover.Expected {
		s.MaxTTL = p.milliseconds(p.until(" failover_ms="))
		s.Failover.Bound = p.milliseconds(p.until(" watched_ms="))
	} else {
		s.MaxTTL = p.milliseconds(p.until(" watched_ms="))
	}
	p.require(s.MaxTTL > 0)
	if isOld {
		s.Watched = p.milliseconds(p.rest)
		p.require(s.Watched > 0)
	} else {
		s.Watched = p.milliseconds(p.until(" uptime_ms="))
		s.Uptime = p.milliseconds(p.rest)
	}
	if p.failed {
		return Seal{}, errSeal
	}
	return s, nil
}

// parseIdentity parses the identity behind head, and returns the rest of the
// text.
func parseIdentity(text, head string) (who Identity, rest string, err error) {
	p := scanner{rest: text}
	p.skip(head + "deployment=")
	who.ID = p.until(" nodes=")
	nodes := p.until(" members=")
	who.Members, rest, _ = strings.Cut(p.rest, " ")
	who.Nodes, _ = strconv.Atoi(nodes)
	p.require(strconv.Itoa(who.Nodes) == nodes)
	p.require(who.sound())
	if p.failed {
		return Identity{}, "", errSeal
	}
	return who, rest, nil
}

// sound reports whether an identity is well-formed.
func (i Identity) sound() bool {
	if !hasDigits(i.ID, 32, hexDigits) || i.Nodes < 1 || i.Nodes > mostNodes {
		return false
	}
	for m := range strings.SplitSeq(i.Members, ",") {
		if !hasDigits(m, 16, hexDigits) {
			return false
		}
	}
	return strings.Count(i.Members, ",") == i.Nodes-1
}

// hasDigits reports whether a text consists of n of these digits.
func hasDigits(text string, n int, digits string) bool {
	return len(text) == n && strings.Trim(text, digits) == ""
}

const (
	hexDigits = "0123456789abcdef"
	mostNodes = 16 // R1
)

// A scanner takes a text apart, field by field. Its first failure stays, so it
// is asked for at the end.
type scanner struct {
	rest   string
	failed bool
}

func (s *scanner) require(ok bool) { s.failed = s.failed || !ok }

// skip goes behind a text that must come now.
func (s *scanner) skip(text string) {
	rest, ok := strings.CutPrefix(s.rest, text)
	s.rest = rest
	s.require(ok)
}

// until returns the text before a mark, and goes behind the mark.
func (s *scanner) until(mark string) string {
	text, rest, ok := strings.Cut(s.rest, mark)
	s.rest = rest
	s.require(ok)
	return text
}

// word is until for a text that is not empty and has no blanks.
func (s *scanner) word(mark string) string {
	word := s.until(mark)
	s.require(word != "" && !strings.ContainsAny(word, " \r\n"))
	return word
}

// number returns the value of decimal digits, which may be at most most.
func (s *scanner) number(digits string, most int64) int64 {
	n, err := strconv.ParseUint(digits, 10, 63)
	s.require(err == nil && int64(n) <= most)
	return int64(n)
}

// milliseconds returns a time of up to a hundred years, so that sums fit in a
// time.Duration.
func (s *scanner) milliseconds(digits string) time.Duration {
	return time.Duration(s.number(digits, LongestTTL.Milliseconds())) * time.Millisecond
}

// A Stage is how far an opening has come on one node.
type Stage uint8

// The stages of an opening.
const (
	NoOpening Stage = iota
	Proposed        // expires by itself
	Locked          // does not expire
)

var stageNames = [...]string{"", "proposed", "locked"}

// String returns the stage as it is written in an Opening.
func (s Stage) String() string { return stageNames[s] }

// An Opening is the value of the opening's key. It says that a client is about
// to give this identity to a set of nodes without one (R30). It is stored as
// text: "redlock-opening 1 proposed deployment=… nodes=5 members=…".
type Opening struct {
	Stage    Stage
	Identity Identity
}

const (
	anyOpeningHead = "redlock-opening "
	openingHead    = anyOpeningHead + "1 "
)

// LaterForm reports whether a text is a seal or an opening of a newer version's
// form.
func LaterForm(text string) bool {
	for head, last := range map[string]int{anySealHead: 4, anyOpeningHead: 1} {
		rest, ok := strings.CutPrefix(text, head)
		form, _, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseUint(form, 10, 31); ok && err == nil && int(n) > last {
			return true
		}
	}
	return false
}

// String returns the value of the key.
func (o Opening) String() string { return openingHead + o.Stage.String() + " " + o.Identity.String() }

// ParseOpening parses an opening. It accepts only what String returns.
func ParseOpening(text string) (Opening, error) {
	for _, stage := range [...]Stage{Proposed, Locked} {
		who, _, err := parseIdentity(text, openingHead+stage.String()+" ")
		if o := (Opening{stage, who}); err == nil && o.String() == text {
			return o, nil
		}
	}
	return Opening{}, errSeal
}

// A Sighting is the result of a look at a node's seal and opening.
type Sighting struct {
	What    Seen
	Seal    Seal
	Opening Opening // zero: none
	// Later reports that the strange thing is of a newer version's form,
	// see LaterForm.
	Later bool
}

// Free reports whether the node belongs to no deployment and is in no opening.
func (s Sighting) Free() bool {
	switch {
	case s.Opening.Stage != NoOpening:
		return false
	case s.What == SealAbsent:
		return true
	}
	return s.What == SealSeen && s.Seal.Identity == Identity{}
}

// Identity returns the deployment that the node belongs to, or zero for none
// known.
func (s Sighting) Identity() Identity { return s.Seal.Identity }

// Seen is what a look at the seal's key found.
type Seen uint8

// What a look can find.
const (
	Unreadable  Seen = iota // an error: unknown, not a fault
	SealAbsent              // no such key
	SealStrange             // its key, or the opening's, holds something else
	SealSeen                // a seal, of this process or another
)
