package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDialBoundedBySilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		cfg := Config{Endpoint: Endpoint{Addr: "a:1", DialTimeout: 3 * time.Second}}
		silent := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe() // like a stopped process, the other end does not read
			t.Cleanup(func() { theirs.Close() })
			return ours, nil
		}
		cfg.NetDial = silent
		_, err := Dial(context.Background(), cfg)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "no caller's context has ended")
		assert.Equal(t, 3*time.Second, time.Since(start))

		cfg.TLS = newCertificates(t).Client()
		_, err = Dial(context.Background(), cfg)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 6*time.Second, time.Since(start))

		cfg.NetDial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, err = Dial(context.Background(), cfg)
		assert.ErrorContains(t, err, "not connected after 3s")
		assert.Equal(t, 9*time.Second, time.Since(start))

		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(errTest) })
		cfg.NetDial = silent
		_, err = Dial(ctx, cfg)
		assert.ErrorIs(t, err, errTest)
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}

// TLS in memory: verified, of a sufficient version, and never a fallback to
// plaintext.
func TestDialTLS(t *testing.T) {
	certs := newCertificates(t)
	old := certs.Server()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	older := certs.Client()
	older.MinVersion = tls.VersionTLS10
	named := certs.Client()
	named.ServerName = "node.test"
	for _, c := range []struct {
		name   string
		addr   string
		client *tls.Config
		server *tls.Config
		greet  string
		text   string // "" if the dial succeeds
	}{
		{"verified by the address", "node.test:1", certs.Client(), certs.Server(), "", ""},
		{"verified by an IP address", "127.0.0.1:1", certs.Client(), certs.Server(), "", ""},
		{"verified by the name given", "other.test:1", named, certs.Server(), "", ""},
		{"another host", "other.test:1", certs.Client(), certs.Server(), "", "not other.test"},
		{"unknown authority", "node.test:1", &tls.Config{}, certs.Server(), "", "unknown authority"},
		{"not verified by wish", "other.test:1", &tls.Config{InsecureSkipVerify: true}, certs.Server(), "", ""},
		{"too old", "node.test:1", older, old, "", "protocol version"},
		{"HTTP", "node.test:1", certs.Client(), nil, "HTTP/1.1 400 Bad Request\r\n\r\n", "peer speaks HTTP"},
		{"RESP without TLS", "node.test:1", certs.Client(), nil, "-ERR max number of clients reached\r\n", "peer speaks no TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{greet: c.greet, hangUp: true, conns: make([][]string, 1)}
				network := served(t, c.addr, c.server, func(theirs net.Conn) { s.serve(theirs, 0) })
				conn, err := Dial(context.Background(), Config{
					Endpoint: Endpoint{Addr: c.addr, TLS: c.client}, NetDial: network.Dial,
				})
				assert.Equal(t, 1, network.At(c.addr).Dials())
				if c.text != "" {
					var e *Error
					require.ErrorAs(t, err, &e)
					assert.Contains(t, err.Error(), c.text)
					assert.Empty(t, s.received()[0], "nothing was said in the clear")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "00ff", conn.Server().RunID)
				require.NoError(t, conn.Close())
			})
		})
	}
}

func TestDialRefusesConfig(t *testing.T) {
	for text, cfg := range map[string]Config{
		"no address":                       {},
		"DB is negative: -1":               {Endpoint: Endpoint{Addr: "a:1", DB: -1}},
		"Protocol is 4: it must be 2 or 3": {Endpoint: Endpoint{Addr: "a:1", Protocol: 4}},
		"DialTimeout is negative: -1ns":    {Endpoint: Endpoint{Addr: "a:1", DialTimeout: -1}},
		"Backlog is negative: -1":          {Endpoint: Endpoint{Addr: "a:1"}, Backlog: -1},
		"client name":                      {Endpoint: Endpoint{Addr: "a:1", ClientName: "a b"}},
		"neither a":                        {Endpoint: Endpoint{Addr: "a:1"}, NetDial: func(context.Context, string, string) (net.Conn, error) { return nil, nil }},
		"missing port":                     {Endpoint: Endpoint{Addr: "a"}},
	} {
		_, err := Dial(context.Background(), cfg)
		var e *Error
		if assert.ErrorAs(t, err, &e, text) {
			assert.Equal(t, "dial", e.Op)
			assert.Contains(t, err.Error(), text)
		}
	}
}

// Dial closes what NetDial returned if a later step fails, whichever it is.
func TestDialThatFailsClosesItsConnection_R28(t *testing.T) {
	certs := newCertificates(t)
	overTLS := func(c *tls.Config) Config { return Config{Endpoint: Endpoint{TLS: c}} }
	refusing := func(cfg Config) Config {
		cfg.Admit = func(*Server) error { return errTest }
		return cfg
	}
	noHello := map[string]string{"HELLO": "-ERR unknown command 'HELLO'\r\n"}
	for name, c := range map[string]struct {
		cfg    Config
		secure *tls.Config // of the node; nil without TLS
		node   *script
		dials  int32
	}{
		"no TLS":               {overTLS(certs.Client()), nil, &script{greet: "-ERR max number of clients reached\r\n"}, 1},
		"no TLS, and hung up":  {overTLS(certs.Client()), nil, &script{greet: "HTTP/1.1 400 Bad Request\r\n\r\n", hangUp: true}, 1},
		"unknown authority":    {overTLS(&tls.Config{}), certs.Server(), &script{}, 1},
		"silent instead of it": {overTLS(certs.Client()), nil, &script{}, 1},
		"refused over TLS":     {refusing(overTLS(certs.Client())), certs.Server(), &script{}, 1},
		"refused":              {refusing(Config{}), nil, &script{}, 1},
		"no RESP":              {Config{}, nil, &script{greet: "HTTP/1.1 400 Bad Request\r\n\r\n"}, 1},
		"silent":               {Config{}, nil, &script{answers: map[string]string{"HELLO": ""}}, 1},
		"a surplus byte":       {Config{}, nil, &script{answers: map[string]string{"INFO memory": defaults["INFO memory"] + "+"}}, 1},
		"RESP2, then refused":  {refusing(Config{}), nil, &script{answers: noHello}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.node.conns = make([][]string, 1)
				network := served(t, "node.test:1", c.secure, func(theirs net.Conn) { c.node.serve(theirs, 0) })
				var dialed []*closings
				c.cfg.Addr, c.cfg.NetDial = "node.test:1", counted(network, &dialed)
				_, err := Dial(t.Context(), c.cfg)
				require.Error(t, err)
				require.Len(t, dialed, int(c.dials))
				for i, nc := range dialed {
					require.EqualValues(t, 1, nc.count.Load(), "connection %d", i)
				}
			})
		})
	}
}

// closings counts how often a connection was closed. A count of open
// descriptors would not do: the garbage collector closes a forgotten one at
// some point.
type closings struct {
	net.Conn
	count atomic.Int32
}

func (c *closings) Close() error {
	c.count.Add(1)
	return c.Conn.Close()
}

// served returns a network, buffered as TLS needs it, with one address whose
// connections are served over TLS if there is a config.
func served(t *testing.T, addr string, config *tls.Config, serve func(net.Conn)) *redistest.Network {
	network := redistest.NewNetwork()
	t.Cleanup(func() { _ = network.Close() })
	l := network.Listen(addr)
	go func() {
		for theirs, err := l.Accept(); err == nil; theirs, err = l.Accept() {
			if config != nil {
				theirs = tls.Server(theirs, config)
			}
			go serve(theirs)
		}
	}()
	return network
}

// counted is a NetDial that notes its connections.
func counted(network *redistest.Network, dialed *[]*closings) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, name, addr string) (net.Conn, error) {
		nc, err := network.Dial(ctx, name, addr)
		*dialed = append(*dialed, &closings{Conn: nc})
		return (*dialed)[len(*dialed)-1], err
	}
}

// pongs serves a connection as a node without TLS does: it answers PING, and
// takes anything else for the beginning of a line.
func pongs(pong string) func(net.Conn) {
	return func(nc net.Conn) {
		defer nc.Close()
		first := make([]byte, 64)
		if n, _ := nc.Read(first); n > 0 && first[0] == 'P' {
			_, _ = io.WriteString(nc, pong)
		}
		_, _ = io.Copy(io.Discard, nc)
	}
}

// Dial closes the connection on which it asks in plaintext, too, and leaves the
// tls.Config of the caller, which all nodes share, as it is.
func TestPlaintextIsTestedOnAConnectionThatIsClosed_R21_R28(t *testing.T) {
	certs := newCertificates(t)
	synctest.Test(t, func(t *testing.T) {
		network := served(t, "node.test:1", nil, pongs("+PONG\r\n"))
		config := certs.Client()
		var dialed []*closings
		_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: "node.test:1", TLS: config}, NetDial: counted(network, &dialed)})
		require.ErrorIs(t, err, errPlaintext)
		require.Empty(t, config.ServerName)
		synctest.Wait()
		require.GreaterOrEqual(t, len(dialed), 2)
		for i, nc := range dialed {
			require.Positive(t, nc.count.Load(), "connection %d", i)
		}
	})
}

// A node that wants a password answers PING in plaintext with an error, and
// what is no Redis with something else.
func TestWhatAnswersPlaintext_R21(t *testing.T) {
	certs := newCertificates(t)
	for answer, is := range map[string]bool{
		"-NOAUTH Authentication required.\r\n": true, "+PONG\r\n": true,
		"HTTP/1.1 400 Bad Request\r\n": false, "$4\r\nPONG\r\n": false, "": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			network := served(t, "node.test:1", nil, pongs(answer))
			_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: "node.test:1", TLS: certs.Client()}, NetDial: network.Dial})
			require.Error(t, err)
			require.Equal(t, is, errors.Is(err, errPlaintext), "%q: %v", answer, err)
		})
	}
}

// Nothing of Dial goes on when it has returned, whatever NetDial does: the test
// for plaintext is over, too.
func TestDialWaitsForItsTestForPlaintext_R28(t *testing.T) {
	certs := newCertificates(t)
	synctest.Test(t, func(t *testing.T) {
		network := served(t, "node.test:1", nil, pongs("+PONG\r\n"))
		var running, calls atomic.Int32
		cfg := Config{Endpoint: Endpoint{Addr: "node.test:1", TLS: certs.Client(), DialTimeout: tlsPatience + 100*time.Millisecond}}
		cfg.NetDial = func(ctx context.Context, name, addr string) (net.Conn, error) {
			running.Add(1)
			defer running.Add(-1)
			if calls.Add(1) > 1 {
				time.Sleep(300 * time.Millisecond) // it does not look at its context
			}
			return network.Dial(ctx, name, addr)
		}
		_, err := Dial(t.Context(), cfg)
		require.Error(t, err)
		require.GreaterOrEqual(t, calls.Load(), int32(2))
		require.Zero(t, running.Load())
	})
}

// mutual is a node that demands a certificate of the same authority.
type mutual struct {
	script
	certs *redistest.Certificates // what it shows and trusts now
}

func (m *mutual) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	config := m.certs.Server()
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, m.certs.Pool
	m.mu.Lock()
	n := len(m.conns)
	m.conns = append(m.conns, nil)
	m.mu.Unlock()
	go m.serve(tls.Server(theirs, config), n)
	return ours, nil
}

// Certificates are replaced while the program runs: each Dial reads the files
// of the URL again, the authority's and this client's. They outrank what
// another tls.Config says, and that stays as it is, since other nodes share it.
func TestDialReadsTheFilesOfTheURLAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(c *redistest.Certificates) {
		for name, pem := range map[string][]byte{"ca": c.CA, "cert": c.Cert, "key": c.Key} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem, 0o600))
		}
	}
	first, second := newCertificates(t), newCertificates(t)
	write(first)
	e, err := ParseURL("rediss://node.test:1?tls_ca_file=" + dir + "/ca&tls_cert_file=" + dir + "/cert&tls_key_file=" + dir + "/key")
	require.NoError(t, err)
	shared := &tls.Config{
		RootCAs: newCertificates(t).Pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			t.Error("it outranks the files")
			return &first.Pair, nil
		},
	}
	for name, e := range map[string]Endpoint{"alone": e, "beside another": e.Or(Endpoint{TLS: shared})} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				write(first)
				node := &mutual{certs: first}
				dial := func() error {
					c, err := Dial(t.Context(), Config{Endpoint: e, NetDial: node.dial})
					if err == nil {
						err = c.Close()
					}
					return err
				}
				require.NoError(t, dial())
				node.certs = second
				require.Error(t, dial(), "the node has another certificate")
				write(second)
				require.NoError(t, dial())

				require.NoError(t, os.Remove(filepath.Join(dir, "key")))
				dials := len(node.received())
				err := dial()
				assert.ErrorIs(t, err, os.ErrNotExist)
				assert.ErrorContains(t, err, "tls_key_file")
				assert.Len(t, node.received(), dials, "nothing was dialed in vain")
			})
		})
	}
	assert.Empty(t, shared.ServerName)
	assert.NotNil(t, shared.GetClientCertificate)
	assert.Empty(t, shared.Certificates)
}

// configTLS returns the configuration that Dial would use.
func configTLS(t testing.TB, cfg *Config) *tls.Config {
	t.Helper()
	config, err := cfg.configTLS()
	require.NoError(t, err)
	return config
}

// peer is a listener that serves each connection with what the function says of
// its number.
func peer(t *testing.T, serve func(n int, nc net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				serve(n, nc)
			}()
		}
	}()
	return l.Addr().String()
}

// A connection that ends at HELLO without a word gets a second look: a PING and
// a HELLO, and then the beginning of TLS. Only what one connection shows is
// called something; a proxy may just have no server (R31).
func TestAnUnansweredHelloGetsASecondLook_R31(t *testing.T) {
	certs := newCertificates(t)
	old := certs.Server()
	old.MaxVersion = tls.VersionTLS11
	mutual := certs.Server()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, certs.Pool
	hangUp := func(int, net.Conn) {}
	secure := func(config *tls.Config) func(int, net.Conn) {
		return func(_ int, nc net.Conn) {
			first := make([]byte, 1)
			if n, _ := nc.Read(first); n == 0 || first[0] != 0x16 {
				return // without an alert, as redis-server does
			}
			_ = tls.Server(&rewound{nc, first}, config).Handshake()
		}
	}
	node := &script{}
	for name, c := range map[string]struct {
		serve   func(int, net.Conn)
		says    string
		outlook Outlook
	}{
		"nothing":                        {hangUp, "connection ended before the answer to HELLO", Passing},
		"TLS":                            {secure(certs.Server()), "peer speaks TLS (use rediss://)", Lasting},
		"TLS with certificates":          {secure(mutual), "peer speaks TLS (use rediss://)", Lasting},
		"TLS of old":                     {secure(old), "peer speaks TLS (use rediss://)", Lasting},
		"a proxy that answers PING only": {answersPing, "looks like a proxy", Lasting},
		"a proxy that gets its server": {func(n int, nc net.Conn) {
			if n > 0 {
				node.mu.Lock()
				node.conns = append(node.conns, nil)
				last := len(node.conns) - 1
				node.mu.Unlock()
				node.serve(nc, last)
			}
		}, "connection ended before the answer to HELLO", Passing},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: peer(t, c.serve), Password: "hunter2"}})
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.outlook, OutlookOf(err), "%v", err)
		})
	}
	for _, line := range node.received() {
		require.NotContains(t, line, "hunter2", "no secret is sent by a second look (R27)")
	}
	require.NotEmpty(t, node.received())
}

// answersPing ends the connection at every other command.
func answersPing(_ int, nc net.Conn) {
	b := make([]byte, 512)
	for {
		n, err := nc.Read(b)
		if err != nil || !strings.Contains(string(b[:n]), "PING") {
			return
		}
		_, _ = io.WriteString(nc, "+PONG\r\n")
	}
}

// A rewound connection returns some bytes again.
type rewound struct {
	net.Conn
	again []byte
}

func (r *rewound) Read(p []byte) (int, error) {
	if len(r.again) > 0 {
		n := copy(p, r.again)
		r.again = r.again[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
