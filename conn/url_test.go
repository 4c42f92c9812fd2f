package conn

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	withTLS := &tls.Config{MinVersion: tls.VersionTLS12}
	for raw, want := range map[string]Endpoint{
		"redis://a":                      {Network: "tcp", Addr: "a:6379"},
		"redis://localhost:6380":         {Network: "tcp", Addr: "localhost:6380"},
		"redis://\u00e4.example:1":       {Network: "tcp", Addr: "\u00e4.example:1"},
		"unix:///a,b;c":                  {Network: "unix", Addr: "/a,b;c"},
		"redis://a_b-1.x:6380":           {Network: "tcp", Addr: "a_b-1.x:6380"},
		"redis://u:a,b;c@h:1":            {Network: "tcp", Addr: "h:1", Username: "u", Password: "a,b;c"},
		"redis://a/":                     {Network: "tcp", Addr: "a:6379"},
		"valkey://a:1":                   {Network: "tcp", Addr: "a:1"},
		"REDIS://a:65535/15":             {Network: "tcp", Addr: "a:65535", DB: 15},
		"rediss://a":                     {Network: "tcp", Addr: "a:6379", TLS: withTLS},
		"valkeys://a:1/2":                {Network: "tcp", Addr: "a:1", DB: 2, TLS: withTLS},
		"redis://10.0.0.1:7000":          {Network: "tcp", Addr: "10.0.0.1:7000"},
		"redis://[::1]":                  {Network: "tcp", Addr: "[::1]:6379"},
		"redis://[fe80::1%25eth0]:7/1":   {Network: "tcp", Addr: "[fe80::1%eth0]:7", DB: 1},
		"redis://user@a":                 {Network: "tcp", Addr: "a:6379", Username: "user"},
		"redis://:pw@a":                  {Network: "tcp", Addr: "a:6379", Password: "pw"},
		"redis://user:pw@[::1]:1":        {Network: "tcp", Addr: "[::1]:1", Username: "user", Password: "pw"},
		"redis://u%40x:p%2F%3F%23%40@a":  {Network: "tcp", Addr: "a:6379", Username: "u@x", Password: "p/?#@"},
		"redis://:a:b@a":                 {Network: "tcp", Addr: "a:6379", Password: "a:b"},
		"unix:///run/redis.sock":         {Network: "unix", Addr: "/run/redis.sock"},
		"unix:/run/redis.sock?db=1":      {Network: "unix", Addr: "/run/redis.sock", DB: 1},
		"unix:///run/a%20b@c":            {Network: "unix", Addr: "/run/a b@c"},
		"unix://u:pw@/s?db=3":            {Network: "unix", Addr: "/s", Username: "u", Password: "pw", DB: 3},
		"redis://a?client_name=x%40y":    {Network: "tcp", Addr: "a:6379", ClientName: "x@y"},
		"redis://a?keepalive=off":        {Network: "tcp", Addr: "a:6379", KeepAlive: -1},
		"redis://a?failover=auto":        {Network: "tcp", Addr: "a:6379", Failover: Failover{Expected: true}},
		"redis://a?failover=unknown":     {Network: "tcp", Addr: "a:6379", Failover: Failover{Expected: true, Bound: -1}},
		"redis://a?failover=12s":         {Network: "tcp", Addr: "a:6379", Failover: Failover{Expected: true, Bound: 12 * time.Second}},
		"redis://a?tcp_user_timeout=off": {Network: "tcp", Addr: "a:6379", TCPUserTimeout: -1},
		"redis://u:pw@a:1?db=2&client_name=n&protocol=2&dial_timeout=3s&keepalive=4s&tcp_user_timeout=5s": {
			Network: "tcp", Addr: "a:1", Username: "u", Password: "pw", DB: 2, ClientName: "n", Protocol: 2,
			DialTimeout: 3 * time.Second, KeepAlive: 4 * time.Second, TCPUserTimeout: 5 * time.Second,
		},
		"rediss://a?tls_server_name=b&tls_skip_verify=true&protocol=3": {
			Network: "tcp", Addr: "a:6379", Protocol: 3,
			TLS: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "b", InsecureSkipVerify: true},
		},
		"rediss://a?tls_skip_verify=0": {Network: "tcp", Addr: "a:6379", TLS: withTLS, verifies: true},
	} {
		got, err := ParseURL(raw)
		if assert.NoError(t, err, raw) {
			// For a struct, the failure would be printed by Format, which hides
			// the difference.
			assert.True(t, assert.ObjectsAreEqual(want, got), "%s\nwant %s\ngot  %s", raw, fields(want), fields(got))
		}
	}
}

// fields returns the fields that Format hides.
func fields(e Endpoint) string {
	type bare Endpoint
	return fmt.Sprintf("%+v", bare(e))
}

// A user name alone goes with the other's password. A password is never sent
// with another's user name.
func TestWhatAnEndpointLeavesOut(t *testing.T) {
	other := Endpoint{Addr: "b:2", Username: "ou", Password: "op", ClientName: "on", DialTimeout: time.Minute}
	for _, c := range [][2]Endpoint{
		{{Addr: "a:1"}, {Addr: "a:1", Username: "ou", Password: "op", ClientName: "on", DialTimeout: time.Minute}},
		{{Username: "u"}, {Username: "u", Password: "op", ClientName: "on", DialTimeout: time.Minute}},
		{{Password: "p"}, {Password: "p", ClientName: "on", DialTimeout: time.Minute}},
		{{Password: "p", ClientName: "n", DialTimeout: 1}, {Password: "p", ClientName: "n", DialTimeout: 1}},
	} {
		assert.Equal(t, c[1], c[0].Or(other))
	}
}

func TestParseURLRefuses(t *testing.T) {
	for raw, text := range map[string]string{
		"":                                   "it is empty",
		"a:6379":                             "the scheme is missing",
		"http://a":                           "scheme",
		"redis:a":                            "the scheme is missing",
		"redis://a:0":                        "port",
		"redis://a:65536":                    "port",
		"redis://a:x":                        "port",
		"redis://[::1":                       "malformed",
		"redis://a b":                        "blank",
		" redis://a":                         "begins with a blank",
		"redis://a\n":                        "ends with a blank",
		"redis://u:a b@h":                    "before the @",
		"redis://a,redis://b":                "several URLs",
		"redis://a%zz":                       "percent",
		"redis://a?x=%zz":                    "percent",
		"redis://a?x;y":                      "malformed",
		"redis://a/x":                        "path: not the number",
		"redis://a/1/2":                      "path: not the number",
		"redis://a/-1":                       "path: not the number",
		"redis://a/2147483648":               "path: not the number",
		"redis://a/1?db=1":                   "twice",
		"redis://a?db=1&db=2":                "db is repeated",
		"redis://a?db=":                      "db: not the number",
		"redis://a?db=x":                     "db: not the number",
		"redis://a?DB=1":                     `unknown parameter "DB"`,
		"redis://a?timeout=1s":               `unknown parameter "timeout"`,
		"redis://a?protocol=4":               "protocol: neither",
		"redis://a?client_name=a%20b":        "client_name: ",
		"redis://a?client_name=%C3%A4":       "client_name: ",
		"redis://a?client_name=x@y":          "malformed",
		"redis://a?client_name=":             "client_name: empty",
		"unix:///a%00b":                      "zero byte",
		"rediss://a?tls_ca_file=":            "tls_ca_file: empty",
		"redis://a?dial_timeout=5":           "dial_timeout: not a positive",
		"redis://a?dial_timeout=0s":          "dial_timeout: not a positive",
		"redis://a?dial_timeout=off":         "dial_timeout: not a positive",
		"redis://a?keepalive=-1s":            "keepalive: not a positive",
		"redis://a?failover=0s":              "failover: neither",
		"redis://a?failover=-1s":             "failover: neither",
		"redis://a?failover=":                "failover: neither",
		"redis://a?tls_server_name=b":        "tls_server_name needs a scheme with TLS",
		"redis://a?tls_skip_verify=true":     "needs a scheme with TLS",
		"unix:///s?tls_skip_verify=true":     "needs a scheme with TLS",
		"valkey://a?tls_ca_file=/x":          "needs a scheme with TLS",
		"rediss://a?tls_skip_verify=perhaps": "tls_skip_verify: neither",
		"rediss://a?tls_server_name=":        "tls_server_name: empty",
		"redis://a#x":                        "malformed",
		"unix://":                            "missing",
		"unix:///":                           "missing",
		"unix://run/redis.sock":              "malformed",
		"unix:///s#x":                        "malformed",
	} {
		e, err := ParseURL(raw)
		if assert.Error(t, err, raw) {
			assert.Contains(t, err.Error(), text, raw)
			assert.True(t, strings.HasPrefix(err.Error(), "conn: URL: "), raw)
		}
		assert.True(t, e == Endpoint{}, raw)
	}
}

// A part that is missing, as where a variable of the shell is not set, is an
// error: the node would be another one (R1).
func TestParseURLRefusesAnEmptyHostOrPort_R1(t *testing.T) {
	for raw, text := range map[string]string{
		"redis://": "the host is empty", "redis://:6379": "the host is empty", "rediss:///1": "the host is empty",
		"redis://u:hunter2@": "the host is empty", "valkey://u:hunter2@:6379/1": "the host is empty", "redis://[]:6379": "malformed",
		"redis://?db=1": "the host is empty", "valkeys://:": "the host is empty",
		"redis://a:": "the port is empty", "redis://a:/1": "the port is empty", "rediss://[::1]:": "the port is empty",
		"redis://u:hunter2@a:?db=1": "the port is empty", "redis://$HOST:6379": "character", "redis://a&b": "character",
		"redis://a\u00a0:6379": "character", "redis://\u200ba": "character",
	} {
		_, err := ParseURL(raw)
		if assert.ErrorContains(t, err, text, raw) {
			assert.NotContains(t, err.Error(), "hunter2", "R27")
		}
	}
	for _, network := range []string{"", "tcp", "tcp4", "tcp6"} {
		cfg := Config{Endpoint: Endpoint{Network: network, Addr: ":6379"}}
		assert.ErrorContains(t, cfg.Check(), "the host is empty", network)
	}
}

// Lists of hosts, and IPv6 addresses without brackets, would be one node with a
// strange name. The error has the right form (R1).
func TestParseURLRefusesListsAndBareIPv6_R1(t *testing.T) {
	for _, raw := range []string{
		"redis://a:7001,b:7002,c:7003", "redis://a,b,c", "redis://u:hunter2@a:7001,b:7002", "redis://a:7001;b:7002", "redis://a;b/1",
		"redis://a:7001,b", "redis://a,b:7002?db=1", "valkeys://[::1]:1,[::2]:2", "redis://u:h,unter2@a,b", "redis://a,",
		"redis://a:7001/1,b:7002/1", "redis://u:hunter2@a/1;b/1?db=1", "redis://a/,b/",
	} {
		_, err := ParseURL(raw)
		if assert.ErrorIs(t, err, errURLHosts, raw) {
			assert.ErrorContains(t, err, "redis://a:6379 and redis://b:6379")
		}
	}
	for _, raw := range []string{
		"redis://a,redis://b", "redis://u:hunter2@a:1,redis://u:hunter2@b:1", "redis://a:1;redis://b:1", "redis://a:1 redis://b:1",
		"redis://u:hunter2@a redis://u:hunter2@b", "redis://a/1,redis://b/1", "redis://a\tredis://b", "redis://a?db=1,redis://b",
		"unix:///a,unix:///b", "unix:///a;unix:///b", "unix:/a,unix:/b", "unix://:hunter2@/a,unix://:hunter2@/b", "unix:///a?db=1,unix:///b",
	} {
		_, err := ParseURL(raw)
		assert.ErrorIs(t, err, errURLSeveral, raw)
	}
	for _, raw := range []string{
		"redis://2001:db8::5", "redis://::1", "redis://2001:db8::5:6379", "rediss://fd00::ab/1", "redis://u:hunter2@::1:6379", "redis://a:1:2",
	} {
		_, err := ParseURL(raw)
		if assert.ErrorIs(t, err, errURLIPv6, raw) {
			assert.ErrorContains(t, err, "[2001:db8::5]:6379")
			assert.NotContains(t, err.Error(), "hunter2", "R27")
		}
	}
}

// A name of a megabyte would be in each handshake and in each answer to CLIENT
// INFO, which the limits of a reply would then refuse (R26).
func TestClientNamesAreBounded_R26(t *testing.T) {
	cfg := Config{Endpoint: Endpoint{Addr: "a:1", ClientName: strings.Repeat("n", 256)}}
	assert.NoError(t, cfg.Check())
	for _, size := range []int{257, 1 << 20} {
		cfg.ClientName = strings.Repeat("n", size)
		err := cfg.Check()
		if assert.ErrorContains(t, err, "more than 256") {
			assert.Less(t, len(err.Error()), 100)
		}
		_, err = ParseURL("redis://a?client_name=" + cfg.ClientName)
		assert.ErrorContains(t, err, "more than 256")
	}
}

// What the URL says outranks another endpoint's configuration of TLS, and what
// it does not say is taken from there. Neither is changed.
func TestTheURLOutranksTheOtherTLS_R27(t *testing.T) {
	certs, others := newCertificates(t), newCertificates(t)
	dir := t.TempDir()
	for name, pem := range map[string][]byte{"ca": certs.CA, "cert": certs.Cert, "key": certs.Key} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem, 0o600))
	}
	asked := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &others.Pair, nil }
	base := &tls.Config{
		ServerName: "base", InsecureSkipVerify: true, RootCAs: others.Pool, Certificates: []tls.Certificate{others.Pair},
		GetClientCertificate: asked, NextProtos: []string{"x"}, MinVersion: tls.VersionTLS13,
	}
	for query, check := range map[string]func(got *tls.Config){
		"": func(got *tls.Config) {
			require.True(t, got.InsecureSkipVerify)
			require.Equal(t, "base", got.ServerName)
		},
		"tls_skip_verify=true":  func(got *tls.Config) { require.True(t, got.InsecureSkipVerify) },
		"tls_skip_verify=false": func(got *tls.Config) { require.False(t, got.InsecureSkipVerify) },
		"tls_server_name=own":   func(got *tls.Config) { require.Equal(t, "own", got.ServerName) },
		"tls_ca_file=" + dir + "/ca": func(got *tls.Config) {
			require.True(t, got.RootCAs.Equal(certs.Pool))
			require.NotNil(t, got.GetClientCertificate)
			require.True(t, got.InsecureSkipVerify)
		},
		"tls_cert_file=" + dir + "/cert&tls_key_file=" + dir + "/key": func(got *tls.Config) {
			require.Equal(t, certs.Pair.Certificate, got.Certificates[0].Certificate)
			require.Nil(t, got.GetClientCertificate, "crypto/tls would ask it, and not take the URL's")
			require.True(t, got.RootCAs.Equal(others.Pool))
		},
	} {
		e, err := ParseURL("rediss://a?" + query)
		require.NoError(t, err)
		got := e.Or(Endpoint{TLS: base}).TLS
		check(got)
		require.Equal(t, []string{"x"}, got.NextProtos)
		require.EqualValues(t, tls.VersionTLS13, got.MinVersion)
		require.NotSame(t, base, got)
		require.Equal(t, "base", base.ServerName)
		require.True(t, base.InsecureSkipVerify && base.RootCAs.Equal(others.Pool) && base.GetClientCertificate != nil)
	}
	plain, err := ParseURL("redis://a")
	require.NoError(t, err)
	require.Nil(t, plain.Or(Endpoint{TLS: base}).TLS)
	for _, query := range []string{
		"tls_cert_file=" + dir + "/cert", "tls_key_file=" + dir + "/key", "tls_cert_file=&tls_key_file=", "tls_ca_file=" + dir + "/absent",
		"tls_cert_file=" + dir + "/ca&tls_key_file=" + dir + "/key", // a key that does not match
		"tls_ca_file=" + dir + "/key",                               // not a certificate
	} {
		_, err := ParseURL("rediss://a?" + query)
		require.Error(t, err, query)
	}
}

// An @ in the path of a unix socket is part of the path, unless it may be the
// end of a password (R27).
func TestParseURLUnixPathWithAt(t *testing.T) {
	for raw, path := range map[string]string{
		"unix:///run/a@b": "/run/a@b", "unix:///run/a%40b": "/run/a@b", "unix://u:p@/run/a%40b": "/run/a@b",
	} {
		e, err := ParseURL(raw)
		require.NoError(t, err, raw)
		assert.Equal(t, path, e.Addr, raw)
	}
	_, err := ParseURL("unix://u:@/hunter2@/s")
	assert.ErrorIs(t, err, errURLSyntax)
}

func ExampleParseURL() {
	e, err := ParseURL("rediss://worker:hunter2@db.example:7000/2?dial_timeout=1s")
	fmt.Println(e, e.Username, e.DB, e.DialTimeout, err)
	_, err = ParseURL("redis://db.example?timeout=1s")
	fmt.Println(err)
	// Output:
	// db.example:7000 worker 2 1s <nil>
	// conn: URL: unknown parameter "timeout"
}

// An address that leads to this machine means another server elsewhere.
func TestLocal(t *testing.T) {
	for raw, want := range map[string]bool{
		"redis://127.0.0.1:1": true, "redis://127.9.9.9:1": true, "redis://[::1]:1": true, "redis://LocalHost": true,
		"unix:///tmp/x": true, "redis://0.0.0.0:1": true,
		"redis://10.0.0.1": false, "redis://a.example:1": false, "redis://[fe80::1]:1": false,
	} {
		e, err := ParseURL(raw)
		require.NoError(t, err)
		require.Equal(t, want, e.Local(), raw)
	}
}

// The path of a socket is dialed as it is, and shown so that no two look the
// same.
func TestAddressOfASocketThatIsNotUTF8_R19(t *testing.T) {
	e, err := ParseURL("unix:///tmp/%ff")
	require.NoError(t, err)
	require.Equal(t, "/tmp/\xff", e.Addr)
	require.Equal(t, `unix:/tmp/\xff`, e.String())
	_, err = Dial(t.Context(), Config{Endpoint: e})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.True(t, utf8.ValidString(err.Error()), err)
}

// FuzzParseURL parses URLs whose password contains a secret, surrounded by text
// that should have been percent-encoded. Whichever part of the URL the secret
// ends up in, neither an error nor a printed endpoint shows it (R27).
func FuzzParseURL(f *testing.F) {
	for _, around := range []string{"", "/", "?", "#", "@", ":", "%", "%zz", "[", "]", " ", "\x00", "&", "=", "/1?db=", "@h/", "@h?client_name=", "\\", "@/"} {
		for _, scheme := range []string{"redis", "rediss", "unix", "http", ""} {
			f.Add(scheme, "user", around, "", "a:1/2?protocol=3")
			f.Add(scheme, "", "", around, "/run/redis.sock?db=1")
		}
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, behind, rest string) {
		for _, secret := range []string{"hunter", "48151"} {
			for _, part := range []string{scheme, user, before, behind, rest} {
				if strings.Contains(part, secret) {
					return // it may be shown
				}
			}
			raw := scheme + "://" + user + ":" + before + secret + behind + "@" + rest
			e, err := ParseURL(raw)
			if err != nil {
				assert.NotContains(t, err.Error(), secret, "%q", raw)
				var quoting *url.Error // of net/url: it quotes the whole URL
				assert.False(t, errors.As(err, &quoting), "%q", raw)
				assert.True(t, e == Endpoint{}, "%q", raw)
				continue
			}
			checkHides(t, e, secret, raw)
			if !strings.Contains(raw, "%") { // otherwise another part may have been encoded
				assert.Contains(t, e.Username+e.Password, secret, "%q: the secret went elsewhere", raw)
			}
		}
	})
}

func checkHides(t *testing.T, e Endpoint, secret, raw string) {
	shown := fmt.Sprintf("%v %+v %#v %s %q %d", e, &e, e, e, e, e)
	_, err := json.Marshal(e)
	require.Error(t, err)
	assert.NotContains(t, shown+err.Error()+e.LogValue().String(), secret, "%q", raw)
	assert.Contains(t, []string{"tcp", "unix"}, e.Network)
	assert.True(t, (e.Addr == "") == (e.Seeds != nil))
	cfg := Config{Endpoint: e}
	assert.NoError(t, cfg.Check(), "%q: what is accepted can be dialed", raw)
}
