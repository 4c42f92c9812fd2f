package pure

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Identity names a deployment: a set of nodes that hold the locks of one set
// of clients (R30). It follows from the ids of the members, so clients that
// open one set at the same time cannot disagree. The zero Identity names none.
type Identity struct {
	ID      string // 32 hexadecimal digits, a digest of the members
	Members string // their ids, sorted, with commas between them
}

// IdentityOf returns the deployment of the members with these ids. It changes
// their order.
func IdentityOf(members []string) Identity {
	slices.Sort(members)
	all := strings.Join(members, ",")
	digest := sha256.Sum256([]byte(all))
	return Identity{ID: hex.EncodeToString(digest[:idDigits/2]), Members: all}
}

// Nodes returns how many nodes the deployment has.
func (i Identity) Nodes() int {
	if i == (Identity{}) {
		return 0
	}
	return strings.Count(i.Members, ",") + 1
}

// Has reports whether a node with this id is a member.
func (i Identity) Has(member string) bool { return member != "" && strings.Contains(i.Members, member) }

// sound reports whether an identity is well-formed.
func (i Identity) sound() bool {
	last := ""
	for m := range strings.SplitSeq(i.Members, ",") {
		if !hasDigits(m, memberDigits, hexDigits) || m <= last {
			return false
		}
		last = m
	}
	return hasDigits(i.ID, idDigits, hexDigits) && i.Nodes() <= mostNodes
}

const (
	idDigits     = 32
	memberDigits = 16
	mostNodes    = 16 // R1
)

const hexDigits = "0123456789abcdef"

// hasDigits reports whether a text consists of n of these digits.
func hasDigits(text string, n int, digits string) bool {
	return len(text) == n && strings.Trim(text, digits) == ""
}

// A Seat is what a node is in a deployment. The zero Seat is that of a node
// without a seal. A node is free until it is listed. While a deployment is
// replaced (Init), its nodes have ids that are not in it, and then both sets.
type Seat struct {
	Member string   // the node's own id, 16 random hexadecimal digits
	Listed Identity // the set that clients are about to open with it
	Open   Identity // the deployment that it belongs to
}

// Set returns the set that the node is in, or is about to be in.
func (s Seat) Set() Identity {
	if s.Listed != (Identity{}) {
		return s.Listed
	}
	return s.Open
}

// Free reports whether the node is in no set.
func (s Seat) Free() bool { return s.Set() == Identity{} }

// String returns the text that seals and orders contain.
func (s Seat) String() string {
	if s.Member == "" {
		return ""
	}
	text := "member=" + s.Member
	if who := s.Listed; who != (Identity{}) {
		text += " listed=" + who.ID + " members=" + who.Members
	}
	if who := s.Open; who != (Identity{}) {
		text += " deployment=" + who.ID + " members=" + who.Members
	}
	return text
}

// A Seal is the value of the seal's key. It says what the node is in a
// deployment (R30). If that is open, it also says under which names clients
// reach its members, its MaxTTL, and how long the process with this name was
// watched (R23). It is stored as text: "redlock-seal 5 member=… deployment=…
// members=…,… names=…:…,… run_id=… max_ttl_ms=30000 watched_ms=30305
// uptime_ms=91000". Behind max_ttl_ms, the seal of a node that fails over has
// "failover_ms=7000": its Failover.Bound. Without a deployment there is no
// run_id, and what follows it; on a free node, no names either.
type Seal struct {
	Seat
	Names           Names
	Run             string // see ProcessName; "-" if the run id may not be asked
	MaxTTL, Watched time.Duration
	Failover        Failover
	// Uptime is the longest possible run of the process at the time of
	// Watched. It is 0 for unknown.
	Uptime time.Duration
}

// NoRun stands in a seal for a run id that is not known.
const NoRun = "-"

const (
	anySealHead = "redlock-seal "
	lastForm    = 5
	sealHead    = anySealHead + "5 "
)

// String returns the value of the key.
func (s Seal) String() string {
	text := sealHead + s.Seat.String()
	if !s.Free() {
		text += " names=" + string(s.Names)
	}
	if s.Open != (Identity{}) {
		text += " " + s.Proof()
	}
	return text
}

// Proof returns the end of a seal, which says what was watched.
func (s Seal) Proof() string {
	bound := ""
	if s.Failover.Expected {
		bound = " failover_ms=" + strconv.FormatInt(s.Failover.Bound.Milliseconds(), 10)
	}
	return "run_id=" + s.Run + " max_ttl_ms=" + strconv.FormatInt(s.MaxTTL.Milliseconds(), 10) + bound +
		" watched_ms=" + strconv.FormatInt(s.Watched.Milliseconds(), 10) +
		" uptime_ms=" + strconv.FormatInt(s.Uptime.Milliseconds(), 10)
}

// Over returns the result of writing this seal over an old one of the same
// deployment. What the old one says of the same process is never lowered (R23).
func (s Seal) Over(old Seal) Seal {
	s.MaxTTL = max(s.MaxTTL, old.MaxTTL)
	s.Failover.Bound = max(s.Failover.Bound, old.Failover.Bound)
	if s.Run == old.Run && old.Watched >= s.Watched {
		s.Watched, s.Uptime = old.Watched, old.Uptime
	}
	s.Names = old.Names.And(s.Names)
	return s
}

// errSeal is returned for a value that is not a seal, or is of an unknown
// version.
var errSeal = errors.New("not a seal")

// ParseSeal parses a seal. It accepts only what String returns.
func ParseSeal(text string) (Seal, error) {
	p := scanner{rest: text + " "}
	p.skip(sealHead)
	s := Seal{Seat: p.seat()}
	if !s.Free() {
		p.skip("names=")
		s.Names = Names(p.until(" "))
		p.require(s.Names.sound(s.Set()))
	}
	if s.Open != (Identity{}) {
		p.proof(&s)
	}
	if p.failed || p.rest != "" {
		return Seal{}, errSeal
	}
	return s, nil
}

// LaterForm reports whether a text is a seal of a newer version's form.
func LaterForm(text string) bool {
	rest, ok := strings.CutPrefix(text, anySealHead)
	form, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(form, 10, 31)
	return ok && err == nil && n > lastForm
}

// A scanner takes a text apart, field by field. Its first failure stays, so it
// is asked for at the end.
type scanner struct {
	rest   string
	failed bool
}

func (s *scanner) require(ok bool) { s.failed = s.failed || !ok }

// seat takes a Seat, and the blank behind it.
func (s *scanner) seat() (seat Seat) {
	s.skip("member=")
	seat.Member = s.until(" ")
	s.require(hasDigits(seat.Member, memberDigits, hexDigits))
	seat.Listed = s.identity("listed=")
	s.require(seat.Listed == Identity{} || seat.Listed.Has(seat.Member))
	seat.Open = s.identity("deployment=")
	return seat
}

// identity takes the identity behind a mark, if that comes now, and the blank
// behind it.
func (s *scanner) identity(mark string) (who Identity) {
	rest, ok := strings.CutPrefix(s.rest, mark)
	if !ok {
		return who
	}
	s.rest = rest
	who.ID = s.until(" members=")
	who.Members = s.until(" ")
	s.require(who.sound())
	return who
}

// proof takes what Seal.Proof returns, and the blank behind it.
func (s *scanner) proof(seal *Seal) {
	s.skip("run_id=")
	seal.Run = s.word(" max_ttl_ms=")
	longest := s.until(" ")
	seal.MaxTTL = s.milliseconds(longest)
	s.require(seal.MaxTTL > 0)
	if rest, ok := strings.CutPrefix(s.rest, "failover_ms="); ok {
		s.rest = rest
		seal.Failover = Failover{Expected: true, Bound: s.milliseconds(s.until(" "))}
	}
	s.skip("watched_ms=")
	seal.Watched = s.milliseconds(s.until(" uptime_ms="))
	seal.Uptime = s.milliseconds(s.until(" "))
}

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

// A Sighting is the result of a look at a node's seal.
type Sighting struct {
	What Seen
	Seal Seal
	// Later reports that the strange thing is of a newer version's form,
	// see LaterForm.
	Later bool
}

// Free reports whether the node is in no set.
func (s Sighting) Free() bool {
	return s.What == SealAbsent || s.What == SealSeen && s.Seal.Free()
}

// Identity returns the deployment that the node belongs to, or zero for none
// known.
func (s Sighting) Identity() Identity { return s.Seal.Open }

// Seen is what a look at the seal's key found.
type Seen uint8

// What a look can find.
const (
	Unreadable  Seen = iota // an error: unknown, not a fault
	SealAbsent              // no such key
	SealStrange             // its key holds something else
	SealSeen                // a seal, of this process or another
)
