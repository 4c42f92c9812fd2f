package multiplex

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex/internal/member"
	"github.com/redmux/redmux/resp"
)

// checkRole is the PreflightError.Check of a replica.
const checkRole = "role"

// admits refuses a server that must not take part, as Config.Allow and the
// node's endpoint have it.
func (n *node) admits(s *conn.Server) error {
	allow := n.group.config.Allow
	allow.Cluster = allow.Cluster || n.dialer.config.InCluster()
	if err := allow.check(s); err != nil || n.dialer.config.Endpoint.Failover.Bound <= 0 || s.History != "" {
		return err
	}
	return &PreflightError{"failover", "INFO does not tell its replication history, and without that no bound holds",
		"allow INFO, or declare the bound unknown (failover=unknown)", ErrPermissions}
}

// check refuses a server that is no independent master (R22). What the server
// does not say is no reason to refuse it.
func (a *Allow) check(s *conn.Server) error {
	if err := a.checkMode(s); err != nil || a.Replica {
		return err
	}
	switch s.Role {
	case "", "master", "primary", "sentinel":
		return nil
	}
	return notMaster("the server says that its role is " + s.Role)
}

func (a *Allow) checkMode(s *conn.Server) error {
	switch s.Mode {
	case "cluster":
		return a.checkCluster(s)
	case "sentinel":
		if !a.Sentinel {
			return &PreflightError{"mode", "the server is a sentinel",
				"name it by redis+sentinel:, with the name of the master, or name a master; Allow.Sentinel overrides this", ErrNotMaster}
		}
	}
	return nil
}

func (a *Allow) checkCluster(s *conn.Server) error {
	// A node of a cluster tells the id with HELLO, or the run id with INFO.
	proxy := s.ID == 0 && s.RunID == ""
	switch {
	case proxy, s.ID == 0 && !a.Cluster:
		return &PreflightError{"mode", "it says that it is a cluster, and gives no connection an id",
			"name the masters themselves, not a proxy such as envoy", conn.ErrProxy}
	case !a.Cluster:
		return &PreflightError{"mode", "the server is in cluster mode",
			"name a server that is on its own, or the cluster by redis+cluster:; Allow.Cluster overrides this", ErrNotMaster}
	}
	return nil
}

func notMaster(found string) error {
	return &PreflightError{checkRole, found,
		"name a master, or its sentinels by redis+sentinel:, or run REPLICAOF NO ONE there; Allow.Replica overrides this", ErrNotMaster}
}

// sameServer returns the error for a server with a vote already.
func sameServer(other string) error {
	return &PreflightError{"same server", "the run id is that of the server at " + other,
		"name each server once: N votes need N servers; Allow.SameServer overrides this", ErrSameNode}
}

// otherMaxTTL returns the error for a node with another MaxTTL in its seal
// (R23).
func otherMaxTTL(found, ours time.Duration) error {
	return &PreflightError{"MaxTTL", fmt.Sprintf("its seal says %v, this client %v", found, ours),
		"all clients of a deployment must set the same; to change it, stop all of them first and replace the deployment " +
			"(redlock init), or set Allow.OtherMaxTTL on all of them while the longer one is rolled out", ErrMaxTTL}
}

// otherFailover returns the error for a node whose seal says otherwise of its
// failover. It is ErrMaxTTL too: for these clients, the node counts too early
// after a failover.
func otherFailover(found, ours pure.Failover) error {
	return &PreflightError{"failover", fmt.Sprintf("its seal says that %s, this client that %s", boundOf(found), boundOf(ours)),
		"all clients of a deployment must name the node with the same failover, and its servers must have the same min-replicas-to-write " +
			"and min-replicas-max-lag; to change it, stop all of them first and replace the deployment (redlock init)", ErrMaxTTL}
}

func boundOf(f pure.Failover) string {
	switch {
	case !f.Expected:
		return "nothing fails over"
	case f.Bound == 0:
		return "nothing bounds a former primary"
	}
	return fmt.Sprintf("a former primary accepts writes for %v", f.Bound)
}

// Warnings, besides those of Config.Remarks.
const (
	warnNotDurable = "declared durable, but says that appendonly is off: a restart loses its keys (set appendonly yes and " +
		"appendfsync always)"
	warnNoRunID = "it tells no run id, so each new client, and each reconnect, waits for MaxTTL (allow INFO; miniredis " +
		"has none: use redlocktest, or set Forgetful in tests)"
)

// WarnForgetful is the warning of a client without MaxTTL about a node of
// clients with one. A tool that takes no lock need not show it.
const WarnForgetful = "belongs to a deployment whose clients obey MaxTTL, which this client does not: its locks may be " +
	"lost when a node restarts"

const warnNameless = "its deployment keeps four other addresses of it, or this one for another member, too: if it comes back empty, " +
	"clients that know only this address do not count it (name each node by the same address in all clients)"

// Warnings of a node that fails over.
const (
	warnUnbounded = "it fails over, and nothing is known to bound how long a former primary accepts writes: two clients can hold one " +
		"lock while two primaries do (set min-replicas-to-write to the number of its replicas, on all its servers, or declare the bound in " +
		"the URL; a deployment that was opened before has none until redlock init replaces it)"
	warnTooShort = "its failover outlasts every lock: a former primary may grant for %v, and a lock of MaxTTL, renewed in time, has %v left " +
		"(raise MaxTTL, or lower min-replicas-max-lag)"
)

// failoverLocked returns what is noteworthy about how the node fails over. A
// lock is renewed at a third of its validity at the latest, and its vote must
// outlast the former primary. Without MaxTTL, the client takes no lock.
func (n *reporter) failoverLocked() []string {
	f := n.group.members.Failover(n.index)
	left := n.group.config.MaxTTL * 2 / 3
	switch alone := f.Alone(n.group.config.DriftFactor); {
	case !f.Expected || !n.known.Load():
		return nil
	case f.Bound == 0:
		return []string{warnUnbounded}
	case alone > left && left > 0:
		return []string{fmt.Sprintf(warnTooShort, alone, left)}
	}
	return nil
}

// Remarks are what is noteworthy about a node that is not refused (R22). The
// group's mutex guards them.
type remarks struct {
	of    []string // its server, since it was last met
	other string   // the warning of another server behind the name, or ""
	// credentials is the warning of a renewal that failed, or "".
	credentials string
}

// meet begins anew, with what is noteworthy about a server that shook hands.
func (r *remarks) meet(node int, config *Config, s *conn.Server) {
	r.of, r.credentials = nil, ""
	if p := s.EvictionPolicy; p != "" && p != "noeviction" && !config.Allow.Eviction {
		r.add("may evict the keys of locks: maxmemory-policy is " + p + " (set noeviction)")
	}
	if config.Remarks != nil {
		r.of = append(r.of, config.Remarks(s)...)
	}
	if config.MaxTTL > 0 && s.RunID == "" && !config.Durable.Has(node) {
		r.add(warnNoRunID)
	}
}

func (r *remarks) add(warning string) { r.of = append(r.of, warning) }

// warningsLocked lists what is noteworthy about the node. The slice is the
// caller's.
func (n *reporter) warningsLocked() []string {
	all := slices.Clone(n.remarks.of)
	if n.group.members.Nameless(n.index) {
		all = append(all, warnNameless)
	}
	if n.remarks.other != "" {
		all = append(all, n.remarks.other)
	}
	if n.remarks.credentials != "" {
		all = append(all, n.remarks.credentials)
	}
	return append(all, n.failoverLocked()...)
}

var infoPersistence = resp.AppendCommand(nil, "INFO", "persistence")

// inspect examines the node once before it joins, over its own connection: its
// seal and clock, and if it was declared durable, the server's settings. An
// error ends the connection.
func (n *node) inspect(c *conn.Conn) error {
	g := n.group
	q := new(member.Questions)
	if g.config.sealed() {
		n.inspectFlushes(q.Add)
	}
	g.members.Inspect(n.index, q, func() { n.reporter.remarks.add(WarnForgetful) })
	if g.config.MaxTTL > 0 && g.config.Durable.Has(n.index) {
		q.Add(infoPersistence, n.inspectDurable)
	}
	if len(q.Commands) == 0 {
		return nil
	}
	ctx, cancel := n.patience()
	defer cancel()
	return c.Exchange(ctx, bytes.Join(q.Commands, nil), len(q.Commands), q.Answer)
}

// inspectDurable warns of a node declared durable, by a server that says
// otherwise. If the server refuses to answer, its durability stays unknown
// (R22).
func (n *node) inspectDurable(v resp.Value) error {
	if v.IsError() || !strings.Contains(string(v.Bytes()), "aof_enabled:0") {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.reporter.remarks.add(warnNotDurable)
	return nil
}

// hear takes what the server says of its role and history. What the user may
// not ask stays unknown (R22). An error ends the connection: nothing that is in
// flight counts, and the next handshake begins a quarantine.
func (n *node) hear(v resp.Value) error {
	if v.IsError() {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	now, ok := n.server.ReadInfo(v)
	if !ok {
		return fmt.Errorf("%w: type %q to INFO", ErrUnexpected, v.Type())
	}
	if err := n.admits(&now); err != nil {
		return err
	}
	if member.ProcessOf(&now) != member.ProcessOf(&n.server) {
		return errRewritten
	}
	return nil
}

// errRewritten ends a connection to a server that has another replication
// history than at the handshake: it may have been a replica meanwhile (R23).
var errRewritten = errors.New("multiplex: the server began another replication history, so it may have been a replica")

// ReadTime parses the reply to TIME: seconds and microseconds. It returns
// ErrUnexpected for anything else, and for a time before 1970 or after 2255.
func ReadTime(v resp.Value) (time.Time, error) { return member.ReadTime(v) }
