package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
)

// A standing is what a candidate tells probes and load balancers: whether it
// leads, which one leads otherwise, and whether it can reach a quorum. It is a
// handler for HTTP that shows no name of a resource or of a master, no token and
// no password (R27).
type standing struct {
	client   *redlock.Client
	name     string
	owner    string
	least    time.Duration   // of validity, with which it leads: with less, the command is stopped
	signaled context.Context // ended by a signal to this process

	mu     sync.Mutex // guards the following
	hold   *redlock.Hold
	leader election.Leadership // as the masters said last
}

func newStanding(client *redlock.Client, name, owner string, least time.Duration, signaled context.Context) *standing {
	return &standing{
		client: client, name: name, owner: owner, least: least, signaled: signaled,
		leader: election.Leadership{State: admin.StateUnclear},
	}
}

// begins notes that a command works under the hold.
func (s *standing) begins(hold *redlock.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = hold
}

// ends notes that the command has ended, or is about to be stopped.
func (s *standing) ends() { s.begins(nil) }

// watch keeps what the masters say of the leader, until ctx ends.
func (s *standing) watch(ctx context.Context) {
	for leader := range election.Watch(ctx, s.client, s.name) {
		s.mu.Lock()
		s.leader = leader
		s.mu.Unlock()
	}
}

// A standingAnswer has the names of docs/cli.md.
type standingAnswer struct {
	At         time.Time    `json:"at"`
	Leads      bool         `json:"leads"`
	Healthy    bool         `json:"healthy"`
	Owner      string       `json:"owner"`
	Term       uint64       `json:"term,omitempty"`
	ValidityMS *float64     `json:"validity_ms,omitempty"`
	Leader     leaderAnswer `json:"leader"`
	Nodes      int          `json:"nodes"`
	NodesUp    int          `json:"nodes_up"`
	Quorum     int          `json:"quorum"`
}

// A leaderAnswer is what the masters say of the leader.
type leaderAnswer struct {
	State admin.LockState `json:"state"`
	Owner string          `json:"owner,omitempty"`
	Term  uint64          `json:"term,omitempty"`
}

// answer looks at the nodes first and at the clocks last: no time may pass
// between the look that finds the lock valid and the answer.
func (s *standing) answer() (a standingAnswer) {
	nodes := s.client.Nodes()
	s.mu.Lock()
	defer s.mu.Unlock()
	a = standingAnswer{
		At: time.Now().UTC(), Owner: s.owner, Nodes: len(nodes), Quorum: multiplex.Quorum(len(nodes)),
		Leader: leaderAnswer{s.leader.State, s.leader.Leader, s.leader.Term},
	}
	for _, n := range nodes {
		if n.State == "up" { // also in quarantine: then waiting helps
			a.NodesUp++
		}
	}
	a.Healthy = a.NodesUp >= a.Quorum
	if s.hold == nil || s.signaled.Err() != nil {
		return a
	}
	term := s.hold.Current().Fence()
	if left := s.hold.Validity(); left > s.least { // none after a loss
		a.Leads, a.Term, a.ValidityMS = true, term, msNumber(left)
		a.Leader = leaderAnswer{admin.StateHeld, a.Owner, term}
	}
	return a
}

// ServeHTTP answers GET and HEAD.
func (s *standing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.answer()
	status := http.StatusOK
	switch r.URL.Path {
	case "/":
	case "/leader":
		status = statusFor(a.Leads)
	case "/healthz":
		status = statusFor(a.Healthy)
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // a yes that was kept would outlive the term
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // its reader may be gone
}

func statusFor(yes bool) int {
	if yes {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}
