package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/redmux/redmux/redlock"
)

// deployment are the flags that say which masters, as whom, and by which rules. Passwords are not on the command line: other
// users of the machine can read that.
type deployment struct {
	Nodes         []string      `env:"REDLOCK_NODES" sep:"," placeholder:"URL" help:"URLs of the masters, all of them, separated by commas: redis://host:port, rediss:// with TLS, unix:///path. Parameters as ?tls_ca_file=, ?tls_cert_file= and ?tls_key_file= go into the URL."`
	Prefix        string        `env:"REDLOCK_PREFIX" help:"What stands before every key. The same for all clients."`
	User          string        `env:"REDLOCK_USER" help:"User name for nodes whose URL has none."`
	PasswordEnv   string        `placeholder:"VAR" help:"Environment variable that holds the password for nodes whose URL has none."`
	MaxTTL        time.Duration `name:"max-ttl" env:"REDLOCK_MAX_TTL" placeholder:"DURATION" help:"The longest TTL that any client uses, the same for all: masters that restart are kept out for that long."`
	Durable       []string      `env:"REDLOCK_DURABLE" sep:"," placeholder:"URL" help:"Those of the nodes that lose nothing in a crash (appendfsync always)."`
	NewDeployment bool          `help:"Declare that no lock was ever asked for on these nodes, so that with --max-ttl the first client need not wait. For the first use only."`
	Timeout       time.Duration `env:"REDLOCK_TIMEOUT" default:"5s" help:"How long a quorum of nodes may take to be there (${default})."`
	Verbose       bool          `short:"v" help:"Tell on standard error of nodes that come and go, and of warnings about them."`
}

// Validate refuses what package redlock cannot know to be wrong. Package kong calls it.
func (d *deployment) Validate() error {
	switch {
	case d.Timeout <= 0:
		return errors.New("--timeout must be more than 0")
	case d.MaxTTL < 0:
		return errors.New("--max-ttl is negative")
	case d.MaxTTL == 0 && (d.NewDeployment || len(d.Durable) > 0):
		return errors.New("--new-deployment and --durable need --max-ttl")
	}
	return nil
}

// config is what the flags say, as the library has it. The error is one of usage.
func (d *deployment) config(p *process) (redlock.Config, error) {
	if len(d.Nodes) == 0 {
		return redlock.Config{}, usagef("no masters: name them with --nodes or REDLOCK_NODES")
	}
	password := ""
	if d.PasswordEnv != "" {
		// Without a password the nodes would answer every command with NOAUTH.
		if password = os.Getenv(d.PasswordEnv); password == "" {
			return redlock.Config{}, usagef("--password-env: the environment variable %s is empty", d.PasswordEnv)
		}
	} else if d.User != "" {
		return redlock.Config{}, usagef("--user needs --password-env")
	}
	config := redlock.Config{
		Nodes: d.Nodes, Prefix: d.Prefix, Username: d.User, Password: password, DialTimeout: d.Timeout,
		MaxTTL: d.MaxTTL, Durable: d.Durable, NewDeployment: d.NewDeployment, ClientName: "redlock",
	}
	config.Logger = slog.New(slog.DiscardHandler) // what a wait is for is told by its error
	if d.Verbose {
		config.Logger = slog.New(slog.NewTextHandler(p.stderr, nil))
	}
	return config, nil
}

// open makes a client, which the caller closes with shut. It asks nothing of the nodes but to be there: see ready.
func (d *deployment) open(p *process) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	return redlock.New(config)
}

// openFor is open for locks of a TTL. A node's vote is waited for longer than a service would, which has the next request to
// look after: who takes one lock has time, and a fresh connection to a busy machine is slow (R6).
func (d *deployment) openFor(p *process, ttl time.Duration) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	if ttl < time.Millisecond || d.MaxTTL > 0 && ttl > d.MaxTTL {
		return nil, usagef("--ttl %v: it is at least 1ms, and at most --max-ttl where that is set", ttl)
	}
	config.NodeTimeout = min(ttl/10, mostVote)
	return redlock.New(config)
}

// mostVote bounds how long a node's vote is waited for.
const mostVote = time.Second

// checkResource refuses what package redlock would refuse, before anything is started.
func checkResource(name string) error {
	if len(name) < 1 || len(name) > 1024 {
		return redlock.ErrResource
	}
	return nil
}

// ready waits until a quorum of nodes counts, at most for --timeout; the error then names each missing node's cause.
func (d *deployment) ready(ctx context.Context, client *redlock.Client) error {
	limited, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	err := client.Ready(limited)
	if cancelled := (*redlock.CancelledError)(nil); ctx.Err() == nil && errors.As(err, &cancelled) && cancelled.Last != nil {
		return cancelled.Last // that our time was over says nothing
	}
	return err
}

// closeTimeout bounds how long the answers to the last releases are waited for.
const closeTimeout = time.Second

// shut closes a client. What comes of it changes nothing for who calls: what was released was answered for by its release.
func shut(client *redlock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = client.Close(ctx)
}
