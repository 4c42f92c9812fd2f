package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// deployment has the flags that say which masters, as which user, and by which
// rules. Passwords are not on the command line: other users of the machine can
// read that.
type deployment struct {
	Nodes         []string      `env:"REDLOCK_NODES" sep:"none" placeholder:"URL" help:"URLs of all masters, separated by commas, blanks or line breaks: redis://host:port, rediss:// with TLS, unix:///path. Parameters such as ?tls_ca_file=, ?tls_cert_file= and ?tls_key_file= are part of the URL."`
	Prefix        string        `env:"REDLOCK_PREFIX" help:"Prefix of all keys, the same for all clients."`
	User          string        `env:"REDLOCK_USER" help:"User name for nodes whose URL has none."`
	PasswordEnv   string        `placeholder:"VAR" help:"Environment variable that holds the password for nodes whose URL has none."`
	MaxTTL        time.Duration `name:"max-ttl" env:"REDLOCK_MAX_TTL" placeholder:"DURATION" help:"The longest TTL that any client uses, the same for all clients: masters that restart do not count for that long."`
	Durable       []string      `env:"REDLOCK_DURABLE" sep:"none" placeholder:"URL" help:"The nodes that lose nothing in a crash (appendfsync always)."`
	NewDeployment bool          `help:"Declare that these nodes have never been asked for a lock, so that with --max-ttl the first client need not wait. For the first use only."`
	Timeout       time.Duration `env:"REDLOCK_TIMEOUT" default:"5s" help:"How long connecting to a quorum of nodes, and an answer of a node, may take (${default}). Less if --wait is less."`
	Verbose       bool          `short:"v" help:"Report on standard error nodes that come and go, warnings about them, and a wait for a lock."`

	split  bool      // whether the lists of URLs are split
	opened time.Time // when the nodes were first asked, for --timeout
}

// Validate refuses what package redlock cannot detect. Package kong calls it.
func (d *deployment) Validate() error {
	if !d.split {
		d.Nodes, d.Durable, d.split = splitURLs(d.Nodes), splitURLs(d.Durable), true
	}
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

// splitURLs splits lists as they are in a crontab, a YAML block or a
// here-document: with commas, blanks and line breaks between the URLs. A comma
// after a backslash belongs to the URL.
func splitURLs(lists []string) (urls []string) {
	for _, list := range lists {
		for _, word := range strings.Fields(list) {
			for _, url := range kong.SplitEscaped(word, ',') {
				if url != "" {
					urls = append(urls, url)
				}
			}
		}
	}
	return urls
}

// config returns the flags as a configuration of the library. An error is one
// of usage.
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
		Nodes: redlock.Nodes(d.Nodes...), Prefix: d.Prefix, Username: d.User, Password: password, DialTimeout: d.Timeout,
		MaxTTL: d.MaxTTL, NewDeployment: d.NewDeployment, ClientName: "redlock",
	}
	for i, url := range d.Durable {
		node := slices.Index(d.Nodes, url)
		if node < 0 {
			return redlock.Config{}, usagef("--durable: number %d is not one of --nodes", i+1) // it may hold a password (R27)
		}
		config.Nodes[node].Durable = true
	}
	config.Logger = slog.New(slog.DiscardHandler) // errors say enough
	if d.Verbose {
		config.Logger = slog.New(slog.NewTextHandler(p.stderr, nil))
	}
	return config, nil
}

// open makes a client. The caller closes it with shut. It does not wait for
// nodes; see settle.
func (d *deployment) open(ctx context.Context, config redlock.Config) (*redlock.Client, error) {
	d.opened = time.Now()
	return redlock.New(context.WithoutCancel(ctx), config) // an interrupt ends the first look, which shows what is known
}

// openFor makes a client for locks with a TTL, if a quorum can be connected
// within most. It waits longer for votes than a service would: a command takes
// only one lock, and a fresh connection to a busy machine is slow (R6).
func (d *deployment) openFor(p *process, ttl, most time.Duration) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	if ttl < time.Millisecond || d.MaxTTL > 0 && ttl > d.MaxTTL {
		return nil, usagef("--ttl %v: it must be at least 1ms, and at most --max-ttl if that is set", ttl)
	}
	config.NodeTimeout = max(1, min(ttl/10, mostVote, most/2))
	return d.openWithin(config, most)
}

// openWithin is redlock.New with a time limit, at most --timeout.
func (d *deployment) openWithin(config redlock.Config, most time.Duration) (*redlock.Client, error) {
	d.opened = time.Now()
	most = min(most, d.Timeout)
	// A little earlier: the error of each node is a better answer than a
	// timeout.
	config.DialTimeout = max(1, most-most/10)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	client, err := redlock.New(ctx, config)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &exitError{exitNoQuorum, fmt.Errorf("no quorum of nodes was connected within %v", most)}
	}
	return client, err
}

// mostVote bounds how long a vote is waited for.
const mostVote = time.Second

// checkResource refuses what package redlock would refuse, before anything is
// started.
func checkResource(name string) error {
	if len(name) < 1 || len(name) > 1024 || name == "redlock:seal" {
		return redlock.ErrResource
	}
	return nil
}

// begun is when the nodes were first asked, or now.
func (d *deployment) begun() time.Time {
	if d.opened.IsZero() {
		return time.Now()
	}
	return d.opened
}

// ready waits until a quorum of nodes counts, for at most --timeout since the
// nodes were first asked. Its error names the cause of each missing node.
func (d *deployment) ready(ctx context.Context, client *redlock.Client) error {
	limited, cancel := context.WithDeadline(ctx, d.begun().Add(d.Timeout))
	defer cancel()
	err := client.Ready(limited)
	if interrupted := interrupted(ctx); interrupted != nil {
		return err
	}
	if cancelled := (*redlock.CancelledError)(nil); errors.As(err, &cancelled) && cancelled.Last != nil {
		return cancelled.Last // it says more than our timeout
	}
	return err
}

// readyNow is ready, but returns as soon as too many nodes have failed for a
// quorum: --nonblock does not wait for nodes to come back.
func (d *deployment) readyNow(ctx context.Context, client *redlock.Client) error {
	limited, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer giveUp()
	watching.Go(func() {
		look := time.NewTicker(readyLook)
		defer look.Stop()
		for !noQuorumLeft(client.Nodes()) {
			select {
			case <-limited.Done():
				return
			case <-look.C:
			}
		}
		giveUp()
	})
	return d.ready(limited, client)
}

// readyLook is how often readyNow reads the state of connections.
const readyLook = 2 * time.Millisecond

// noQuorumLeft reports whether so many nodes have failed that the others are no
// quorum. A node in its first attempt to connect has not failed.
func noQuorumLeft(nodes []redlock.NodeStatus) bool {
	failed := 0
	for _, n := range nodes {
		if n.State != "up" && n.Err != nil && !errors.Is(n.Err, multiplex.ErrConnecting) {
			failed++
		}
	}
	return len(nodes)-failed < multiplex.Quorum(len(nodes))
}

// closeTimeout bounds the wait for the answers to the last releases.
const closeTimeout = time.Second

// shut closes a client. The error does not matter: each release has returned
// its own.
func shut(client *redlock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = client.Close(ctx)
}
