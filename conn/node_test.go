package conn

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start starts a real server, or skips the test if there is none.
func start(t testing.TB, opts redistest.Options) *redistest.Server {
	t.Helper()
	return redistest.Servers(t, 1, func(o *redistest.Options) { *o = opts })[0]
}

// connect dials a URL.
func connect(t testing.TB, raw string, change ...func(*Config)) *Conn {
	t.Helper()
	e, err := ParseURL(raw)
	require.NoError(t, err)
	cfg := Config{Endpoint: e}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends one command and returns its reply as text.
func ask(t testing.TB, c *Conn, args ...string) (reply string) {
	t.Helper()
	require.NoError(t, c.Exchange(t.Context(), resp.AppendCommand(nil, args...), 1, func(_ int, v resp.Value) error {
		if i, ok := v.Int64(); ok {
			reply = fmt.Sprint(i)
		} else {
			reply = string(v.Bytes())
		}
		return nil
	}))
	return reply
}

// The handshake with a real server, over each kind of connection and in both
// versions of the protocol, returns the identities of the server and of the
// connection, as CLIENT KILL needs them (R8).
func TestNodeTCPUnixTLS(t *testing.T) {
	plain := start(t, redistest.Options{TCP: true, Unix: true, Password: "hunter/2@?"})
	secure := start(t, redistest.Options{TLS: true, Password: "hunter/2@?"})
	product, version, err := plain.Introduction()
	require.NoError(t, err)
	for name, raw := range map[string]string{
		"tcp":  plain.URL(),
		"unix": plain.UnixURL(),
		"tls":  secure.URL() + "?tls_ca_file=" + url.QueryEscape(secure.CAFile()),
	} {
		for _, protocol := range []int{0, 2, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, protocol), func(t *testing.T) {
				c := connect(t, raw, func(cfg *Config) { cfg.Protocol, cfg.DB, cfg.ClientName = protocol, 5, "me" })
				s := c.Server()
				assert.Equal(t, map[int]int{0: 3, 2: 2, 3: 3}[protocol], s.Protocol)
				assert.Len(t, s.RunID, 40)
				assert.Equal(t, []string{product, "master", "standalone", "noeviction"}, []string{s.Product, s.Role, s.Mode, s.EvictionPolicy})
				assert.Equal(t, version, s.Version)
				assert.Regexp(t, `^\d+\.\d+`, s.Version)
				assert.Positive(t, s.ID)
				assert.True(t, s.AddrKnown)

				assert.Equal(t, "PONG", ask(t, c, "PING"))
				assert.Equal(t, fmt.Sprint(s.ID), ask(t, c, "CLIENT", "ID"))
				assert.Contains(t, ask(t, c, "CLIENT", "INFO"), " name=me ")
				assert.Contains(t, ask(t, c, "CLIENT", "INFO"), " db=5 ")
				other := connect(t, raw)
				assert.Equal(t, s.RunID, other.Server().RunID)
				assert.Equal(t, "0", ask(t, other, "CLIENT", "KILL", "ID", fmt.Sprint(s.ID), "ADDR", "10.0.0.1:1", "SKIPME", "yes"))
				assert.Equal(t, "1", ask(t, other, "CLIENT", "KILL", "ID", fmt.Sprint(s.ID), "ADDR", s.ClientAddr, "SKIPME", "yes"))
				assert.Error(t, c.Fill())
			})
		}
	}
}

func TestNodeRefusals(t *testing.T) {
	node := start(t, redistest.Options{TCP: true, Password: "hunter2"})
	admin := connect(t, node.URL())
	assert.Equal(t, "OK", ask(t, admin, "ACL", "SETUSER", "few", "on", ">few2", "+hello", "+ping"))
	assert.Equal(t, "OK", ask(t, admin, "ACL", "SETUSER", "off", "off", ">off2"))

	fails := func(userinfo, query string, class Class, prelude ...Step) {
		t.Helper()
		e, err := ParseURL("redis://" + userinfo + node.TCPAddr() + query)
		require.NoError(t, err)
		_, err = Dial(t.Context(), Config{Endpoint: e, Prelude: prelude})
		require.Error(t, err)
		assert.Equal(t, class, ErrorClass(err), "%v", err)
		for _, secret := range []string{"hunter", "few2", "off2", "wrong2"} {
			assert.NotContains(t, err.Error(), secret, "R27")
		}
	}
	for _, query := range []string{"", "?protocol=2"} {
		fails("", query, ClassNoAuth)
		fails(":wrong2@", query, ClassWrongPass)
		fails("off:off2@", query, ClassWrongPass)
		fails("few:few2@", query, ClassNoPerm, Step{Command: resp.AppendCommand(nil, "GET", "x")})
		fails(":hunter2@", query, ClassOther, Step{Command: resp.AppendCommand(nil, "SELECT", "99")})
		fails(":hunter2@", query, ClassUnknownCommand, Step{Command: resp.AppendCommand(nil, "NOSUCH", "hunter2")})
	}
	fails(":hunter2@", "/99", ClassOther)
	fails("few:few2@", "/1", ClassNoPerm)

	// R22: an ACL that forbids nearly everything leaves nearly everything
	// unknown.
	c := connect(t, "redis://few:few2@"+node.TCPAddr())
	s := *c.Server()
	product, _, err := node.Introduction()
	require.NoError(t, err)
	assert.NotZero(t, s.ID)
	assert.False(t, s.AddrKnown)
	assert.True(t, strings.HasPrefix(s.ClientAddr, "127.0.0.1:"), "our own view of it")
	assert.Equal(t, []string{"", "", product, "master"}, []string{s.RunID, s.EvictionPolicy, s.Product, s.Role})
	assert.Equal(t, "0", ask(t, admin, "CLIENT", "KILL", "ID", fmt.Sprint(s.ID), "ADDR", "127.0.0.1:1", "SKIPME", "yes"))
	assert.Equal(t, "1", ask(t, admin, "CLIENT", "KILL", "ID", fmt.Sprint(s.ID), "ADDR", s.ClientAddr, "SKIPME", "yes"))

	assert.Equal(t, "OK", ask(t, admin, "CONFIG", "SET", "maxclients", "1"))
	for range 20 {
		fails(":hunter2@", "", ClassMaxClients)
	}
}

// The address of a node that speaks TLS is dialed without TLS, and the other
// way round; a node demands a certificate. The error says so, and that waiting
// does not help (R31).
func TestNodeTLSMismatch_R31(t *testing.T) {
	plain := start(t, redistest.Options{TCP: true})
	secure := start(t, redistest.Options{TLS: true})
	mutual := start(t, redistest.Options{TLS: true})
	_, err := mutual.Do("CONFIG", "SET", "tls-auth-clients", "yes")
	require.NoError(t, err)
	for _, c := range []struct {
		raw, says string
		config    *tls.Config
	}{
		{"redis://" + secure.TCPAddr(), "peer speaks TLS (use rediss://)", nil},
		{"redis://" + mutual.TCPAddr(), "peer speaks TLS (use rediss://)", nil},
		{"redis://:hunter2@" + secure.TCPAddr() + "?protocol=2", "peer speaks TLS (use rediss://)", nil},
		{"rediss://" + plain.TCPAddr(), "peer speaks no TLS", nil}, // it waits for the end of a line
		{"rediss://" + secure.TCPAddr(), "certificate signed by unknown authority", nil},
		{"rediss://" + secure.TCPAddr() + "?tls_skip_verify=false", "certificate signed by unknown authority", &tls.Config{InsecureSkipVerify: true}},
		{"rediss://" + mutual.TCPAddr(), "certificate required", mutual.TLSConfig()},
		{"rediss://" + secure.TCPAddr(), "no such host name", &tls.Config{RootCAs: secure.TLSConfig().RootCAs, ServerName: "other.test"}},
	} {
		e, err := ParseURL(c.raw)
		require.NoError(t, err)
		begun := time.Now()
		_, err = Dial(t.Context(), Config{Endpoint: e.Or(Endpoint{TLS: c.config})})
		var typed *Error
		require.ErrorAs(t, err, &typed, c.raw)
		if c.says != "no such host name" {
			assert.ErrorContains(t, err, c.says, c.raw)
		}
		assert.Equal(t, Lasting, OutlookOf(err), "%s: %v", c.raw, err)
		assert.NotContains(t, err.Error(), "hunter2", "R27")
		t.Log(time.Since(begun).Round(time.Millisecond), err)
	}
}
