package probe

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// Facts are what one node said when it was asked. What it may not be asked is
// missing: that is unknown, and not a fault (R22).
type Facts struct {
	// Addr is the address without credentials. Name is the node's in a
	// deployment. Local reports whether only this machine is on the way there.
	Addr  string
	Name  string
	Local bool
	DB    int // the database that was selected
	// Failover is what the URL says of servers that take the node's place.
	Failover conn.Failover
	// TLS reports whether the connection is encrypted, and Unverified whether
	// any certificate is accepted. Secret reports whether we authenticated, by
	// a password or a certificate.
	TLS, Unverified, Secret bool

	// Err is why there was no answer, or why it ended early. Then the fields
	// below may be missing.
	Err error

	// Server is what the node said of itself in the handshake.
	Server conn.Server
	// Info holds the known lines of INFO. Flushes is how often all keys were
	// deleted since the server started, -1 if unknown.
	Info    Lines
	Flushes int64
	// Config holds the settings that CONFIG GET returned. It is nil if the user
	// may not ask.
	Config Lines
	// Rights holds the result of each command that locks need, in the order of
	// trials.
	Rights []Right
	// User is what ACL WHOAMI returned, "" if it may not be asked.
	User string
	// Seal is what the key of the seal holds (R23, R30).
	Seal Seal
	// Others are run ids of other servers to which the address leads, see
	// Probe.Others.
	Others []string
	// Later reports that the seal is of a form that a newer version writes.
	Later bool
	// Elsewhere is what another database belongs to, by the same key.
	Elsewhere pure.Other
	// Fence is what the key of the fencing numbers holds.
	Fence Fence
	// Watchers is how many sentinels listen there for each other, -1 if
	// unknown.
	Watchers int64
	// Around is what surrounds the node, see Probe.LookAround.
	Around Around
	// replicas are the addresses of replicas in INFO.
	replicas []string
	// Slow are the newest entries of the slow log, at most slowEntries.
	Slow []Slow
}

// The handshake is as old as the connection, so newer answers take precedence.

// RunID names the run of the server process, "" if unknown.
func (f *Facts) RunID() string { return cmp.Or(f.Info["run_id"], f.Server.RunID) }

// Process is the name of what a client watches there: see pure.ProcessName.
func (f *Facts) Process() string { return pure.ProcessName(f.RunID(), f.Server.History) }

// Role is "master" or "replica", in old or new words; "" if unknown.
func (f *Facts) Role() string {
	if said := cmp.Or(f.Info["role"], f.Server.Role); said != "slave" {
		return said
	}
	return "replica"
}

// Policy is the eviction policy, "" if unknown.
func (f *Facts) Policy() string { return cmp.Or(f.Info["maxmemory_policy"], f.Server.EvictionPolicy) }

// Clustered reports whether the server is part of a cluster, or ready to be
// one, and its URL does not say so.
func (f *Facts) Clustered() bool {
	if f.Server.Addr != "" {
		return false // seeds led there
	}
	return f.Server.Mode == "cluster" || f.Info["cluster_enabled"] == "1"
}

// Uptime is how long the server has been running. ok reports whether that is
// known.
func (f *Facts) Uptime() (up time.Duration, ok bool) {
	if seconds, ok := f.Info.Number("uptime_in_seconds"); ok && seconds >= 0 && seconds < lastSecond {
		return time.Duration(seconds) * time.Second, true
	}
	return f.Server.Uptime, f.Server.RunID != ""
}

// Lines are named words, as INFO and CONFIG GET give them: short, printable,
// and only known names.
type Lines map[string]string

// Number returns the whole number of a line. ok reports whether there is one.
func (l Lines) Number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(l[name], 10, 64)
	return n, err == nil
}

// A Right is the result of the trial of one command.
type Right struct {
	Name string // "SET", "CLIENT KILL" …
	// Class is the class of the error that says why the command cannot be run,
	// or ClassNone. Other errors, such as a complaint about the arguments of
	// the trial, do not count.
	Class conn.Class
}

// A Seal is what the key of the seal holds.
type Seal struct {
	State SealState
	pure.Seal
}

// A Fence is what the key of the fencing numbers holds.
type Fence struct {
	State  SealState
	Record pure.Record
}

// SealState says what a key holds.
type SealState string

// The states of a key.
const (
	SealUnknown SealState = ""        // it may not be read
	SealAbsent  SealState = "absent"  // no such key
	SealStrange SealState = "strange" // something that is neither
	SealThere   SealState = "there"
)

// Sighting returns the seal as a client sees it.
func (f *Facts) Sighting() pure.Sighting {
	what := map[SealState]pure.Seen{SealAbsent: pure.SealAbsent, SealStrange: pure.SealStrange, SealThere: pure.SealSeen}[f.Seal.State]
	return pure.Sighting{What: what, Seal: f.Seal.Seal, Later: f.Later}
}

// A Slow is a command that took long.
type Slow struct {
	Command string // its first word
	Took    time.Duration
	Ago     time.Duration // by the node's clock
}

// wanted are the lines of INFO that are kept.
var wanted = map[string]bool{
	"run_id": true, "uptime_in_seconds": true, "connected_clients": true, "maxclients": true, "blocked_clients": true,
	"used_memory": true, "total_system_memory": true, "maxmemory": true, "maxmemory_policy": true,
	"loading": true, "rdb_last_bgsave_status": true, "aof_enabled": true, "aof_last_write_status": true,
	"rejected_connections": true, "evicted_keys": true, "latest_fork_usec": true,
	"role": true, "connected_slaves": true, "master_failover_state": true, "cluster_enabled": true,
}

// settings are the names for CONFIG GET, one per command: before 7.0, Redis
// takes only one.
var settings = []string{"appendonly", "appendfsync", "no-appendfsync-on-rewrite", "timeout", "min-replicas-to-write", "min-replicas-max-lag", "maxmemory-policy",
	"save", "cluster-node-timeout"}

// maxLine bounds a kept value. It is longer than any number or policy, and than
// the name of a process: a run id, two histories and an offset (R23).
const maxLine = 160

// readInfo keeps the wanted lines of INFO, and the line of each database.
func readInfo(text string, into Lines) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok && (wanted[name] || isDatabase(name)) {
			into[name] = printable(value)
		}
	}
}

// readReplicas returns the addresses in the lines of INFO about replicas, such
// as "slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0".
func readReplicas(text string) (addrs []string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":ip=")
		host, rest, ok := strings.Cut(value, ",port=")
		port, _, _ := strings.Cut(rest, ",")
		if ok && strings.HasPrefix(name, "slave") && len(addrs) < mostAnnounced {
			addrs = append(addrs, net.JoinHostPort(host, port))
		}
	}
	return addrs
}

// isDatabase recognises "db0" to "db99", the lines of INFO that count keys.
func isDatabase(name string) bool {
	digits, ok := strings.CutPrefix(name, "db")
	_, err := strconv.ParseUint(digits, 10, 8)
	return ok && err == nil && len(digits) <= 2
}

// Keyspace returns how many keys a database has, and how many of them have a
// TTL. ok reports whether that is known. INFO omits databases without keys.
func (f *Facts) Keyspace(db int) (keys, expiring int64, ok bool) {
	if _, known := f.Info["used_memory"]; !known {
		return 0, 0, false // INFO was not answered
	}
	for field := range strings.SplitSeq(f.Info["db"+strconv.Itoa(db)], ",") {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil || n < 0:
		case name == "keys":
			keys = n
		case name == "expires":
			expiring = n
		}
	}
	return keys, expiring, true
}

// readFlushes adds up the calls of FLUSHALL and FLUSHDB in INFO commandstats.
func readFlushes(text string) (calls int64) {
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_flushall" && name != "cmdstat_flushdb" {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n > 0 && calls+n > calls {
			calls += n
		}
	}
	return calls
}

// printable returns the beginning of a word, with each byte that is not
// printable ASCII replaced.
func printable(s string) string {
	b := []byte(s[:min(len(s), maxLine)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
