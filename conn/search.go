package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redmux/redmux/conn/internal/locate"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

const (
	// dialParts divides DialTimeout: a seed or a server that does not answer
	// leaves time for others.
	dialParts = 3
	// hurryParts divides a part. After that, what some seeds say is tried, even
	// if they are not more than half of them.
	hurryParts = 3
	// soon is the shortest time that a timer is set to, as pure.Soon is.
	soon = time.Nanosecond
)

// find asks the seeds, and returns a connection to the server that they name.
// The word of a seed is one vote (R33). What more than half of them say is
// tried first, and the others cost time at most. part is the time for each of
// them, and for each server.
func (cfg *Config) find(ctx context.Context, part time.Duration) (*Conn, error) {
	if ask := cfg.Credentials; ask != nil {
		once := sync.OnceValues(func() (Credentials, error) { return ask(ctx) })
		cfg.Credentials = func(context.Context) (Credentials, error) { return once() }
	}
	s := cfg.search(ctx, part)
	defer s.end()
	var failed []error
	for {
		addr, ok := s.next()
		if !ok {
			return nil, s.failed(ctx, failed)
		}
		c, err := s.connect(addr)
		if err == nil {
			return c, nil
		}
		failed = append(failed, named("the server", addr, err))
	}
}

// A search is the question to all seeds, and their answers.
type search struct {
	cfg     *Config
	part    time.Duration
	ctx     context.Context
	cancel  context.CancelFunc
	asking  sync.WaitGroup
	hints   chan hint // holds one of each seed
	hurry   *time.Timer
	tally   locate.Tally
	owners  map[string]string // by address, the id of a server that has the slot
	refused []error           // of each seed, or nil
}

// A hint is what a seed said.
type hint struct {
	seed int // its index
	addr string
	id   string // of the server at addr, in a cluster
	own  bool   // it is the seed's own address
	err  error
}

// search begins to ask all seeds. The caller must call end.
func (cfg *Config) search(ctx context.Context, part time.Duration) *search {
	seeds := cfg.Seeds.Addrs
	s := &search{
		cfg: cfg, part: part, hints: make(chan hint, len(seeds)), hurry: time.NewTimer(max(soon, part/hurryParts)),
		tally: locate.Tally{Seeds: len(seeds)}, refused: make([]error, len(seeds)), owners: make(map[string]string),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for i, seed := range seeds {
		s.asking.Go(func() {
			h := cfg.ask(s.ctx, seed, part)
			h.seed = i
			s.hints <- h
		})
	}
	return s
}

// end waits until no seed is asked any more.
func (s *search) end() {
	s.cancel()
	s.hurry.Stop()
	s.asking.Wait()
}

// next waits for the next address to try.
func (s *search) next() (addr string, ok bool) {
	for {
		if addr, ok := s.tally.Next(); ok || s.tally.Exhausted() || !s.wait() {
			return addr, ok
		}
	}
}

// wait waits for one more answer, or until there is no time to wait for more.
// It returns false at the end of the context.
func (s *search) wait() bool {
	select {
	case h := <-s.hints:
		s.tally.Heard(h.addr)
		s.refused[h.seed] = h.err
		if h.own {
			s.owners[h.addr] = h.id
		}
	case <-s.hurry.C:
		s.tally.Hurry = true
	case <-s.ctx.Done():
		return false
	}
	return true
}

// failed returns the error of a search that led to no server.
func (s *search) failed(ctx context.Context, errs []error) error {
	if len(errs) == 0 {
		errs = s.refused
	}
	var text string
	var best error // the most hopeful: what another one lacks may pass
	for _, err := range errs {
		if err == nil {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += errtext.Text(err)
		if best == nil || OutlookOf(err) > OutlookOf(best) {
			best = err
		}
	}
	switch {
	case ctx.Err() != nil && text != "":
		text, best = errtext.Text(context.Cause(ctx))+"; "+text, context.Cause(ctx)
	case ctx.Err() != nil:
		text, best = errtext.Text(context.Cause(ctx)), context.Cause(ctx)
	}
	return &Error{Op: "dial", Addr: s.cfg.String(), Err: errtext.Wrap(text, best)}
}

// named returns an error of Dial with the address of what was dialed.
func named(what, addr string, err error) error {
	text := errtext.Text(err)
	var e *Error
	if errors.As(err, &e) {
		text = e.Cause()
	}
	return errtext.Wrap(what+" "+addr+": "+text, err)
}

// connect dials a server that seeds have named, and returns its connection if
// it says that it is the node's.
func (s *search) connect(addr string) (*Conn, error) {
	if s.cfg.InCluster() {
		if err := s.confirm(addr); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.part, dialTimeout(s.part))
	defer cancel()
	cfg := *s.cfg
	cfg.Addr, cfg.id = addr, s.owners[addr]
	cfg.Admit = func(server *Server) error {
		if err := isPrimary(server); err != nil || s.cfg.Admit == nil {
			return err
		}
		return s.cfg.Admit(server)
	}
	c, err := cfg.connect(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Admit, cfg.Prelude = nil, nil
	c.located = &cfg
	return c, nil
}

// isPrimary refuses a server that is not known to be a master. Seeds may be
// outdated, and may lie.
func isPrimary(server *Server) error {
	switch server.Role {
	case "master", "primary":
		return nil
	case "":
		return errors.New("it does not say which role it has (allow HELLO and INFO)")
	}
	return errors.New("it says that its role is " + server.Role)
}

// confirm asks the server of a cluster at addr whether the slot is its own,
// unless it has said so. If it is not, what it says is tried next: other seeds
// may be outdated, but a server knows what it gave away.
func (s *search) confirm(addr string) error {
	if s.owners[addr] != "" {
		return nil
	}
	h := s.cfg.ask(s.ctx, addr, s.part)
	switch {
	case h.err != nil:
		return h.err
	case !h.own:
		s.tally.Add(h.addr)
		return fmt.Errorf("it says that the slot %d is at %s", s.cfg.Slot, h.addr)
	}
	s.owners[addr] = h.id
	return nil
}

// ask asks one seed where the server is.
func (cfg *Config) ask(ctx context.Context, seed string, part time.Duration) (h hint) {
	what, asked := "the sentinel", cfg.seed(seed, part)
	if cfg.InCluster() {
		what = "the server"
		asked.Prelude = askCluster(&h, cfg.Slot, seed)
	} else {
		asked.Prelude = []Step{{
			Name: "SENTINEL", Command: resp.AppendCommand(nil, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", cfg.Seeds.Master),
			Check: taking(func(v resp.Value) (err error) { h.addr, err = locate.Master(v); return err }),
		}}
	}
	c, err := Dial(ctx, asked)
	if err != nil {
		return hint{err: named(what, seed, err)}
	}
	_ = c.Close()
	if h.id != "" && h.id == cfg.id {
		h.addr = cfg.Addr // by another address, perhaps
	}
	return h
}

// askCluster returns the commands that ask a server of a cluster for the master
// with a slot.
func askCluster(h *hint, slot uint16, seed string) []Step {
	var me string
	host, _, _ := net.SplitHostPort(seed)
	return []Step{{
		Name: "CLUSTER MYID", Command: resp.AppendCommand(nil, "CLUSTER", "MYID"),
		Check: taking(func(v resp.Value) error { me = string(v.Bytes()); return nil }),
	}, {
		Name: "CLUSTER SLOTS", Command: resp.AppendCommand(nil, "CLUSTER", "SLOTS"),
		Check: taking(func(v resp.Value) (err error) {
			h.addr, h.id, err = locate.Owner(v, slot, host)
			h.own = h.id == me && me != ""
			return err
		}),
	}}
}

// taking returns a Check that refuses errors.
func taking(take func(v resp.Value) error) func(v resp.Value) error {
	return func(v resp.Value) error {
		if v.IsError() {
			return errRefused
		}
		return take(v)
	}
}

// limitsOfSentinels and limitsOfServers bound the answers of seeds. That of a
// server of a cluster has each range of slots with its servers.
var (
	limitsOfSentinels = resp.Limits{Line: 4 << 10, Bulk: 16 << 10, Elements: 256, Depth: 4, Size: 64 << 10}
	limitsOfServers   = resp.Limits{Line: 4 << 10, Bulk: 64 << 10, Elements: 1 << 18, Depth: 8, Size: 4 << 20}
)

// seed returns the configuration of a connection that asks a seed.
func (cfg *Config) seed(addr string, part time.Duration) Config {
	c := Config{Endpoint: cfg.Seed(addr), NetDial: cfg.NetDial, Conceal: cfg.Conceal, Limits: limitsOfSentinels}
	if c.DialTimeout = part; cfg.InCluster() {
		c.Limits, c.Credentials = limitsOfServers, cfg.Credentials
	}
	return c
}
