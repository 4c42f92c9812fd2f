package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// Config describes a deployment and how to use it. Nodes must be set; everything else works as zero.
type Config struct {
	// Nodes are the URLs of the 1 to 16 masters, five being usual: redis://user:password@host:port/db, rediss: for TLS,
	// valkey:, valkeys:, or unix:///path/to/socket. All clients of a deployment must name the same ones (R1).
	Nodes []string
	// Prefix stands before every key, and must be the same for all clients of a deployment. If zero, the resource is the
	// key, as in other implementations of the algorithm.
	Prefix string
	// NodeTimeout is how long a node's vote is waited for. If zero, TTL/200 within 5–50 ms, or four times the node's
	// usual reply time if that is more, and at most a tenth of the TTL (R6).
	NodeTimeout time.Duration
	// DriftFactor bounds how far the rates of the clients' and the nodes' clocks may differ. If zero, 0.01 (R4).
	DriftFactor float64
	// MinValidity is the least validity worth having: a lock with less is given back with ErrExpired. If zero, any.
	MinValidity time.Duration
	// FailFast makes Acquire return ErrNoQuorum at once instead of trying again. If zero, it tries again (R11).
	FailFast bool
	// MaxTries bounds the attempts of one Acquire, which then polls, as with Poll, at distances of 50 to 200 ms unless
	// RetryDelayMin and RetryDelayMax say otherwise. If zero, only MaxWait and the context bound them.
	MaxTries int
	// MaxWait bounds how long Acquire, Hold and Do wait for a lock, beside their contexts, which for Do bounds the work too. The
	// error is ErrMaxWait then, and what the last attempt came to. If zero, only the context bounds the wait.
	MaxWait time.Duration
	// RetryDelayMin and RetryDelayMax bound the random delay before Acquire tries again where nodes do not tell it to: with
	// MaxTries or Poll, without a quorum, or over RESP2. Twice the usual time to a quorum is the least in any case, within
	// RetryDelayMax. If RetryDelayMin is zero, it is 50 ms with MaxTries; without, the delays begin at twice the usual time to
	// a quorum and grow. If RetryDelayMax is zero, 200 ms, or RetryDelayMin if that is more (R11).
	RetryDelayMin, RetryDelayMax time.Duration
	// Poll has each caller of Acquire try again and again by itself, after random delays of up to 200 ms. If zero, they wait
	// in turn and the nodes tell when a lock may be had.
	Poll bool
	// ProbeAfter is how long a connection may be idle before it is probed with PING. Where a server or a proxy closes idle
	// connections earlier, that is learned from the first that it closes: from then on they are probed after a third of that
	// time, but not more often than every 250 ms. So it has to be set only where even one such end is too many. If
	// zero, 5 s.
	ProbeAfter time.Duration
	// DialTimeout bounds one attempt to connect and shake hands, where the URL does not say. If zero, 5 s.
	DialTimeout time.Duration
	// Username and Password are used for nodes whose URL names no password, the name where it names no user either. If zero,
	// none are sent.
	Username, Password string
	// TLS is used for nodes whose URL asks for TLS, and is completed by the URL's parameters. If nil, the system's roots
	// verify the server's name.
	TLS *tls.Config
	// NetDial connects to a node, by network ("tcp" or "unix") and address; TLS is laid over what it returns. If nil, a
	// net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ClientName is what CLIENT LIST shows: printable ASCII without blanks. If zero, none is set.
	ClientName string
	// ReleaseOnClose has Close release the locks that Hold and Do hold, right when their contexts end: wait for the work under
	// them before, with Drain, or others have the lock while it comes to its end. If zero, they stay until their TTL ends, as a plain Lock
	// does in any case (R28).
	ReleaseOnClose bool
	// Portable has a goroutine read from each node, as it is with TLS, with NetDial and on systems other than Linux. If
	// zero, callers read their own replies from plain TCP and unix sockets where that can be had.
	Portable bool
	// Logger is told of changes of state: a node that came up, or is not up any more and for which class of cause, warnings
	// about a node, and holds that were lost. It never gets a resource name, a token or a password (R27). It is called by a
	// goroutine of the client's own: one that is slow or blocks delays nobody, but the oldest of what waits for it is dropped
	// then, and the next record says how much. If nil, slog.Default is told why
	// calls wait for nodes that do not count (R31), and of nothing else.
	Logger *slog.Logger
	// Tracer is told of each attempt, extension and release, and of changes of state; see there. Its functions are read once,
	// by New. If nil, nobody is told.
	Tracer *Tracer
	// MaxTTL is the longest TTL that any client of this deployment asks for; all of them must set the same, and this one
	// refuses longer ones with ErrTTL. A node that restarted may have forgotten locks, so with MaxTTL its grants do not count
	// until every lock from before must have run out: it is quarantined (R23). That is also so for a client that has only
	// just begun, until it finds the node's seal, a key in which clients leave word of how long they have watched the node, or
	// has itself watched for so long. So set it well above the TTLs in use, and not much higher: it is how long a fresh
	// deployment, and each node that restarts, has to wait. If zero, a node that restarts empty counts at once, and a lock
	// that it had granted may be granted again.
	MaxTTL time.Duration
	// Durable are those of the Nodes, written in the same way, that lose nothing when they crash (appendonly yes, appendfsync
	// always, no-appendfsync-on-rewrite no), and need no quarantine. If nil, none. It has no effect without MaxTTL.
	Durable []string
	// NewDeployment declares that no lock was ever asked for on these nodes, so that the first client need not wait for
	// MaxTTL. It has effect only if all nodes can be reached, and none of them carries a seal; it then writes them. Do not
	// leave it set: if nodes restart empty and none carries a seal any more (all at one time, or one after another within
	// MaxTTL, or a single node at any restart), it makes the clients forget the locks from before. It has no effect without
	// MaxTTL.
	NewDeployment bool
	// Allow overrides single checks on servers. If zero, all are made.
	Allow Allow
}

// A Client takes part in the locks of one deployment. All its methods may be called from any goroutine, and it is meant
// to be kept: it has one connection to each node.
type Client struct {
	config     Config
	group      *multiplex.Group
	tokens     tokens
	quorumTime atomic.Int64 // smoothed time to a quorum, nanoseconds
	stats      stats
	tracer     Tracer // without functions, if there is none
	news       *news
	stalls     stalls  // of calls that find no quorum
	keeper     *keeper // looks after the holds
	queues     queues  // of callers that wait

	refusing atomic.Bool   // no new locks; changes once
	refused  chan struct{} // closed then
}

// Open is New with the nodes' URLs and everything else as zero.
func Open(urls ...string) (*Client, error) { return New(Config{Nodes: urls}) }

const (
	// firstWait bounds how long New waits for the first connections, and lastWait how long for the rest once a quorum
	// is up.
	firstWait = time.Second
	lastWait  = 100 * time.Millisecond
)

// New makes a client and starts connecting. It waits until each node is up or has failed once, at most a second, and a
// tenth of that once a quorum is up. A node that cannot be reached is no error: it is tried again for as long as the
// client lives, and the others serve. The error, which is ErrConfig, is about the configuration only; see Ready.
func New(config Config) (*Client, error) {
	c := &Client{config: config, refused: make(chan struct{})}
	nodes, err := c.nodes()
	if err != nil {
		return nil, configError(err)
	}
	c.config.setRetryDelays()
	if c.config.DriftFactor == 0 {
		c.config.DriftFactor = pure.DefaultDriftFactor
	}
	replyMost := 4<<10 + len(c.config.Prefix) // an invalidation names a key (R32)
	group := multiplex.Config{
		OnChange:    c.listen(),
		Nodes:       nodes,
		VoteTimeout: config.NodeTimeout,
		ProbeAfter:  config.ProbeAfter,
		Drift:       c.config.DriftFactor,
		Cure:        cure(),
		Portable:    config.Portable,
		Replies:     resp.Limits{Bulk: replyMost, Size: replyMost},
	}
	if err := c.trust(&group); err != nil {
		return nil, configError(err)
	}
	c.group, err = multiplex.New(group)
	if err != nil {
		return nil, configError(err)
	}
	c.keeper = newKeeper(c)
	c.startNews()
	c.waitForFirst()
	return c, nil
}

// triesApart is the least delay between the attempts that MaxTries counts. Tries
// of other libraries are as far apart, and a few must outlast an ordinary holder.
const triesApart = 50 * time.Millisecond

// setRetryDelays gives the delays that are zero their values. A RetryDelayMin
// of zero stays where delays are to grow.
func (config *Config) setRetryDelays() {
	if config.RetryDelayMax == 0 {
		config.RetryDelayMax = max(pure.RetryMost, config.RetryDelayMin)
	}
	if config.RetryDelayMin == 0 && config.MaxTries > 0 {
		config.RetryDelayMin = min(triesApart, config.RetryDelayMax)
	}
}

func (c *Client) waitForFirst() {
	first, cancel := context.WithTimeout(context.Background(), firstWait)
	defer cancel()
	if c.group.Begun(first) != nil {
		return // the nodes that are silent are dialed further
	}
	rest, cancel := context.WithTimeout(first, lastWait)
	defer cancel()
	_ = c.group.Tried(rest)
	if c.config.NewDeployment && c.config.MaxTTL > 0 {
		_ = c.group.Ready(rest) // the seals are being written
	}
}

// nodes reads the configuration of each node.
func (c *Client) nodes() ([]conn.Config, error) {
	config := &c.config
	if n := len(config.Nodes); n < 1 || n > multiplex.MaxNodes {
		return nil, fmt.Errorf("1 to %d nodes are needed, not %d", multiplex.MaxNodes, n)
	}
	if err := config.checkLimits(); err != nil {
		return nil, err
	}
	if config.RetryDelayMax > 0 && config.RetryDelayMin > config.RetryDelayMax {
		return nil, fmt.Errorf("RetryDelayMin is %v, more than RetryDelayMax, which is %v",
			config.RetryDelayMin, config.RetryDelayMax)
	}
	prelude := c.explained(c.prelude())
	seen := make(map[string]bool)
	nodes := make([]conn.Config, 0, len(config.Nodes))
	for i, raw := range config.Nodes {
		node, err := config.node(raw)
		if err != nil {
			return nil, errtext.Wrap(fmt.Sprintf("Nodes[%d]%s: %s", i, hostOf(raw), errtext.Text(err)), err)
		}
		place := node.Network + " " + node.Addr
		if node.Network == "tcp" {
			place = strings.ToLower(place) // names of hosts have no case
		}
		if seen[place] {
			return nil, fmt.Errorf("the node %s is named twice, the second time by Nodes[%d]", node.Endpoint, i)
		}
		seen[place] = true
		node.Prelude = prelude
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (config *Config) node(raw string) (conn.Config, error) {
	endpoint, err := conn.ParseURL(raw)
	if err != nil {
		return conn.Config{}, err
	}
	if endpoint.Password == "" {
		endpoint.Password = config.Password
		if endpoint.Username == "" {
			endpoint.Username = config.Username
		}
	}
	if endpoint.ClientName == "" {
		endpoint.ClientName = config.ClientName
	}
	if endpoint.DialTimeout == 0 {
		endpoint.DialTimeout = config.DialTimeout
	}
	if endpoint.TLS != nil {
		endpoint.TLS = mergeTLS(config.TLS, endpoint.TLS)
	}
	node := conn.Config{Endpoint: endpoint, NetDial: config.NetDial, Conceal: config.Prefix}
	return node, node.Check()
}

// checkLimits refuses numbers that cannot be meant.
func (config *Config) checkLimits() error {
	if f := config.DriftFactor; !(f >= 0 && f < 1) { // so that NaN is refused too
		return fmt.Errorf("DriftFactor is %v: it must be at least 0 and less than 1", f)
	}
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{
		{"NodeTimeout", config.NodeTimeout}, {"MinValidity", config.MinValidity}, {"DialTimeout", config.DialTimeout},
		{"MaxTTL", config.MaxTTL}, {"ProbeAfter", config.ProbeAfter}, {"MaxWait", config.MaxWait},
		{"RetryDelayMin", config.RetryDelayMin}, {"RetryDelayMax", config.RetryDelayMax},
	} {
		if limit.value < 0 {
			return fmt.Errorf("%s is negative: %v", limit.name, limit.value)
		}
	}
	if config.MaxTries < 0 {
		return fmt.Errorf("MaxTries is negative: %d", config.MaxTries)
	}
	return nil
}

// hostOf is the host of a URL that is wrong, for its error, where that is certain
// to be no part of a password: " (host:port)", or nothing (R27).
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || strings.Contains(u.Host, ",") || strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return ""
	}
	return " (" + u.Host + ")"
}

func configError(err error) error {
	return errtext.Wrap(ErrConfig.Error()+": "+errtext.Text(err), ErrConfig, err)
}

// mergeTLS lays what a URL's parameters say over the configuration.
func mergeTLS(base, url *tls.Config) *tls.Config {
	if base == nil {
		return url
	}
	merged := base.Clone()
	if url.ServerName != "" {
		merged.ServerName = url.ServerName
	}
	if url.RootCAs != nil {
		merged.RootCAs = url.RootCAs
	}
	if url.Certificates != nil {
		merged.Certificates = url.Certificates
	}
	merged.InsecureSkipVerify = merged.InsecureSkipVerify || url.InsecureSkipVerify
	return merged
}

// Ready waits until a quorum of nodes counts: is up, and not quarantined
// (Config.MaxTTL). If ctx ends first, the error is a CancelledError, which is
// also ErrNoQuorum and names each missing node's cause. It is ErrNoQuorum alone
// when waiting cannot help, as for Acquire; a wait is reported to the log, also
// as for Acquire (R31). ErrClosed says that the client is closed.
func (c *Client) Ready(ctx context.Context) error {
	p := patience{begun: time.Now()}
	for {
		err := c.readyWithin(ctx, readyGlance)
		var missing *multiplex.UndecidedError
		switch {
		case err == nil:
			c.stalls.over()
			return nil
		case !errors.As(err, &missing):
			return translate(err, nil)
		case ctx.Err() != nil:
			return cancelledError(ctx, &noQuorumError{nodes: missing})
		}
		if err := c.impatient(&p, missing); err != nil {
			return err
		}
	}
}

// readyGlance is how often Ready looks at why it waits.
const readyGlance = 50 * time.Millisecond

// readyWithin is the group's Ready for a limited time.
func (c *Client) readyWithin(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.group.Ready(limited)
}

// Close refuses new work, lets attempts under way undo what they did, waits for the answers to releases up to the vote
// timeout, and then fails every waiter with ErrClosed (R28). Held locks stay as they are until their TTL ends, unless
// Config.ReleaseOnClose releases those of Hold and Do, all at once; the contexts of these end with ErrClosed in any case.
// Nothing of the client is left when Close returns, unless a Logger or a Tracer's function does not return: it is waited
// for a second, and told nothing more. Further calls wait for the first.
//
// ctx may have ended before the call, as with signal.NotifyContext and "defer client.Close(ctx)": no key of an attempt that
// failed is left for that. It only cuts short the wait for answers, where Config.NodeTimeout or very many releases would
// make that long; the error is the context's then. Close outlasts ctx by 50 ms at most, or by four times the reply time of
// the slowest node that is up, if that is more, but no more than a second; by twice as much with ReleaseOnClose; and by
// another second where goroutines of this process are so starved that they do not come to undo their attempts.
func (c *Client) Close(ctx context.Context) error {
	c.refuse()
	c.group.Refuse() // what is released now is for others
	c.keeper.wind(ctx)
	err := c.group.Close(ctx)
	c.keeper.halt()
	c.news.close(ctx)
	return err
}
