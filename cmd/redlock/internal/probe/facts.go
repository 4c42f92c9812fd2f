package probe

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
)

// Facts are what one node said when it was asked. What it may not be asked is missing: unknown, and not a fault (R22).
type Facts struct {
	// Addr is the address without credentials. Local says that nobody but this machine is on the way there.
	Addr  string
	Local bool
	DB    int // the database that was selected
	// TLS says that the connection is encrypted, Unverified that whoever answers is believed to be the node. Secret says that
	// we showed who we are, by a password or a certificate.
	TLS, Unverified, Secret bool

	// Err is why there was no answer, or why it ended early. Then nothing below needs to be there.
	Err error

	// Server is what the node said of itself in the handshake.
	Server conn.Server
	// Info holds the known lines of INFO. Flushes is how often all keys were deleted since it started, -1 if unknown.
	Info    Lines
	Flushes int64
	// Config holds the settings that CONFIG GET told; it is nil where the user may not ask.
	Config Lines
	// Rights tells what came of each command that locks need, by its name in Rights order.
	Rights []Right
	// User is whom ACL WHOAMI named, "" if it may not be asked.
	User string
	// Seal is what stands in the place of the seal (R23).
	Seal Seal
	// Watchers is how many sentinels listen for one another there, -1 if unknown.
	Watchers int64
	// Slow are the newest entries of the slow log, at most slowEntries.
	Slow []Slow
}

// What a connection's handshake told is as old as the connection, so that the newer answer goes before it.

// RunID is the name of the process that runs there, "" if unknown.
func (f *Facts) RunID() string { return cmp.Or(f.Info["run_id"], f.Server.RunID) }

// Role is "master" or "replica", as a server says it in words old or new; "" if unknown.
func (f *Facts) Role() string {
	if said := cmp.Or(f.Info["role"], f.Server.Role); said != "slave" {
		return said
	}
	return "replica"
}

// Policy is the eviction policy, "" if unknown.
func (f *Facts) Policy() string { return cmp.Or(f.Info["maxmemory_policy"], f.Server.EvictionPolicy) }

// Clustered says that the server is part of a cluster, or ready to be one.
func (f *Facts) Clustered() bool {
	return f.Server.Mode == "cluster" || f.Info["cluster_enabled"] == "1"
}

// Uptime is how long the server runs; ok is false where that is unknown.
func (f *Facts) Uptime() (up time.Duration, ok bool) {
	if seconds, ok := f.Info.Number("uptime_in_seconds"); ok && seconds >= 0 && seconds < lastSecond {
		return time.Duration(seconds) * time.Second, true
	}
	return f.Server.Uptime, f.Server.RunID != ""
}

// Lines are named words, as INFO and CONFIG GET give them: short, printable, and only those that are known here.
type Lines map[string]string

// Number is a line's whole number, of which ok says that there is one.
func (l Lines) Number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(l[name], 10, 64)
	return n, err == nil
}

// A Right is what came of the trial of one command.
type Right struct {
	Name string // "SET", "CLIENT KILL" …
	// Class is that of the error that answered it, ClassNone if none did. What is no error of a class that says why the
	// command cannot be run, as a complaint about the arguments of the trial, is none.
	Class conn.Class
}

// A Seal is what stands in the place of the seal.
type Seal struct {
	State   SealState
	RunID   string        // whose
	MaxTTL  time.Duration // of the clients that wrote it
	Watched time.Duration
}

// SealState is which of the possible things was found in the place of the seal.
type SealState string

// What can be found there.
const (
	SealUnknown SealState = ""        // it may not be read
	SealAbsent  SealState = "absent"  // no such key
	SealStrange SealState = "strange" // something that is no seal
	SealThere   SealState = "there"
)

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

// settings are what CONFIG GET is asked for, each by itself since Redis takes several only from 7.0 on.
var settings = []string{"appendonly", "appendfsync", "no-appendfsync-on-rewrite", "timeout", "min-replicas-to-write", "maxmemory-policy", "save"}

// maxLine bounds a kept value. It is longer than any number, run id or policy.
const maxLine = 64

// readInfo keeps the wanted lines of a text as INFO gives it, and the keys of each database.
func readInfo(text string, into Lines) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok && (wanted[name] || isDatabase(name)) {
			into[name] = printable(value)
		}
	}
}

// isDatabase recognises "db0" to "db99", under which INFO counts the keys.
func isDatabase(name string) bool {
	digits, ok := strings.CutPrefix(name, "db")
	_, err := strconv.ParseUint(digits, 10, 8)
	return ok && err == nil && len(digits) <= 2
}

// Keyspace is how many keys a database has, and how many of them have a TTL; ok is false where that is not known. A database
// without keys is not named at all.
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

// printable is a word's beginning, each byte that is not printable ASCII replaced.
func printable(s string) string {
	b := []byte(s[:min(len(s), maxLine)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
