package redlock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
)

// Config describes a deployment and how to use it. Nodes must be set; every
// other field may be zero. All clients of a deployment must have the same
// Nodes, Prefix, MaxTTL, Forgetful and DriftFactor. What the pointers,
// functions and interfaces refer to must not be changed after New.
type Config struct {
	// Nodes are the 1 to 16 masters, usually five (R1): see the function Nodes.
	Nodes []Node
	// Prefix is put before every resource to make its key, which has at most
	// 1,024 bytes. If zero, the resource is the key, as in other implementations
	// of the algorithm.
	Prefix string
	// MaxTTL is the longest TTL of any client of this deployment: longer ones
	// are ErrTTL. It is also the quarantine of a restarted node, since it may
	// have forgotten locks (R23). Holds are renewed, so few users need a longer
	// one. If zero, DefaultMaxTTL.
	MaxTTL time.Duration
	// Forgetful switches off the quarantine and the check of the deployment: a
	// node restarted empty counts at once, and a lock that it had granted may
	// be granted again. It excludes MaxTTL. If zero, both are on.
	Forgetful bool
	// DriftFactor bounds how far the rates of the clients' and the nodes'
	// clocks may differ. If zero, 0.01 (R4).
	DriftFactor float64
	// Owner is a label of this client for people, such as a host and a process:
	// 1 to 64 bytes of printable ASCII without blanks. It becomes a part of the
	// keys' values, and admin.Inspect and HeldError show it. Tokens then begin
	// with the time, so that it can be told since when a lock is held. If zero,
	// the value is the token alone, as in other implementations of the
	// algorithm, unless HoldOptions.Label is set.
	Owner string
	// PlainRefusals leaves ErrHeld for a plain lock as it is. Otherwise a client
	// with Owner has the nodes send the value that is in the way, for HeldError.
	// The first that is longer than 64 KiB, of another program, costs the
	// attempt and its connections (R32), and refusals name no holder from then
	// on. If zero, refusals name the holder.
	PlainRefusals bool
	// Fenced gives every lock of this client an increasing number: see
	// Lock.Fence. It excludes Forgetful and HandOver, and a resource must not
	// end in ":fence". If zero, locks have no number.
	Fenced bool

	// Username and Password are for nodes without a password in the URL, and
	// Username only without a user name there. If zero, none are sent.
	Username, Password string
	// TLS is the configuration of TLS; parameters of a node's URL take
	// precedence. With it, each URL must ask for TLS (R27). Each attempt to
	// connect reads the files of the URL again, and calls GetClientCertificate,
	// if no file outranks it, VerifyPeerCertificate and VerifyConnection. If
	// nil, nodes with TLS in their URL are verified by their name and the
	// system's roots.
	TLS *tls.Config
	// Connect says how to connect to the nodes.
	Connect Connect

	// NodeTimeout is how long the client waits for a node's vote. If zero, the
	// greater of TTL/200 within 5 to 50 ms and four times the node's usual
	// reply time, but at most a tenth of the TTL. After a time without CPU, an
	// attempt undecided without the vote waits a tenth of the TTL (R6). The
	// renewal of a hold waits until the old validity ends.
	NodeTimeout time.Duration
	// MinValidity is the least validity worth having: a lock with less is
	// released again, and the error is ErrExpired. If zero, any will do.
	MinValidity time.Duration
	// MaxWait bounds how long Acquire, Hold and Do wait for a lock, in addition
	// to their contexts: then the error is ErrMaxWait. It does not bound the
	// work of Do. If zero, only the context bounds the wait.
	MaxWait time.Duration
	// Retry says how Acquire, Hold and Do try again.
	Retry Retry
	// HandOver is how long, after a grant by the nodes, waiting callers of this
	// client may pass the lock on among themselves without asking the nodes;
	// see Lock.Release. After it other clients get a chance (R11). If zero, 50
	// ms; four times the usual time to a quorum are the least, and after
	// another client's lock, as long as that one's. If negative, every grant
	// asks the nodes.
	HandOver time.Duration
	// FairLease is how long a caller of Client.Fair keeps its place without
	// reaching a quorum of nodes, and how long a dead one stops the others:
	// from 500 ms to a minute. If zero, 500 ms.
	FairLease time.Duration

	// ReleaseOnClose makes Close release the locks of Hold and Do, after the
	// end of their contexts. Finish the work first, with Drain. If zero, these
	// locks stay until their TTL ends, as others do (R28).
	ReleaseOnClose bool
	// Logger receives changes of state: of nodes, with the class of the cause,
	// and lost holds. It never receives a resource, a token or a password
	// (R27). A slow Logger delays no caller, but misses records. If nil,
	// slog.Default receives only why calls wait for nodes (R31).
	Logger *slog.Logger
	// Tracer receives each attempt, extension and release, and changes of state.
	// New copies it. If nil, nothing is traced.
	Tracer *Tracer

	// Allow overrides single checks of the servers. If zero, all are made.
	Allow Allow
}

// Connect says how a client connects to the nodes. Every field may be zero.
type Connect struct {
	// NetDial connects to a node, by network ("tcp" or "unix") and address; TLS
	// is added on top of it. A goroutine for each node then reads the replies.
	// If nil, a net.Dialer is used, and callers read their own replies where the
	// system allows it.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Credentials is asked at each attempt to connect to a node without a
	// password in its URL, and again before they expire: the connection is then
	// authenticated anew, and no command fails. It excludes Config.Password. It
	// may be called by several goroutines at once, and must return when ctx
	// ends, after Timeout at the latest. Its errors are shown, and must hold
	// nothing secret; the connection keeps what it has, and NodeStatus.Warnings
	// says so. If nil, Config's and the URLs' are used.
	Credentials func(ctx context.Context, node Node) (conn.Credentials, error)
	// Timeout bounds one attempt to connect and shake hands; the URL may set it
	// too. If zero, conn.DefaultDialTimeout.
	Timeout time.Duration
	// ClientName is what CLIENT LIST shows: at most 256 bytes of printable ASCII
	// without spaces. If zero, none is set.
	ClientName string
	// ProbeAfter is how long a connection may be idle before it is probed with
	// PING. For a server or proxy that closes idle connections earlier, the
	// client probes after a third of the time observed, but not more often than
	// every 250 ms. If zero, 5 s.
	ProbeAfter time.Duration
}

// Retry says how Acquire, Hold and Do try again (R11). The zero value is for
// most programs: callers wait in turn, the nodes tell them of a lock perhaps
// free, and only Config.MaxWait and the context bound the attempts.
type Retry struct {
	// Tries bounds the attempts of one call. With it, each caller tries on its
	// own, after random delays: of 50 to 200 ms, or by MinDelay and MaxDelay.
	// If zero, there is no bound.
	Tries int
	// MinDelay and MaxDelay bound the random delay without news from the nodes:
	// with Tries, without a quorum, or over RESP2. If MinDelay is zero, 50 ms
	// with Tries; otherwise delays begin at twice the usual time to a quorum
	// and grow. If MaxDelay is zero, the greater of 200 ms and MinDelay.
	// Callers of Client.Fair, and a waiting writer, retry sooner to keep their
	// place, but not before MinDelay.
	MinDelay, MaxDelay time.Duration
	// FailFast ends the call with ErrNoQuorum at once. If zero, the call tries
	// again.
	FailFast bool
}

// DefaultMaxTTL applies if Config.MaxTTL is zero.
const DefaultMaxTTL = 30 * time.Second

// A Node is one master of a deployment.
type Node struct {
	// URL is the address: redis://user:password@host:port/db, rediss: for TLS,
	// valkey:, valkeys:, or unix:///path/to/socket. It must be set.
	//
	// Behind redis+sentinel: and redis+cluster: ([conn.ParseURL]) the server may
	// change. With the parameter failover, so it may behind a name or a proxy
	// that always leads to the present primary: failover=12s says for how long
	// at most a former primary goes on accepting writes after another was
	// promoted; auto reads that from min-replicas-to-write, which must be the
	// number of replicas, and min-replicas-max-lag; unknown reduces the promise
	// to one primary at a time. All clients must name the same. After a
	// failover, the node grants nothing for MaxTTL and that time. To a new
	// process it grants nothing for that time, or in a cluster and with unknown
	// as after a failover; see docs/failover.md. It excludes Durable, and a
	// single such node Fenced. A client with Forgetful takes no locks beside it.
	URL string
	// Durable declares a node that loses nothing in a crash (appendonly yes,
	// appendfsync always, no-appendfsync-on-rewrite no). It needs no quarantine
	// after a restart. If zero, it may lose keys.
	Durable bool
}

// Nodes returns a node for each URL, none of them durable.
func Nodes(urls ...string) []Node {
	nodes := make([]Node, len(urls))
	for i, url := range urls {
		nodes[i].URL = url
	}
	return nodes
}

// String returns the address without credentials.
func (n Node) String() string {
	endpoint, err := conn.ParseURL(n.URL)
	if err != nil {
		return "(bad URL)"
	}
	return endpoint.String()
}

// Format prints String for every verb: the URL may hold a password (R27).
func (n Node) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(n.String())) }

// MarshalText returns an error, since the URL may hold a password. To encode
// it, encode the URL.
func (n Node) MarshalText() ([]byte, error) {
	return nil, errors.New("redlock: a Node is not marshalled, since its URL may hold a password")
}

// triesApart is the least delay between attempts with Retry.Tries. Other
// libraries wait as long, and a few tries must outlast an ordinary holder.
const triesApart = 50 * time.Millisecond

// complete replaces zero fields by their defaults. Retry.MinDelay stays zero
// if delays are to grow.
func (config *Config) complete() {
	config.Nodes = slices.Clone(config.Nodes)
	if config.MaxTTL == 0 && !config.Forgetful {
		config.MaxTTL = DefaultMaxTTL
	}
	if config.FairLease == 0 {
		config.FairLease = kind.LeaseTime
	}
	if config.DriftFactor == 0 {
		config.DriftFactor = pure.DefaultDriftFactor
	}
	if config.HandOver == 0 {
		config.HandOver = streakLong
	}
	if config.Fenced {
		config.HandOver = -1 // each grant needs a number of its own
	}
	if config.Retry.MaxDelay == 0 {
		config.Retry.MaxDelay = max(pure.RetryMost, config.Retry.MinDelay)
	}
	if config.Retry.MinDelay == 0 && config.Retry.Tries > 0 {
		config.Retry.MinDelay = min(triesApart, config.Retry.MaxDelay)
	}
}

// longestPrefix is as long as the longest resource (R19).
const longestPrefix = 1024

// mostLease bounds Config.FairLease.
const mostLease = time.Minute

// check returns an error for senseless values.
func (config *Config) check() error {
	if n := len(config.Nodes); n < 1 || n > multiplex.MaxNodes {
		return fmt.Errorf("1 to %d nodes are needed, not %d", multiplex.MaxNodes, n)
	}
	if f := config.DriftFactor; !(f >= 0 && f < 1) { // refuses NaN too
		return fmt.Errorf("DriftFactor is %v: it must be at least 0 and less than 1", f)
	}
	if err := cmp.Or(
		errtext.Negative("NodeTimeout", config.NodeTimeout), errtext.Negative("MinValidity", config.MinValidity),
		errtext.Negative("Connect.Timeout", config.Connect.Timeout), errtext.Negative("MaxTTL", config.MaxTTL),
		errtext.Negative("Connect.ProbeAfter", config.Connect.ProbeAfter), errtext.Negative("MaxWait", config.MaxWait),
		errtext.Negative("Retry.MinDelay", config.Retry.MinDelay), errtext.Negative("Retry.MaxDelay", config.Retry.MaxDelay),
		errtext.Negative("Retry.Tries", config.Retry.Tries),
	); err != nil {
		return err
	}
	if lease := config.FairLease; lease < kind.LeaseTime || lease > mostLease {
		return fmt.Errorf("FairLease is %v: it must be from %v to %v", lease, kind.LeaseTime, mostLease)
	}
	if config.Forgetful && config.MaxTTL > 0 {
		return errors.New("both MaxTTL and Forgetful are set")
	}
	if config.Password != "" && config.Connect.Credentials != nil {
		return errors.New("both Password and Connect.Credentials are set")
	}
	if config.Fenced && config.Forgetful {
		return errors.New("both Fenced and Forgetful are set")
	}
	if err := pure.CheckOwner("the Owner", config.Owner); err != nil {
		return err
	}
	if n := len(config.Prefix); n > longestPrefix {
		return fmt.Errorf("the Prefix has %d bytes, more than %d", n, longestPrefix)
	}
	if config.Retry.MaxDelay > 0 && config.Retry.MinDelay > config.Retry.MaxDelay {
		return fmt.Errorf("Retry.MinDelay is %v, more than Retry.MaxDelay, which is %v",
			config.Retry.MinDelay, config.Retry.MaxDelay)
	}
	return nil
}

// endpoints returns the configuration of each node's connection. All have the
// same prelude.
func (config *Config) endpoints(prelude []conn.Step) ([]conn.Config, error) {
	seen := make(map[string]bool)
	nodes := make([]conn.Config, 0, len(config.Nodes))
	for i, n := range config.Nodes {
		node, err := config.endpoint(n)
		if err != nil {
			return nil, errtext.Wrap(fmt.Sprintf("Nodes[%d]%s: %s", i, hostOf(n.URL), errtext.Text(err)), err)
		}
		place := pure.FoldHosts(node.Network + " " + node.Endpoint.String())
		if seen[place] {
			return nil, fmt.Errorf("the node %s is named twice, the second time by Nodes[%d]", node.Endpoint, i)
		}
		seen[place] = true
		if i > 0 && node.DB != nodes[0].DB && !(config.Allow.SameServer && config.Forgetful) {
			return nil, fmt.Errorf("Nodes[0] (%s) names database %d, and Nodes[%d] (%s) database %d: a lock is looked for in one database, "+
				"so name the same for all nodes, in all clients", nodes[0].Endpoint, nodes[0].DB, i, node.Endpoint, node.DB)
		}
		node.Prelude = prelude
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// endpoint parses a node's URL. The configuration supplies what the URL lacks.
func (config *Config) endpoint(n Node) (conn.Config, error) {
	endpoint, err := conn.ParseURL(n.URL)
	if err != nil {
		return conn.Config{}, err
	}
	endpoint = endpoint.Or(conn.Endpoint{
		Username: config.Username, Password: config.Password,
		ClientName: config.Connect.ClientName, DialTimeout: config.Connect.Timeout, TLS: config.TLS,
	})
	if config.TLS != nil && endpoint.TLS == nil {
		return conn.Config{}, errors.New("Config.TLS is set, but the URL asks for no TLS, so that the password would be sent in clear; " +
			"write rediss://, or give the nodes with TLS its parameters in their URLs")
	}
	slot, ok := pure.PrefixSlot(config.Prefix)
	if endpoint.InCluster() && !ok {
		return conn.Config{}, errors.New("the Prefix has no hash tag, which keeps all keys in one slot of a cluster: write {locks}: for example")
	}
	node := conn.Config{Endpoint: endpoint, NetDial: config.Connect.NetDial, Conceal: config.Prefix, Slot: slot}
	if ask := config.Connect.Credentials; ask != nil {
		node.Credentials = func(ctx context.Context) (conn.Credentials, error) { return ask(ctx, n) }
	}
	return node, node.Check()
}

// durable returns the nodes declared durable.
func (config *Config) durable() multiplex.Set {
	var nodes multiplex.Set
	for i, n := range config.Nodes {
		if n.Durable {
			nodes = nodes.Add(i)
		}
	}
	return nodes
}

// hostOf returns the host of a bad URL for its error, as " (host:port)", or
// nothing where it might be part of a password (R27).
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || strings.ContainsAny(u.Host, ",;") ||
		strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return ""
	}
	return " (" + u.Host + ")"
}

// ErrConfig is returned by New for an unusable Config; the error says why.
var ErrConfig = errors.New("redlock: bad configuration")

func configError(err error) error {
	return errtext.Wrap(ErrConfig.Error()+": "+errtext.Text(err), ErrConfig, err)
}
