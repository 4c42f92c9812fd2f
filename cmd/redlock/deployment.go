package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/internal/commandline"
	"github.com/redmux/redmux/cmd/redlock/internal/credentials"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
)

// deployment has the flags that say which masters, as which user, and by which
// rules. Passwords are not on the command line: other users of the machine can
// read that.
type deployment struct {
	Nodes              []string      `env:"REDLOCK_NODES" sep:"none" placeholder:"URL" help:"URLs of all masters, separated by commas, blanks or line breaks: redis://host:port, rediss:// with TLS, unix:///path; where the server may change, redis+sentinel://s1,s2,s3/name, redis+cluster://h1,h2,h3, or ?failover=. Parameters such as ?tls_ca_file=, ?tls_cert_file= and ?tls_key_file= are part of the URL."`
	Prefix             string        `env:"REDLOCK_PREFIX" help:"Prefix of all keys, the same for all clients."`
	Owner              string        `env:"REDLOCK_OWNER" placeholder:"LABEL" help:"A label of this client, such as a host's name, for redlock status and for others that wait: 1 to 64 bytes of printable ASCII without blanks. It becomes a part of the locks' keys' values."`
	NoOwner            bool          `env:"REDLOCK_NO_OWNER" help:"Without --owner, take locks without a label; not with elect. Otherwise redlock run and acquire use the host and the process, as in web-1:4711."`
	User               string        `env:"REDLOCK_USER" help:"User name for nodes whose URL has none."`
	PasswordEnv        string        `placeholder:"VAR" help:"Environment variable that holds the password for nodes whose URL has none."`
	PasswordFile       string        `placeholder:"FILE" help:"File that holds the password in one line, in place of --password-env. It is read again at each connection, and every ten seconds: open connections take a new password."`
	CredentialsCommand string        `placeholder:"COMMAND" help:"Command of the shell that writes the password, in one line, or JSON with username, password and expires (RFC 3339), in place of --password-env. It runs at each connection, and again before they expire."`
	MaxTTL             time.Duration `name:"max-ttl" env:"REDLOCK_MAX_TTL" placeholder:"DURATION" help:"The longest TTL that any client uses, the same for all clients: masters that restart do not count for that long. Without it, 30s; a longer --ttl needs it."`
	Durable            []string      `env:"REDLOCK_DURABLE" sep:"none" placeholder:"URL" help:"The nodes that lose nothing in a crash (appendfsync always)."`
	Forgetful          bool          `env:"REDLOCK_FORGETFUL" help:"Let masters that restart empty count at once, though they may have forgotten locks, and do not check that all clients name the same masters; the same for all clients."`
	Timeout            time.Duration `env:"REDLOCK_TIMEOUT" default:"5s" help:"How long connecting to a quorum of nodes, and an answer of a node, may take (${default}). Less if --wait is less. It does not bound the wait for masters that were just started."`
	Verbose            bool          `short:"v" help:"Report on standard error nodes that come and go, warnings about them, and a wait for a lock."`

	split  bool               // whether the lists of URLs are split
	source credentials.Source // of --password-file or --credentials-command, or nil
	opened time.Time          // when the nodes were first asked, for --timeout
}

// Validate refuses what package redlock cannot detect. Package kong calls it.
func (d *deployment) Validate() error {
	if !d.split {
		var err, durable error
		d.Nodes, err = commandline.SplitURLs(d.Nodes...)
		d.Durable, durable = commandline.SplitURLs(d.Durable...)
		if err = cmp.Or(err, durable); err != nil {
			return fmt.Errorf("--nodes, or --durable: %w", err)
		}
		d.split = true
	}
	switch {
	case d.Timeout <= 0:
		return errors.New("--timeout must be more than 0")
	case d.Owner != "" && d.NoOwner:
		return errors.New("--owner excludes --no-owner")
	case d.MaxTTL < 0:
		return errtext.Negative("--max-ttl", d.MaxTTL)
	case d.Forgetful && (d.MaxTTL > 0 || len(d.Durable) > 0):
		return errors.New("--forgetful excludes --max-ttl and --durable")
	}
	return pure.CheckOwner("--owner", d.Owner)
}

// nameProcess labels locks by the host and this process, unless a flag says
// otherwise.
func (d *deployment) nameProcess() {
	if d.Owner != "" || d.NoOwner {
		return
	}
	host, _ := os.Hostname()
	process := fmt.Sprintf(":%d", os.Getpid())
	host = host[:min(len(host), pure.LongestOwner-len(process))]
	if d.Owner = host + process; !pure.Owner(d.Owner) {
		d.Owner = "pid" + process
	}
}

// labelling has the flag of commands that take a lock.
type labelling struct {
	Label string `placeholder:"TEXT" help:"What the lock is for, beside --owner: 1 to 64 bytes of printable ASCII, and no secret."`
}

// Validate is called by package kong.
func (l *labelling) Validate() error {
	return pure.CheckLabel("--label", l.Label)
}

// config returns the flags as a configuration of the library. An error is one
// of usage.
func (d *deployment) config(p *process) (redlock.Config, error) {
	if len(d.Nodes) == 0 {
		return redlock.Config{}, usagef("no masters: name them with --nodes or REDLOCK_NODES")
	}
	password, err := d.password(p)
	if err != nil {
		return redlock.Config{}, err
	}
	config := redlock.Config{
		Nodes: redlock.Nodes(d.Nodes...), Prefix: d.Prefix, Username: d.User, Password: password, Connect: redlock.Connect{Timeout: d.Timeout, ClientName: "redlock"},
		MaxTTL: d.MaxTTL, Forgetful: d.Forgetful, Owner: d.Owner, PlainRefusals: true, // a command that is refused inspects
	}
	if ask := d.source; ask != nil {
		config.Connect.Credentials = func(ctx context.Context, _ redlock.Node) (conn.Credentials, error) { return ask(ctx) }
	}
	for i, url := range d.Durable {
		node := slices.Index(d.Nodes, url)
		if node < 0 {
			return redlock.Config{}, usagef("--durable: number %d is not one of --nodes", i+1) // it may hold a password (R27)
		}
		config.Nodes[node].Durable = true
	}
	config.Logger = slog.New(newStallReporter(p.stderr)) // errors say the rest
	if d.Verbose {
		config.Logger = slog.New(slog.NewTextHandler(p.stderr, nil))
	}
	return config, nil
}

// password returns the password of --password-env, or sets where others come
// from. An error is one of usage.
func (d *deployment) password(p *process) (string, error) {
	flags := 0
	for _, flag := range []string{d.PasswordEnv, d.PasswordFile, d.CredentialsCommand} {
		if flag != "" {
			flags++
		}
	}
	switch {
	case flags > 1:
		return "", usagef("give only one of --password-env, --password-file and --credentials-command")
	case d.source != nil:
	case d.PasswordFile != "":
		d.source = credentials.File(d.PasswordFile)
		if _, err := d.source(context.Background()); err != nil {
			return "", usagef("--password-file: %w", err)
		}
		if credentials.Exposed(d.PasswordFile) {
			fmt.Fprintf(p.stderr, "redlock: any user of this machine may read the file %s of --password-file: chmod o-r\n", quoted(d.PasswordFile))
		}
	case d.CredentialsCommand != "":
		d.source = credentials.Command(d.CredentialsCommand)
	case d.PasswordEnv != "":
		// Without a password the nodes would answer every command with NOAUTH.
		if password := os.Getenv(d.PasswordEnv); password != "" {
			return password, nil
		}
		return "", usagef("%s", withheld("--password-env: the environment variable "+d.PasswordEnv+" is empty"))
	case d.User != "":
		return "", usagef("--user needs --password-env, --password-file or --credentials-command")
	}
	return "", nil
}

// open makes a client. The caller closes it with shut. It does not wait for
// nodes; see settle.
func (d *deployment) open(ctx context.Context, config redlock.Config) (*redlock.Client, error) {
	d.opened = time.Now()
	return redlock.New(context.WithoutCancel(ctx), config) // an interrupt ends the first look, which shows what is known
}

// lockless makes a configuration that of a client that takes no lock: it
// neither writes seals nor needs to quarantine nodes.
func lockless(config *redlock.Config) { config.MaxTTL, config.Forgetful = 0, true }

// onlooker makes a client that only inspects.
func (d *deployment) onlooker(ctx context.Context, p *process) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	lockless(&config)
	answered := p.tellIfSlow()
	defer answered()
	client, err := d.open(ctx, config)
	if err != nil {
		return nil, err
	}
	d.settle(ctx, client, time.Second, nil)
	return client, nil
}

// openFor makes a client for locks with a TTL, fenced or not, if a quorum can be
// connected within most. It waits longer for votes than a service would: a command takes
// only one lock, and a fresh connection to a busy machine is slow (R6).
func (d *deployment) openFor(p *process, ttl, most time.Duration, fenced bool) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	if config.Fenced = fenced; fenced && d.Forgetful {
		return nil, usagef("--fenced excludes --forgetful")
	}
	switch longest := d.longest(); {
	case ttl < time.Millisecond:
		return nil, usagef("--ttl %v: it must be at least 1ms", ttl)
	case longest > 0 && ttl > longest:
		return nil, usagef("--ttl %v: it must be at most --max-ttl, which is %v; set a longer --max-ttl for all clients", ttl, longest)
	}
	return d.openWithin(withVotes(config, ttl, most), most)
}

// openToRelease makes a client that only releases: it may do that at masters
// that do not count, and of a lock of any TTL.
func (d *deployment) openToRelease(p *process, ttl time.Duration) (*redlock.Client, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	lockless(&config)
	return d.openWithin(withVotes(config, ttl, d.Timeout), d.Timeout)
}

func withVotes(config redlock.Config, ttl, most time.Duration) redlock.Config {
	config.NodeTimeout = max(1, min(ttl/10, mostVote, most/2))
	return config
}

// longest returns the longest TTL that clients use, or 0 with --forgetful.
func (d *deployment) longest() time.Duration {
	if d.Forgetful {
		return 0
	}
	return cmp.Or(d.MaxTTL, redlock.DefaultMaxTTL)
}

// openWithin is redlock.New with a time limit, at most --timeout.
func (d *deployment) openWithin(config redlock.Config, most time.Duration) (*redlock.Client, error) {
	d.opened = time.Now()
	most = min(most, d.Timeout)
	// A little earlier: the error of each node is a better answer than a
	// timeout.
	config.Connect.Timeout = max(1, most-most/10)
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
	if len(name) < 1 || len(name) > 1024 || strings.Contains(name, ":redlock:") ||
		name == "redlock:seal" || name == "redlock:fence" {
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

// closeTimeout bounds the wait for the answers to the last releases.
const closeTimeout = time.Second

// shut closes a client. The error does not matter: each release has returned
// its own.
func shut(client *redlock.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = client.Close(ctx)
}
