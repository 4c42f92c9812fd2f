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

// deployment are the flags that say which masters, as whom, and by which rules. Passwords are not on the command line: other
// users of the machine can read that.
type deployment struct {
	Nodes         []string      `env:"REDLOCK_NODES" sep:"none" placeholder:"URL" help:"URLs of the masters, all of them, separated by commas, blanks or line breaks: redis://host:port, rediss:// with TLS, unix:///path. Parameters as ?tls_ca_file=, ?tls_cert_file= and ?tls_key_file= go into the URL."`
	Prefix        string        `env:"REDLOCK_PREFIX" help:"What stands before every key. The same for all clients."`
	User          string        `env:"REDLOCK_USER" help:"User name for nodes whose URL has none."`
	PasswordEnv   string        `placeholder:"VAR" help:"Environment variable that holds the password for nodes whose URL has none."`
	MaxTTL        time.Duration `name:"max-ttl" env:"REDLOCK_MAX_TTL" placeholder:"DURATION" help:"The longest TTL that any client uses, the same for all: masters that restart are kept out for that long."`
	Durable       []string      `env:"REDLOCK_DURABLE" sep:"none" placeholder:"URL" help:"Those of the nodes that lose nothing in a crash (appendfsync always)."`
	NewDeployment bool          `help:"Declare that no lock was ever asked for on these nodes, so that with --max-ttl the first client need not wait. For the first use only."`
	Timeout       time.Duration `env:"REDLOCK_TIMEOUT" default:"5s" help:"How long a quorum of nodes may take to be there, and nodes to answer (${default}). Less where --wait is less."`
	Verbose       bool          `short:"v" help:"Tell on standard error of nodes that come and go, of warnings about them, and that a lock is waited for."`

	split  bool      // the lists of URLs are taken apart
	opened time.Time // when the nodes were first asked, for --timeout
}

// Validate refuses what package redlock cannot know to be wrong. Package kong calls it.
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

// splitURLs takes lists apart, as they stand in a crontab, in a YAML block or in a shell's here-document: with commas, blanks and
// line breaks between the URLs. A comma behind a backslash belongs to the URL.
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
	config.Logger = slog.New(slog.DiscardHandler) // what a wait is for is told by its error
	if d.Verbose {
		config.Logger = slog.New(slog.NewTextHandler(p.stderr, nil))
	}
	return config, nil
}

// open makes a client, which the caller closes with shut. It asks nothing of the nodes but to be there: see settle.
func (d *deployment) open(ctx context.Context, config redlock.Config) (*redlock.Client, error) {
	d.opened = time.Now()
	return redlock.New(context.WithoutCancel(ctx), config) // an interruption ends the first look, which shows what is known
}

// openFor makes a client for locks of a TTL, where connecting may take so long. A node's vote is waited for longer than a service would,
// which has the next request to look after: who takes one lock has time, and a fresh connection to a busy machine is slow (R6).
func (d *deployment) openFor(p *process, ttl, most time.Duration) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	if ttl < time.Millisecond || d.MaxTTL > 0 && ttl > d.MaxTTL {
		return nil, usagef("--ttl %v: it is at least 1ms, and at most --max-ttl where that is set", ttl)
	}
	config.NodeTimeout = max(1, min(ttl/10, mostVote, most/2))
	return d.openWithin(config, most)
}

// openWithin is redlock.New for a limited time, at most --timeout.
func (d *deployment) openWithin(config redlock.Config, most time.Duration) (*redlock.Client, error) {
	d.opened = time.Now()
	most = min(most, d.Timeout)
	// A little earlier: what is wrong with each node is a better answer than none.
	config.DialTimeout = max(1, most-most/10)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	client, err := redlock.New(ctx, config)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &exitError{exitNoQuorum, fmt.Errorf("no quorum of nodes was there within %v", most)}
	}
	return client, err
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

// ready waits until a quorum of nodes counts, at most for --timeout since the nodes were first asked; the error then names each
// missing node's cause.
func (d *deployment) ready(ctx context.Context, client *redlock.Client) error {
	begun := d.opened
	if begun.IsZero() {
		begun = time.Now()
	}
	limited, cancel := context.WithDeadline(ctx, begun.Add(d.Timeout))
	defer cancel()
	err := client.Ready(limited)
	if interrupted := interrupted(ctx); interrupted != nil {
		return err
	}
	if cancelled := (*redlock.CancelledError)(nil); errors.As(err, &cancelled) && cancelled.Last != nil {
		return cancelled.Last // that our time was over says nothing
	}
	return err
}

// readyNow is ready, but gives up as soon as so many nodes have failed that
// there is no quorum: --nonblock does not wait for nodes to come back.
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

// readyLook is how often the state of connections is looked at.
const readyLook = 2 * time.Millisecond

// noQuorumLeft reports that so many nodes have failed that the others are no
// quorum. A node that is still in its first attempt to connect has not.
func noQuorumLeft(nodes []redlock.NodeStatus) bool {
	failed := 0
	for _, n := range nodes {
		if n.State != "up" && n.Err != nil && !errors.Is(n.Err, multiplex.ErrConnecting) {
			failed++
		}
	}
	return len(nodes)-failed < len(nodes)/2+1
}

// closeTimeout bounds how long the answers to the last releases are waited for.
const closeTimeout = time.Second

// shut closes a client. What comes of it changes nothing for who calls: what was released was answered for by its release.
func shut(client *redlock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = client.Close(ctx)
}
