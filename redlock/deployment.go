package redlock

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
)

// A Deployment is a set of nodes that hold the locks of one set of clients
// (R30). Each node carries its identity in the seal. Clients that name other
// nodes, or another number of them, are refused with ErrDeployment.
type Deployment struct {
	ID     string        // 32 hexadecimal digits, random
	Nodes  int           // how many it has
	MaxTTL time.Duration // of all its clients
	New    bool          // this call of Init opened it
}

// Init opens a deployment: it writes a random identity and MaxTTL into the
// seals of all nodes. An operator calls it once, before the first client. By
// calling it the operator asserts that no client holds a lock on these nodes,
// so that clients need not wait. Without Init, the first client opens the
// deployment, and waits for nodes that have not run for as long as MaxTTL.
//
// Never call Init from a script that starts the nodes. After a loss of power
// the nodes are empty, while clients that are still running may hold locks.
// Those clients write their deployment into the nodes again, and wait as long
// as they must. If Init comes first, no client waits.
//
// Init needs all nodes, and none of them in use: if one is down, or belongs to
// a deployment, it changes nothing and returns an *InitError that says what
// each node is. If the nodes already are this deployment, Init returns it and
// no error.
//
// To use nodes of deployments that are over, give the ids of these in replace.
// Stop the clients of the old deployment first: until they notice, some seconds
// later, they acquire locks that clients of the new one do not see. The clients
// of the new deployment wait for MaxTTL. If that is shorter than it was in the
// old one, Init waits for the difference first.
//
// It also prepares a new deployment for fencing numbers (Config.Fenced), if the
// user may run the script for that. With Fenced set, the error says if not.
//
// ctx bounds the call. Nothing is left running when it returns.
func Init(ctx context.Context, config Config, replace ...string) (Deployment, error) {
	if config.Forgetful {
		return Deployment{}, configError(errors.New("with Forgetful there is nothing to open"))
	}
	c, err := newClient(ctx, config, founding{founds: true, replaces: replace})
	if err != nil {
		return Deployment{}, err
	}
	defer func() { _ = c.Close(ctx) }()
	d, err := c.found(ctx)
	if err == nil && d.New {
		err = c.initFence(ctx)
	}
	return d, err
}

// A founding says what Init wants of a client.
type founding struct {
	founds   bool
	replaces []string
}

const (
	// initGlance is how often Init checks the nodes, and initStuck how long the
	// opening may take while they are up. If a client died while it was opening
	// them, others take over after 2 s.
	initGlance = 20 * time.Millisecond
	initStuck  = 4 * time.Second
	// initDown is how long a node may be down.
	initDown = time.Second
)

// found waits until the deployment is open, or cannot be opened.
func (c *Client) found(ctx context.Context) (Deployment, error) {
	moves := time.Now() // until then nothing more was to be expected
	up := moves         // until then all nodes were
	told := false
	for {
		limited, cancel := context.WithTimeout(ctx, initGlance)
		err := c.group.WaitOpen(limited)
		cancel()
		d := c.group.Membership()
		now := time.Now()
		if d.Settles > 0 {
			moves = now
			if !told {
				c.reportLapse(d.Settles)
			}
			told = true
		}
		if !c.anyDown() {
			up = now
		}
		switch {
		case err == nil:
			return Deployment{ID: d.ID, Nodes: d.Nodes, MaxTTL: c.config.MaxTTL, New: d.Founded}, nil
		case ctx.Err() != nil:
			return Deployment{}, cancelledError(ctx, c.initError())
		case now.Sub(moves) > initStuck, now.Sub(up) > initDown:
			return Deployment{}, c.initError()
		}
	}
}

// reportLapse reports why Init waits.
func (c *Client) reportLapse(left time.Duration) {
	c.news.put(item{at: time.Now(), notice: &notice{
		level: slog.LevelWarn, message: "redlock: waiting, since the deployment that is replaced has a longer MaxTTL", always: true,
		attrs: []slog.Attr{timeAttr("left", left)},
	}})
}

func (c *Client) anyDown() bool {
	for _, n := range c.Nodes() {
		if n.State != NodeUp {
			return true
		}
	}
	return false
}

// An InitError is returned by Init if a deployment cannot be opened. By
// errors.Is it is ErrDeployment if nodes are in use, and also the errors of the
// nodes that are not up.
type InitError struct {
	Nodes []NodeStatus // what was found, in the order of Config.Nodes
	// Err is why the nodes are no deployment, or nil if only nodes are missing.
	Err error
}

func (c *Client) initError() *InitError { return &InitError{c.Nodes(), c.group.Membership().Err} }

// Error lists what was found on each node.
func (e *InitError) Error() string {
	must(e != nil, noError)
	var all []string
	for _, n := range e.Nodes {
		all = append(all, n.Addr+": "+n.standing())
	}
	if e.Err != nil {
		all = append(all, errtext.Text(e.Err))
	}
	return "redlock: the deployment cannot be opened: " + strings.Join(all, "; ")
}

// standing returns text that says whether a node can become part of a
// deployment.
func (s *NodeStatus) standing() string {
	switch {
	case s.State != NodeUp && s.Err != nil:
		return errtext.Text(s.Err)
	case s.State != NodeUp:
		return string(s.State)
	case s.Deployment != "":
		return "belongs to deployment " + s.Deployment
	case s.Opening != "":
		return "being opened for deployment " + s.Opening + " by another client, or left over from one that died"
	}
	return "free"
}

// Unwrap returns the reasons.
func (e *InitError) Unwrap() []error {
	must(e != nil, noError)
	var all []error
	if e.Err != nil {
		all = append(all, e.Err)
	}
	for _, n := range e.Nodes {
		if n.Err != nil {
			all = append(all, n.Err)
		}
	}
	return all
}
