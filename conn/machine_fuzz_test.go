package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzMachine lets a script of bytes play both ends of a connection. It sends,
// lets the peer read a little, answers correctly, in pieces, by halves or with
// garbage, ends the stream, fails a write, breaks and closes, each at any
// point. For every script, after each step:
//
//   - what the peer received is a prefix of what was sent; while the connection
//     lives, nothing is lost;
//   - the values that come out are those that a decoder makes of the input, in
//     order, up to the first fault, and none after it (R16);
//   - Send returns ErrStalled if and only if the backlog exceeds its bound
//     (R26);
//   - after the end, every method returns the first cause, and the link was
//     shut down once;
//   - there is never more than one writer, nor more than one reader;
//   - after Close nothing is left: the bubble waits for every goroutine (R28).
func FuzzMachine(f *testing.F) {
	for _, script := range machineScripts {
		f.Add([]byte(script), uint8(3))
	}
	f.Fuzz(func(t *testing.T, script []byte, window uint8) {
		if len(script) > 400 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t, int(window))
			for len(script) > 0 {
				op := script[0]
				arg := byte(0)
				if script = script[1:]; len(script) > 0 {
					arg = script[0]
					script = script[1:]
				}
				m.step(op, arg)
				synctest.Wait()
				m.check()
			}
			m.finish()
		})
	})
}

// machineScripts are sequences of letters, each a step with its argument; see
// step.
var machineScripts = []string{
	"s\x05r\x02r\x02a\x01s\x10r\xff",
	"s\x40s\x40s\x40s\x40r\x20r\xffs\x01r\xff", // until it stalls
	"s\xf0r\x20s\x01", "s\x30s\x30r\xffr\xffs\x30", "s\x30r\x20s\x30r\xffs\x30",
	"a\x01a\x05h\x00t\x00a\x02p\x01a\x07a\x03",                  // by halves, then byte by byte
	"a\x02g\x05a\x03s\x02", "a\x02g\x08a\x01", "g\x03", "g\x06", // garbage: no value after it
	"h\x00e\x00", "a\x01j\x00a\x02s\x01", "e\x00a\x01", // the end, alone and with the last bytes
	"s\x30w\x00r\xffs\x01a\x01", "w\x00s\x01", // a failing write, in Send or in the writer
	"s\x30b\x00a\x01s\x01b\x00", "a\x03b\x00", "c\x00s\x01", "s\x30k\x00",
	"s\x03a\x01z\x01s\x03a\x01r\xff", "u\x00a\x01u\x00",
}

// A machine is a connection, its peer, and what the test knows about both.
type machine struct {
	t    testing.TB
	c    *Conn
	link *scriptLink

	sent     []byte // by Sends that returned nil
	tried    []byte // by all Sends: a failed one may have written a part
	got      []byte // by the peer
	incoming []byte // that the peer wrote
	half     []byte // of a reply, still to be written
	replies  int

	mu     sync.Mutex // guards the following
	values []string
	ended  error // the error that the reader met
	cause  error // the first cause that was seen
}

const machineBacklog = 100

func newMachine(t testing.TB, window int) *machine {
	m := &machine{t: t, link: newScriptLink(window)}
	m.c = newConn(m.link, "a:1", secrets{login: login{password: "hunter2"}}, resp.Limits{}, machineBacklog)
	require.NoError(t, m.c.opened())
	go m.read()
	return m
}

// read runs as the owner of the read side.
func (m *machine) read() {
	for {
		v, ok, err := m.c.Next()
		if err == nil && !ok {
			err = m.c.Fill()
		}
		m.mu.Lock()
		if ok {
			m.values = append(m.values, string(v.Raw()))
		}
		m.mu.Unlock()
		if err != nil {
			assert.NoError(m.t, m.c.Close(), "the owner of the read side closes")
			m.mu.Lock()
			m.ended = err
			m.mu.Unlock()
			return
		}
	}
}

func (m *machine) step(op, arg byte) {
	switch op {
	case 's':
		m.send(int(arg))
	case 'r': // the peer reads
		m.got = append(m.got, m.link.peerTakes(int(arg))...)
	case 'a': // it answers
		for range arg % 8 {
			m.replies++
			m.write(fmt.Appendf(nil, "$%d\r\n%d\r\n", len(fmt.Sprint(m.replies)), m.replies))
		}
	case 'h': // half of an answer, then the rest
		m.half = []byte("*2\r\n:1\r\n$4\r\nhalf\r\n")
		m.write(m.half[:int(arg)%len(m.half)])
		m.half = m.half[int(arg)%len(m.half):]
	case 't':
		m.write(m.half)
		m.half = nil
	case 'g':
		m.write([]byte([]string{"OK\r\n", "\n", "$-2\r\n", ":x\r\n", "$1\r\nab\r\n", "\x00", ">1\r\n*1\r\n>0\r\n", "|1\r\n", "$?\r\n"}[arg%9]))
	case 'x':
		m.write([]byte{arg})
	case 'p':
		m.link.change(func() { m.link.piece = 1 + int(arg) })
	case 'e':
		m.link.change(func() { m.link.endWith = io.EOF })
	case 'j': // the end comes with the last bytes
		m.replies++
		m.write(fmt.Appendf(nil, ":%d\r\n", m.replies), func() { m.link.endWith, m.link.joined = io.EOF, true })
	case 'w':
		m.link.change(func() { m.link.refuse = errRefusedWrite })
	case 'b':
		m.c.Break(errTest)
	case 'k':
		m.c.Break(nil)
	case 'c':
		assert.NoError(m.t, m.c.Shutdown())
	case 'u':
		assert.False(m.t, m.c.Unread(), "the reader has read it all")
	case 'z':
		time.Sleep(time.Duration(arg) * time.Second)
	}
}

var errRefusedWrite = errors.New("write refused")

// send sends n bytes that differ from all others, and checks the result against
// the bound.
func (m *machine) send(n int) {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(len(m.tried)+i) ^ byte((len(m.tried)+i)>>8)
	}
	before := m.c.Err()
	pending := int(m.c.output.pending.Load())
	err := m.c.Send(p)
	m.tried = append(m.tried, p...)
	if err == nil {
		m.sent = append(m.sent, p...)
	}
	switch {
	case before != nil && n > 0:
		assert.Error(m.t, err, "the connection has ended")
	case before != nil:
	case pending >= machineBacklog:
		assert.ErrorIs(m.t, err, ErrStalled)
	case pending == 0 && n > 0 && m.link.refuse != nil:
		assert.ErrorIs(m.t, err, errRefusedWrite)
	default:
		assert.NoError(m.t, err, "there is room")
	}
	clear(p) // Send must not keep p
}

// write writes as the peer, while besides runs at the same time.
func (m *machine) write(p []byte, besides ...func()) {
	m.link.change(func() {
		if m.link.endWith != nil || m.link.closed {
			return
		}
		m.link.in = append(m.link.in, p...)
		m.incoming = append(m.incoming, p...)
		for _, f := range besides {
			f()
		}
	})
}

// check checks what must hold whenever every goroutine waits.
func (m *machine) check() {
	m.link.mu.Lock()
	defer m.link.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.t
	assert.Empty(t, m.link.fault)

	all := append(append([]byte(nil), m.got...), m.link.out...)
	require.LessOrEqual(t, len(all), len(m.tried))
	assert.Equal(t, string(m.tried[:len(all)]), string(all), "lost, doubled or mixed up on the way out")

	want, fault := decodeAll(m.incoming[:len(m.incoming)-len(m.link.in)])
	require.LessOrEqual(t, len(m.values), len(want))
	assert.True(t, slices.Equal(want[:len(m.values)], m.values), "lost, doubled or mixed up on the way in")

	err := m.c.Err()
	if err == nil {
		assert.Nil(t, m.ended, "the reader was told of an end that is none")
		assert.NoError(t, fault, "what is no RESP has to end the connection (R16)")
		assert.Equal(t, len(want), len(m.values), "a reply that came was not returned")
		assert.False(t, m.link.refused, "a write failed, and no method reported it")
		assert.True(t, len(all) == len(m.sent) || len(m.link.out) >= m.link.window || m.link.refuse != nil,
			"bytes lie about that could be written")
		pending := int(m.c.output.pending.Load())
		assert.LessOrEqual(t, len(m.sent)-len(all), pending, "more waits than is counted")
		assert.Equal(t, len(all) == len(m.sent), pending == 0)
		assert.Zero(t, m.link.shuts)
		return
	}
	if m.cause == nil {
		m.cause = err
	}
	assert.Same(t, m.cause, err, "the first cause is the one")
	assert.Equal(t, 1, m.link.shuts)
	if m.ended != nil {
		assert.Equal(t, m.cause, m.ended)
	}
	assert.NotContains(t, err.Error(), "hunter2")
	if errors.Is(err, io.EOF) || fault != nil && m.ended != nil && errors.Is(err, fault) {
		assert.Equal(t, len(want), len(m.values), "what came before the end is still a reply")
	}
}

// decodeAll returns the values of a stream up to its first fault, and the
// fault.
func decodeAll(wire []byte) (values []string, fault error) {
	r := resp.NewReader(resp.Limits{})
	for len(wire) > 0 {
		n := copy(r.Space(), wire)
		r.Commit(n)
		wire = wire[n:]
	}
	for {
		v, ok, err := r.Next()
		if err != nil || !ok {
			return values, err
		}
		values = append(values, string(v.Raw()))
	}
}

// finish ends the connection, if it is still alive, and closes it as its owner
// does.
func (m *machine) finish() {
	_ = m.c.Shutdown()
	synctest.Wait()
	m.check()
	require.Error(m.t, m.ended, "the reader is still there")
	assert.NoError(m.t, m.c.Close())
	for _, err := range []error{m.c.Err(), m.c.Fill(), m.c.Send([]byte("x"))} {
		assert.Equal(m.t, m.cause, err, "every method returns the first cause")
	}
	assert.Equal(m.t, 1, m.link.shuts)
	assert.Equal(m.t, 1, m.link.frees)
}

// scriptLink is a link in memory that a test controls: how many bytes it takes
// before a write waits, what can be read and in which pieces, and how it ends.
// It is for simulated time: a waiting goroutine waits on a condition.
type scriptLink struct {
	mu      sync.Mutex // guards the following
	changed *sync.Cond
	in      []byte // to be read
	piece   int    // the most bytes of one Read
	endWith error  // the error after in, returned with its last bytes if joined is set
	joined  bool
	window  int    // bytes that are accepted before a write waits
	out     []byte // written, but not yet read by the peer
	refuse  error  // the error of the next write
	refused bool   // a write has failed with refuse
	closed  bool
	aborted bool
	shuts   int
	frees   int
	readers int // Reads in progress; more than one is a fault
	writers int
	fault   string // how the rules of the interface were broken
}

func newScriptLink(window int) *scriptLink {
	l := &scriptLink{window: window, piece: 1 << 20}
	l.changed = sync.NewCond(&l.mu)
	return l
}

var errLinkClosed = errors.New("link is closed")

// change makes a change that may wake waiting goroutines.
func (l *scriptLink) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

func (l *scriptLink) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers++; l.readers > 1 {
		l.fault = "two Reads at once"
	}
	defer func() { l.readers-- }()
	for {
		switch {
		case l.closed:
			return 0, errLinkClosed
		case len(l.in) > 0:
			n := copy(p, l.in[:min(len(l.in), l.piece)])
			l.in = l.in[n:]
			if len(l.in) == 0 && l.joined {
				return n, l.endWith
			}
			return n, nil
		case l.endWith != nil:
			return 0, l.endWith
		}
		l.changed.Wait()
	}
}

func (l *scriptLink) Write(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writers++; l.writers > 1 {
		l.fault = "two Writes at once"
	}
	defer func() { l.writers-- }()
	for {
		m, err := l.take(p[n:])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
		l.changed.Wait()
	}
}

func (l *scriptLink) tryWrite(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writers > 0 {
		l.fault = "tryWrite while a Write is under way"
	}
	return l.take(p)
}

// take accepts as many bytes as the window has room for. The caller must hold
// the mutex.
func (l *scriptLink) take(p []byte) (int, error) {
	switch {
	case l.closed:
		return 0, errLinkClosed
	case l.refuse != nil && len(p) > 0:
		l.refused = true
		return 0, l.refuse
	}
	n := min(len(p), max(0, l.window-len(l.out)))
	l.out = append(l.out, p[:n]...)
	return n, nil
}

func (l *scriptLink) unread() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0
	}
	return len(l.in)
}

func (l *scriptLink) shut(abort bool) error {
	l.change(func() {
		l.closed, l.aborted = true, abort
		l.shuts++
	})
	return nil
}

func (l *scriptLink) free() {
	l.change(func() {
		l.frees++
		if l.readers > 0 || l.writers > 0 || !l.closed {
			l.fault = "freed while in use"
		}
	})
}

// peerTakes reads at most n bytes as the peer.
func (l *scriptLink) peerTakes(n int) (taken []byte) {
	l.change(func() {
		n = min(n, len(l.out))
		taken = append(taken, l.out[:n]...)
		l.out = append([]byte(nil), l.out[n:]...)
	})
	return taken
}

var _ io.Reader = (*scriptLink)(nil)

// FuzzHandshake answers a dial with arbitrary bytes, in pieces, and then falls
// silent or hangs up. The dial returns within its timeout. It succeeds only
// with an answer to every command and nothing after it (R16, R21). What the
// node said about itself is bounded and printable. An error is the package's
// own, and shows no password even if the peer repeats it (R27). Nothing is left
// (R28).
func FuzzHandshake(f *testing.F) {
	for _, protocol := range []uint8{0, 2, 3} {
		f.Add([]byte(sound3), protocol, uint8(7), true)
		f.Add([]byte(sound2), protocol, uint8(200), false)
		for _, hostile := range handshakeLies {
			f.Add([]byte(hostile+sound3), protocol, uint8(200), false)
			f.Add([]byte(strings.Replace(sound3, "$4\r\nmode", hostile+"$4\r\nmode", 1)), protocol, uint8(3), true)
			f.Add([]byte(sound3+hostile), protocol, uint8(200), false)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, protocol, piece uint8, hangUp bool) {
		if protocol == 1 || protocol > 3 || len(answer) > 8<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			d := &answering{answer: answer, piece: int(piece) + 1, hangUp: hangUp}
			cfg := Config{NetDial: d.dial, Endpoint: Endpoint{
				Addr: "node.test:1", Password: fuzzPassword, Protocol: int(protocol), DialTimeout: time.Second,
			}}
			start := time.Now()
			c, err := Dial(context.Background(), cfg)
			assert.LessOrEqual(t, time.Since(start), time.Second)
			if err != nil {
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.NotContains(t, err.Error(), fuzzPassword)
				var refusal *resp.Error
				if errors.As(err, &refusal) {
					assert.NotContains(t, refusal.Message, fuzzPassword)
				}
				return
			}
			checkIntroduced(t, c.Server())
			assert.Zero(t, c.reader.Buffered(), "nothing is behind the last reply")
			sent, answered := sentInHandshake(c, &cfg), valuesIn(answer)
			assert.LessOrEqual(t, sent, answered, "a reply for each command")
			if int(piece) >= len(answer) { // otherwise surplus bytes may come after the last read
				assert.Equal(t, sent, answered)
			}
			assert.NoError(t, c.Close())
		})
	})
}

const fuzzPassword = "hunter2"

// checkIntroduced requires that the strings which the node makes us keep,
// compare and show are short and printable.
func checkIntroduced(t *testing.T, s *Server) {
	for _, word := range []string{s.RunID, s.Product, s.Version, s.Role, s.Mode, s.EvictionPolicy} {
		assert.LessOrEqual(t, len(word), maxWord)
		assert.Equal(t, errtext.Printable(word), word)
	}
	assert.LessOrEqual(t, len(s.ClientAddr), maxAddr)
	assert.GreaterOrEqual(t, s.Uptime, time.Duration(0))
	assert.Equal(t, s.AddrKnown, s.AddrKnown && s.ClientAddr != "" && s.ID != 0)
}

// sentInHandshake returns how many commands were sent over the connection.
func sentInHandshake(c *Conn, cfg *Config) int {
	return len(c.handshake(cfg, c.server.Protocol))
}

// valuesIn counts the replies in wire.
func valuesIn(wire []byte) int {
	values, _ := decodeAll(wire)
	return len(values)
}

// An answering is a peer that sends the same bytes to every connection,
// whatever it receives.
type answering struct {
	answer []byte
	piece  int
	hangUp bool
}

func (d *answering) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := theirs.Read(make([]byte, 4<<10)); err != nil {
			return
		}
		for rest := d.answer; len(rest) > 0; {
			n := min(d.piece, len(rest))
			if _, err := theirs.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		if !d.hangUp {
			_, _ = theirs.Read(make([]byte, 4<<10)) // until the connection ends
		}
	}()
	return ours, nil
}

// What sound nodes answer, by version of the protocol.
var (
	info   = "run_id:00ff\r\nuptime_in_seconds:61\r\nrole:slave\r\nvalkey_version:9.0\r\nmaxmemory_policy:noeviction\r\n"
	sound3 = defaults["HELLO"] + "+OK\r\n+OK\r\n" + defaults["CLIENT INFO"] + defaults["INFO server"] + defaults["INFO replication"] +
		defaults["INFO memory"]
	sound2 = "+OK\r\n:7\r\n+OK\r\n+OK\r\n" + text2("id=7 addr=/tmp/a b:0 laddr=/x:0 fd=8\n") + text2(info) + text2("role:master") + text2("")
)

// handshakeLies are replies that must not come, or not at this point.
var handshakeLies = []string{
	"-ERR max number of clients reached\r\n",
	"-NOAUTH HELLO must be called with the client already authenticated\r\n",
	"-ERR unknown command `HELLO`, with args beginning with: `3` `AUTH` `default` `hunter2`\r\n",
	"-WRONGPASS hunter2 is not it\r\n", "-ERR h\x00hunter2\xff\r\n", "!15\r\nERR hunt\r\nhunter2\r\n",
	">2\r\n+message\r\n+x\r\n", "|1\r\n+a\r\n+b\r\n", "+OK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ":1\r\n", "%0\r\n", "HTTP/1.1 400 Bad\r\n",
	"-LOADING x\r\n", "-NOPERM x\r\n", "SSH-2.0\r\n", "\x15\x03\x01", "$1048577\r\n", "-NOPROTO x\r\n",
}
