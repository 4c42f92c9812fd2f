package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// An Implementation is one that a program adds to those of this package.
type Implementation struct {
	// Name is what --impl calls it.
	Name string
	// About describes it for the help in a few words.
	About string
	// MostNodes bounds the nodes that it can use. If zero, any number.
	MostNodes int
	// Open connects to the nodes; one that cannot be reached is no error. It
	// returns what [Drive] makes of a locker.
	Open func(Settings) (System, error)
}

// Settings are what the command line says to an implementation.
type Settings struct {
	// URLs are those of the nodes, as for redlock.Config.
	URLs []string
	// Username and Password are for nodes whose URL has none.
	Username, Password string
	// NodeTimeout is for how long a node's vote is waited. If zero, as the
	// implementation sees fit.
	NodeTimeout time.Duration
}

// Format prints a constant for every verb: the URLs and the fields may have
// passwords (R27).
func (Settings) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(settings)") }

// openSystem opens the named implementation on the given nodes. All get the
// same settings from the command line; other settings are each implementation's
// defaults, since users get these. None has a prefix of its own: the prefix is
// part of the resources, so that all lock the same keys.
func openSystem(f *flags, name string, urls []string) (System, error) {
	if other := f.other(name); other != nil {
		return other.Open(Settings{URLs: urls, Username: f.User, Password: f.password, NodeTimeout: f.NodeTimeout})
	}
	if strings.HasPrefix(name, "redlock") {
		cfg, err := f.redlockConfig(name, urls)
		if err != nil {
			return nil, err
		}
		c, err := redlock.New(context.Background(), cfg)
		if err != nil {
			return nil, usageError{err} // unreachable nodes are no error, so the flags are wrong
		}
		waitOut(c, cfg.MaxTTL)
		return Drive[redlock.Lock](c), nil
	}
	cfg, err := f.rueidisConfig(urls).Variant(name)
	if err != nil {
		return nil, err
	}
	l, err := bench.OpenRueidis(cfg)
	if err != nil {
		return nil, err
	}
	return Drive[bench.RueidisLease](l), nil
}

// redlockConfig returns the configuration of redlock. On servers that were
// started here it opens the deployment, so that nothing waits: they hold no
// locks. A fault may have emptied them since the last run.
func (f *flags) redlockConfig(name string, urls []string) (redlock.Config, error) {
	cfg := redlock.Config{
		Connect:     redlock.Connect{NetDial: redistest.Portable(name == "redlock-portable")},
		Fenced:      f.Kind.fenced,
		Nodes:       redlock.Nodes(urls...),
		Username:    f.User,
		Password:    f.password,
		NodeTimeout: f.NodeTimeout,
		MaxTTL:      f.MaxTTL,
	}
	if name == "redlock-alone" {
		cfg.HandOver = -1
	}
	if f.Kind.fair && f.History != "" {
		cfg.Tracer = traceAsked
	}
	if f.MaxTTL == 0 && f.TTL > redlock.DefaultMaxTTL {
		cfg.MaxTTL = f.TTL
	}
	switch {
	case f.backend == "remote" && cfg.MaxTTL != f.MaxTTL:
		return cfg, usageError{fmt.Errorf("--ttl %v is longer than %v: give the --max-ttl of all clients of --nodes", f.TTL, redlock.DefaultMaxTTL)}
	case f.backend == "remote":
		return cfg, nil
	case f.backend == "embedded":
		for i := range cfg.Nodes {
			cfg.Nodes[i].Durable = true // they have no run id, and end with this process
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout)
	defer cancel()
	_, err := admin.Init(ctx, cfg)
	return cfg, err
}

// waitOut waits while masters of --nodes do not count because they have just
// been started, which the library reports. Whatever else is wrong with them
// shows in the run.
func waitOut(c *redlock.Client, maxTTL time.Duration) {
	if maxTTL == 0 {
		maxTTL = redlock.DefaultMaxTTL
	}
	const glance = time.Second
	for waited := time.Duration(0); waited < 2*maxTTL; waited += glance {
		ctx, cancel := context.WithTimeout(context.Background(), glance)
		err := c.Ready(ctx)
		cancel()
		if !errors.Is(err, redlock.ErrQuarantined) {
			return
		}
	}
}

// initTimeout bounds the opening of a deployment of servers that were started
// here.
const initTimeout = 10 * time.Second

func (f *flags) rueidisConfig(urls []string) bench.RueidisConfig {
	return bench.RueidisConfig{
		Nodes:       urls,
		Username:    f.User,
		Password:    f.password,
		NodeTimeout: f.NodeTimeout,
	}
}
