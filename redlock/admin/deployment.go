package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/inside"
)

// A Deployment is a set of nodes with the locks of one set of clients (R30).
// Each node carries its identity in the seal. Clients with other nodes, or
// another number of them, are refused with redlock.ErrDeployment.
type Deployment struct {
	ID     string        // 32 hexadecimal digits
	Nodes  int           // how many it has
	MaxTTL time.Duration // of all its clients
	New    bool          // this call of Init opened it
}

// Init opens a deployment: it writes its identity and MaxTTL into the seals of
// all nodes. An operator calls it once, before the first client. By
// the call the operator asserts: no client holds a lock on these nodes. So
// clients need not wait. Without Init, the first client opens the deployment,
// and waits for nodes that have run for less than MaxTTL.
//
// Never call Init from a script that starts the nodes. After a loss of power
// the nodes are empty, but running clients may hold locks. Clients open them
// anew, once all are up, and wait as long as they must. If Init comes first, no
// client waits.
//
// Init needs all nodes, and none of them in use. If one is down, or belongs to
// a deployment that is not replaced, Init changes nothing and returns an
// *InitError with the state of each node. For nodes that already are this
// deployment, Init returns it and no error.
//
// To use nodes of ended deployments, give their ids in replace. Stop the
// clients of the old deployment first: they notice only some seconds later, and
// acquire locks unseen by clients of the new one. The clients of the new
// deployment wait for MaxTTL. If this is shorter than in the old one, Init
// waits for the difference first. If the old one used another database, Init
// does not know its MaxTTL: then wait for the difference before.
//
// It also prepares a new deployment for fencing numbers
// (redlock.Config.Fenced), if the user may run the script. With Fenced set, a
// missing right is an error.
//
// ctx bounds the call. It leaves nothing running.
func Init(ctx context.Context, config redlock.Config, replace ...string) (Deployment, error) {
	if config.Forgetful {
		return Deployment{}, configError("with Forgetful there is nothing to open")
	}
	made, err := inside.Open(ctx, config, replace)
	if err != nil {
		return Deployment{}, err
	}
	client := made.(*redlock.Client)
	defer func() { _ = client.Close(ctx) }()
	o := opening{client, inspectorOf(ctx, client)}
	d, err := o.wait(ctx)
	if err == nil && d.New {
		err = o.giveFloors(ctx)
	}
	return d, err
}

// An opening is a call of Init.
type opening struct {
	client *redlock.Client
	*inspector
}

const (
	// initGlance is how often Init checks the nodes, and initStuck how long the
	// opening of up nodes may take.
	initGlance = 20 * time.Millisecond
	initStuck  = 4 * time.Second
	// initDown is how long a node may be down.
	initDown = time.Second
)

// wait waits for the opening of the deployment, or its failure.
func (o *opening) wait(ctx context.Context) (Deployment, error) {
	moves := time.Now() // until then nothing more was to be expected
	up := moves         // until then all nodes were
	told := false
	for {
		limited, cancel := context.WithTimeout(ctx, initGlance)
		err := o.Group().WaitOpen(limited)
		cancel()
		d := o.Group().Membership()
		now := time.Now()
		if d.Settles > 0 {
			moves = now
			if !told {
				o.ReportLapse(d.Settles)
			}
			told = true
		}
		if !slices.ContainsFunc(o.client.Nodes(), func(n redlock.NodeStatus) bool { return n.State != redlock.NodeUp }) {
			up = now
		}
		switch {
		case err == nil:
			return Deployment{ID: d.ID, Nodes: d.Nodes, MaxTTL: o.config.MaxTTL, New: d.Founded}, nil
		case ctx.Err() != nil:
			return Deployment{}, inside.Cancelled(ctx, o.error())
		case now.Sub(moves) > initStuck, now.Sub(up) > initDown:
			return Deployment{}, o.error()
		}
	}
}

// An InitError is returned by Init if a deployment cannot be opened. By
// errors.Is it is redlock.ErrDeployment for nodes in use, and also the errors
// of missing nodes.
type InitError struct {
	Nodes []redlock.NodeStatus // in the order of Config.Nodes
	// Err is why the nodes are no deployment, or nil for missing nodes only.
	Err error
}

func (o *opening) error() *InitError {
	return &InitError{o.client.Nodes(), o.Group().Membership().Err}
}

// Error lists what was found on each node.
func (e *InitError) Error() string {
	must(e != nil)
	var all []string
	for _, n := range e.Nodes {
		all = append(all, n.Addr+": "+standing(&n))
	}
	if e.Err != nil {
		all = append(all, errtext.Text(e.Err))
	}
	return "redlock: the deployment cannot be opened: " + strings.Join(all, "; ")
}

// standing returns as text whether a node can become part of a deployment.
func standing(s *redlock.NodeStatus) string {
	switch {
	case s.State != redlock.NodeUp && s.Err != nil:
		return errtext.Text(s.Err)
	case s.State != redlock.NodeUp:
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
	must(e != nil)
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

// must panics for an error not made by this package.
func must(ok bool) {
	if !ok {
		panic("admin: a nil error, which no function of this package returns")
	}
}

func configError(why string) error {
	return errtext.Wrap(redlock.ErrConfig.Error()+": "+why, redlock.ErrConfig)
}
