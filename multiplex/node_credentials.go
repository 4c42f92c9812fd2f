package multiplex

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Credentials that change (conn.Config.Credentials). Each dial asks for them on
// the node's own goroutine. For a connection that is up, the watch finds the
// time to ask again, and a goroutine of its own does: no vote waits for it, and
// no mutex is held meanwhile. Others go to the server as an AUTH in the lane.
// What stands before it runs under the old ones, and what stands behind it
// under the new.
//
// A refused AUTH leaves a connection as it was, and so does the function's
// error. Only the server ends the connection: see loggedOut.

// A renewal keeps the credentials of a node's connection valid. ask does not
// change. The group's mutex guards the rest.
type renewal struct {
	// ask is nil without conn.Config.Credentials.
	ask     func(context.Context) (conn.Credentials, error)
	held    conn.Credentials // what the server accepted last
	renamed bool             // the user is not the one of the handshake
	asking  bool             // a goroutine asks, or AUTH is in the lane
	vain    int              // see pure.AskAgain
	// due is the time for the next question on the group's clock, and wall the
	// same on the wall clock. The first to come counts: the one stands still
	// during a suspend, and the other may be set back.
	due  time.Duration
	wall time.Time
}

// init has each dial ask through the node, unless the endpoint has a password.
func (n *dialer) init() {
	if n.config.Credentials != nil && n.config.Password == "" {
		n.renewal.ask, n.config.Credentials = n.config.Credentials, n.toDial
	}
}

// askNow calls the function, and completes its answer as a dial does.
func (n *dialer) askNow(ctx context.Context) (conn.Credentials, error) {
	cr, err := n.renewal.ask(ctx)
	if err != nil {
		return conn.Credentials{}, err
	}
	cr.Username = cmp.Or(cr.Username, n.config.Username)
	return cr, nil
}

// toDial returns the credentials for an attempt to connect: those that await
// has found, or else the function's.
func (n *dialer) toDial(ctx context.Context) (conn.Credentials, error) {
	if found := n.found; found != nil {
		n.found, n.used = nil, *found
		return *found, nil
	}
	var err error
	n.used, err = n.askNow(ctx)
	return n.used, err
}

// await waits until the next attempt to connect may begin. After an attempt
// without the right credentials, other ones of the function end the wait,
// within the budget of dials (R26). It returns false if the group was closed.
func (n *dialer) await(left time.Duration) bool {
	pause := left
	if n.barred {
		pause = n.renewal.pauseIn(left)
	}
	for left > pause {
		begun := n.group.now()
		if !n.sleep(pause) {
			return false
		}
		if n.findOthers() {
			return true
		}
		left -= n.group.now() - begun
	}
	return n.sleep(left)
}

// pauseIn returns the pause before a question within a rest.
func (r *renewal) pauseIn(rest time.Duration) time.Duration {
	if r.ask == nil {
		return rest
	}
	return pure.AskBarred(rest)
}

// findOthers reports whether the function has others than those of the last
// attempt, and the next one may begin.
func (n *dialer) findOthers() bool {
	if !n.life.MayDial(n.group.now()) {
		return false
	}
	ctx, cancel := n.patience()
	defer cancel()
	cr, err := n.askNow(ctx)
	switch {
	case err != nil, same(cr, n.used):
		return false
	}
	n.found = &cr
	return true
}

// same reports whether two credentials have the same user and password.
func same(a, b conn.Credentials) bool {
	a.Expires, b.Expires = time.Time{}, time.Time{}
	return a == b
}

// credentialedLocked begins anew for a connection that shook hands.
func (n *dialer) credentialedLocked() {
	if n.renewal.ask == nil {
		return
	}
	n.renewal.renamed, n.renewal.vain = false, 0
	n.holdLocked(n.used)
}

// holdLocked takes in what the server accepted.
func (n *dialer) holdLocked(cr conn.Credentials) {
	r := &n.renewal
	r.held = cr
	if r.vain++; r.left() > 0 {
		r.vain = 0 // otherwise they expired as they came
	}
	n.askLaterLocked()
}

// renewedLocked is holdLocked for a connection that is up.
func (n *dialer) renewedLocked(cr conn.Credentials) {
	n.renewal.asking = false
	n.holdLocked(cr)
	n.reporter.remarks.credentials = ""
	n.reporter.tellWarningsLocked()
}

// left returns what remains of the credentials, or pure.Never.
func (r *renewal) left() time.Duration {
	if r.held.Expires.IsZero() {
		return pure.Never
	}
	return time.Until(r.held.Expires.Round(0)) // a wall clock that was set counts
}

// askLaterLocked sets the time of the next question.
func (n *dialer) askLaterLocked() {
	r := &n.renewal
	wait := pure.AskAgain(r.left(), r.vain, rand.Float64())
	if r.due = pure.Never; wait < pure.Never {
		r.due, r.wall = n.group.now()+wait, time.Now().Add(wait).Round(0)
		n.group.wakeWatchAtLocked(r.due)
	}
}

// failedLocked takes in that the connection keeps its credentials, and why.
func (n *dialer) failedLocked(why string) {
	n.renewal.asking = false
	n.renewal.vain++
	n.reporter.remarks.credentials = "keeps the credentials that it has: " + errtext.Printable(why[:min(len(why), longestSaid)])
	n.reporter.tellWarningsLocked()
	n.askLaterLocked()
}

// renewLocked has others asked for once the time has come. It returns when to
// look again.
func (n *dialer) renewLocked(now time.Duration) time.Duration {
	r := &n.renewal
	switch {
	case r.ask == nil, r.asking, r.due == pure.Never:
		return pure.Never
	}
	if due := min(r.due, now+time.Until(r.wall)); now < due {
		return due
	}
	r.asking = true
	c := n.conn
	n.group.life.wg.Go(func() { n.renew(c) })
	return pure.Never
}

// renew asks for the credentials of a connection, and queues the AUTH.
func (n *dialer) renew(c *conn.Conn) {
	ctx, cancel := n.patience()
	defer cancel()
	cr, err := n.askNow(ctx)
	if ctx.Err() != nil {
		err = errNoAnswer
	}
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case n.conn != c, !g.live.Has(n.index):
		// A later connection has asked for itself.
		n.renewal.asking = false
		n.askLaterLocked()
	case err != nil:
		n.failedLocked("the function for others failed: " + errtext.Text(err))
	case same(cr, n.renewal.held):
		n.renewedLocked(cr) // perhaps they expire later now
	default:
		n.authLocked(c, cr)
	}
}

// errNoAnswer is the function's error if its context ended first.
var errNoAnswer = errors.New("multiplex: it gave none in time")

// authLocked queues the AUTH in the lane.
func (n *dialer) authLocked(c *conn.Conn, cr conn.Credentials) {
	command, err := c.AppendAuth(nil, n.renewal.held, cr)
	if err != nil {
		n.failedLocked("others cannot be sent: " + errtext.Text(err))
		return
	}
	accepted := false
	q := &inquiry{
		answer: func(i int, v resp.Value) (err error) {
			if i == 0 {
				accepted, err = n.authenticated(c, cr, v)
				return err
			}
			return n.repliedAfterAuth(accepted, v)
		},
		abandoned: func(*fault) { n.renewal.asking = false },
	}
	if !n.inquireLocked(q, command, pingAfterAuth) {
		n.renewal.asking = false
		n.askLaterLocked()
	}
}

// From redis 7.2 on, a refused AUTH has no reply while replies to earlier
// commands are not written yet (redis/redis#15640). Each later reply would be
// taken for that of the command before. So a PING stands behind each AUTH, with
// an answer that AUTH never has.
var (
	afterAuth     = []byte("after AUTH")
	pingAfterAuth = resp.AppendCommand(nil, "PING", string(afterAuth))
)

func isAfterAuth(v resp.Value) bool {
	return v.Type() == resp.BulkString && bytes.Equal(v.Bytes(), afterAuth)
}

// authenticated handles the reply to AUTH, or that of the PING if AUTH has
// none. It reports whether the server accepted it.
func (n *dialer) authenticated(c *conn.Conn, cr conn.Credentials, v resp.Value) (bool, error) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	switch {
	case v.IsOK():
		if cr.Username != n.renewal.held.Username {
			n.renewal.renamed = true
		}
		n.renewedLocked(cr)
		return true, nil
	case isAfterAuth(v):
		c.AuthRefused()
		n.reader.skipLocked()
		n.failedLocked("the server refused others, and did not say why")
	case v.IsError():
		c.AuthRefused()
		n.failedLocked("the server refused others: " + harmless(errtext.Text(c.ServerError(v))))
	default:
		return false, fmt.Errorf("%w: type %q to AUTH", ErrUnexpected, v.Type())
	}
	return false, nil
}

// repliedAfterAuth handles the reply to the PING. After OK any will do, as for
// a probe. After an error it must be the answer: otherwise the error may have
// been the PING's, and this the reply to a later command.
func (n *dialer) repliedAfterAuth(accepted bool, v resp.Value) error {
	if isAfterAuth(v) || accepted && (v.IsError() || v.Type() == resp.SimpleString) {
		return nil
	}
	return fmt.Errorf("%w: type %q to PING after AUTH", ErrUnexpected, v.Type())
}

// errLoggedOut ends a connection whose credentials the server does not accept
// any more.
var errLoggedOut = errors.New("multiplex: the server does not accept the connection's credentials any more")

// loggedOut returns why a connection ends after an error reply: the next dial
// asks for credentials. NOAUTH would be the answer to every other command, too.
// After an AUTH as another user, NOPERM may be: the rights of that one are only
// tried by a handshake. Under the handshake's user it concerns one key or
// command, and stays a failed vote.
func (n *reader) loggedOut(c *conn.Conn, v resp.Value) error {
	class := conn.ClassOf(v)
	switch class {
	case conn.ClassNoAuth, conn.ClassNoPerm:
	default:
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	r := &n.dialer.renewal
	switch {
	case r.ask == nil, class == conn.ClassNoPerm && !r.renamed:
		return nil
	}
	said := c.ServerError(v)
	return errtext.Wrap(errtext.Text(errLoggedOut)+": "+harmless(errtext.Text(said)), errLoggedOut, said)
}
