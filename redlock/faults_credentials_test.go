package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/election"
)

// A strain is load on a client: callers on hot keys, a hold, and a leader.
// Nothing of it may fail.
type strain struct {
	f      *fleet
	hold   *redlock.Hold
	stop   context.CancelFunc
	wg     sync.WaitGroup
	rounds atomic.Int64
	terms  atomic.Int64
	failed chan error
}

const (
	strainCallers = 16
	strainTTL     = 3 * time.Second
)

// put starts the load, and waits until there is a leader.
func (f *fleet) put(c *redlock.Client) *strain {
	f.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &strain{f: f, stop: stop, failed: make(chan error, 1000)}
	var err error
	if s.hold, err = c.Hold(ctx, "held", redlock.HoldOptions{TTL: strainTTL}); err != nil {
		f.Fatal(err)
	}
	e, err := election.New(c, "led", election.Options{TTL: strainTTL})
	if err != nil {
		f.Fatal(err)
	}
	s.wg.Go(func() {
		_ = e.Run(ctx, func(ctx context.Context, _ uint64) error {
			s.terms.Add(1)
			<-ctx.Done()
			return nil
		})
	})
	for i := range strainCallers {
		s.wg.Go(func() {
			for ctx.Err() == nil {
				s.note(ctx, s.round(ctx, c, fmt.Sprint("hot", i%4)))
				time.Sleep(5 * time.Millisecond) // the servers are not to starve
			}
		})
	}
	eventually(f, 10*time.Second, func() error {
		if s.terms.Load() != 1 || s.rounds.Load() == 0 {
			return errors.New("no leader, or no load")
		}
		return nil
	})
	return s
}

// round takes a lock, extends it and releases it.
func (s *strain) round(ctx context.Context, c *redlock.Client, resource string) error {
	l, err := c.Acquire(ctx, resource, strainTTL)
	if err != nil {
		return err
	}
	_, err = l.Extend(ctx, strainTTL)
	if released := l.Release(context.WithoutCancel(ctx)); released != nil {
		return released
	}
	s.rounds.Add(1)
	return err
}

func (s *strain) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		select {
		case s.failed <- err:
		default:
		}
	}
}

// end ends the load, and fails the test for each thing that went wrong.
func (s *strain) end() {
	s.f.Helper()
	if err := s.hold.Err(); err != nil {
		s.f.Errorf("the hold was lost: %v", err)
	}
	if n := s.terms.Load(); n != 1 {
		s.f.Errorf("there were %d terms", n)
	}
	s.stop()
	s.wg.Wait()
	_ = s.hold.Release(context.Background())
	close(s.failed)
	for err := range s.failed {
		s.f.Errorf("a call failed: %v", err)
	}
	s.f.Logf("%d locks", s.rounds.Load())
}

// A vault is a Connect.Credentials for one user, whose password changes.
type vault struct {
	user     atomic.Pointer[string]
	password atomic.Pointer[string]
	lasts    time.Duration
}

func (v *vault) set(user, password string) {
	v.user.Store(&user)
	v.password.Store(&password)
}

func (v *vault) ask(context.Context, redlock.Node) (conn.Credentials, error) {
	return conn.Credentials{Username: *v.user.Load(), Password: *v.password.Load(), Expires: time.Now().Add(v.lasts)}, nil
}

// allow changes a user on all servers.
func (f *fleet) allow(user string, rules ...string) {
	f.Helper()
	for i := range f.servers {
		f.must(i, append([]string{"ACL", "SETUSER", user, "on", "~*", "&*", "+@all"}, rules...)...)
	}
}

// guardedBy returns a client whose credentials come from a vault.
func (f *fleet) guardedBy(v *vault) *redlock.Client {
	f.Helper()
	v.set("ann", "p0")
	f.allow("ann", ">p0")
	for i := range f.servers {
		f.must(i, "ACL", "SETUSER", "default", "resetpass", ">admin")
		f.servers[i].Authenticate("default", "admin")
	}
	return f.opened(redlock.Config{Connect: redlock.Connect{Credentials: v.ask, Timeout: 2 * time.Second}})
}

// opened returns a client of a new deployment, for fenced locks.
func (f *fleet) opened(config redlock.Config) *redlock.Client {
	f.Helper()
	config.MaxTTL, config.Fenced, config.Owner, config.NodeTimeout = strainTTL, true, "me", time.Second
	if _, err := redlock.Init(f.Context(), f.reach(config)); err != nil {
		f.Fatal(err)
	}
	c := f.client(config)
	if err := c.Ready(f.Context()); err != nil {
		f.Fatal(err)
	}
	return c
}

// steady fails the test if a connection has ended, or a node needs attention.
// Only where the machine has no time for its servers, one may be silent for too
// long (R26).
func (f *fleet) steady(c *redlock.Client) {
	f.Helper()
	for i, n := range c.Nodes() {
		silent := n.Counts.Deaths["silent"]
		if uint64(n.Deaths) != silent || uint64(n.Connects) != 1+silent || len(n.Warnings) > 0 || n.Counts.Errors != nil {
			f.Errorf("node %d: %d connects, deaths %v, errors %v, %v", i, n.Connects, n.Counts.Deaths, n.Counts.Errors, n.Warnings)
		}
		f.Logf("node %d: %d connects, %d votes, %d failed", i, n.Connects, n.Counts.Granted, n.Counts.Failed)
	}
}

// auths counts the AUTH of a server's life, and those that it refused.
func (f *fleet) auths(server int) (calls, refused int) {
	f.Helper()
	for _, line := range strings.Split(f.must(server, "INFO", "commandstats").(string), "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_auth:calls="); ok {
			_, _ = fmt.Sscanf(rest, "%d", &calls)
			_, _ = fmt.Sscanf(rest[strings.Index(rest, "failed_calls="):], "failed_calls=%d", &refused)
		}
	}
	return calls, refused
}

// A password that is rotated a hundred times, the old one taken away each time,
// over each way to read replies.
func TestPasswordIsRotatedUnderLoad(t *testing.T) {
	redistest.Long(t)
	for name, options := range map[string][]redistest.Option{"TCP": {redistest.OverTCP}, "TLS": {redistest.OverTLS, redistest.OverUnix}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 3, options...)
			v := &vault{lasts: 200 * time.Millisecond}
			c := f.guardedBy(v)
			s := f.put(c)
			for n := 1; n <= 100; n++ {
				now, old := fmt.Sprint("p", n), fmt.Sprint("<p", n-1)
				f.allow("ann", ">"+now)
				v.set("ann", now)
				time.Sleep(300 * time.Millisecond) // for a question and an AUTH
				f.allow("ann", old)
			}
			s.end()
			f.steady(c)
			for i := range f.servers {
				calls, refused := f.auths(i)
				calls -= 202 // of the test itself, one for each look from the side
				if t.Logf("server %d: %d AUTHs, %d refused", i, calls, refused); calls < 80 || refused > 0 {
					t.Error("a connection was not authenticated anew")
				}
			}
		})
	}
}

// A password that the servers do not have is refused again and again under
// load. Servers from redis 7.2 on do not always say so (redis/redis#15640): no
// vote may be lost or mistaken, and the connections stay.
func TestRefusedPasswordUnderLoad_R16(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	v := &vault{lasts: 100 * time.Millisecond}
	c := f.guardedBy(v)
	s := f.put(c)
	warned := func(want bool) {
		eventually(t, 30*time.Second, func() error {
			for i, n := range c.Nodes() {
				if strings.Contains(strings.Join(n.Warnings, "; "), "the server refused others") != want {
					return fmt.Errorf("node %d: %q", i, n.Warnings)
				}
			}
			return nil
		})
	}
	v.set("ann", "not yet")
	warned(true)
	time.Sleep(5 * time.Second) // for more of them
	t.Logf("the warnings are %q", c.Nodes()[0].Warnings)
	f.allow("ann", ">not yet")
	warned(false)
	s.end()
	f.steady(c)
}

// The user itself is another one at each rotation, and the former one is
// deleted: tracking, waiting callers and rights go on.
func TestUserIsReplacedUnderLoad(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	v := &vault{lasts: 200 * time.Millisecond}
	c := f.guardedBy(v)
	s := f.put(c)
	for n := 1; n <= 10; n++ {
		before, now := *v.user.Load(), fmt.Sprint("user", n)
		f.allow(now, ">"+now)
		v.set(now, now)
		eventually(t, 10*time.Second, func() error {
			for i := range f.servers {
				if list := f.must(i, "CLIENT", "LIST").(string); strings.Contains(list, "user="+before+" ") {
					return errors.New("still " + before)
				}
			}
			return nil
		})
		for i := range f.servers {
			f.must(i, "ACL", "DELUSER", before)
		}
	}
	s.end()
	f.steady(c)
}

// A user that is deleted on one node ends there, and costs no lock. On all of
// them it ends every hold in time. In both cases the next answer of the
// function brings the nodes back at once.
func TestRevokedUserEndsAsItShould(t *testing.T) {
	f := newFleet(t, 3, redistest.OverTCP)
	v := &vault{lasts: time.Hour}
	c := f.guardedBy(v)
	s := f.put(c)
	f.must(0, "ACL", "DELUSER", "ann")
	barred := func(nodes ...int) {
		t.Helper()
		eventually(t, 10*time.Second, func() error {
			for i, n := range c.Nodes() {
				if refused := n.Err != nil && strings.Contains(n.Err.Error(), "WRONGPASS"); refused != slices.Contains(nodes, i) {
					return fmt.Errorf("node %d: %s %v", i, n.State, n.Err)
				}
			}
			return nil
		})
	}
	barred(0)
	time.Sleep(3 * time.Second)
	for i := range f.servers {
		f.must(i, "ACL", "SETUSER", "bob", "on", ">b0b", "~*", "&*", "+@all")
	}
	v.set("bob", "b0b")
	f.allUp(c, 10*time.Second)
	s.end()

	h, err := c.Hold(t.Context(), "held", redlock.HoldOptions{TTL: strainTTL})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.servers {
		f.must(i, "ACL", "DELUSER", "ann")
		f.must(i, "ACL", "DELUSER", "bob")
	}
	select {
	case <-h.Context().Done():
	case <-time.After(strainTTL + time.Second):
		t.Error("a hold outlives its validity")
	}
	barred(0, 1, 2)
	_, err = c.TryAcquire(t.Context(), "x", strainTTL)
	if !errors.Is(err, redlock.ErrNoQuorum) || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "b0b") {
		t.Errorf("the error is %v", err)
	}
	f.allow("cyd", ">c")
	v.set("cyd", "c")
	took := f.allUp(c, 10*time.Second)
	t.Logf("back after %v", took)
}

// Certificates of a new authority, twenty times, for servers and client, while
// connections are ended one node at a time.
func TestCertificatesAreRotatedUnderLoad(t *testing.T) {
	redistest.Long(t)
	f := newFleet(t, 3, redistest.OverTLS, redistest.OverUnix)
	dir := t.TempDir()
	write := func(name string, parts ...[]byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", slices.Concat(parts...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificates := func() *redistest.Certificates {
		c, err := redistest.NewCertificates()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// present has a server show a certificate, and take clients of authorities.
	present := func(server, generation int, now *redistest.Certificates, authorities ...[]byte) {
		name := func(what string) string { return fmt.Sprint(server, "-", generation, "-", len(authorities), what) }
		f.must(server, "CONFIG", "SET", "tls-auth-clients", "yes", "tls-ca-cert-file", write(name("ca"), authorities...),
			"tls-cert-file", write(name("cert"), now.Cert), "tls-key-file", write(name("key"), now.Key))
	}
	now := certificates()
	write("ca", now.CA)
	write("cert", now.Cert)
	write("key", now.Key)
	query := "?tls_ca_file=" + url.QueryEscape(dir+"/ca") + "&tls_cert_file=" + url.QueryEscape(dir+"/cert") + "&tls_key_file=" + url.QueryEscape(dir+"/key")
	var urls []string
	for i, s := range f.servers {
		present(i, 0, now, now.CA)
		urls = append(urls, s.URL()+query)
	}
	c := f.opened(redlock.Config{Nodes: redlock.Nodes(urls...)})
	s := f.put(c)
	for n := 1; n <= 20; n++ {
		old := now
		now = certificates()
		write("ca", old.CA, now.CA)
		for i := range f.servers {
			present(i, n, now, old.CA, now.CA)
		}
		write("key", now.Key) // half of a replacement
		write("cert", now.Cert)
		write("ca", now.CA)
		for i := range f.servers {
			present(i, n, now, now.CA)
			before := c.Nodes()[i].Connects
			f.must(i, "CLIENT", "KILL", "TYPE", "normal")
			eventually(t, 20*time.Second, func() error {
				if c.Nodes()[i].Connects == before {
					return fmt.Errorf("node %d has not reconnected", i)
				}
				return nil
			})
			f.allUp(c, 20*time.Second)
			time.Sleep(200 * time.Millisecond) // for the locks that this node did not grant
		}
	}
	s.end()
	for i, n := range c.Nodes() {
		if n.Connects < 21 {
			t.Errorf("node %d: %d connects", i, n.Connects)
		}
	}
}
