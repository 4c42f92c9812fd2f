package conn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
	assert.NotEmpty(t, e.Addr)
	assert.GreaterOrEqual(t, e.DB, 0)
}

// FuzzParseURLPlain parses arbitrary text: there is no panic, and what is
// accepted is a configuration that Dial accepts too.
func FuzzParseURLPlain(f *testing.F) {
	for _, raw := range []string{
		"redis://a", "rediss://u:p@[::1]:1/2?tls_server_name=x&keepalive=off", "unix:///s?db=3", "valkey://?dial_timeout=1s", "redis://a:b",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.Contains(raw, "file") {
			return // parsing would open the named file
		}
		e, err := ParseURL(raw)
		if err != nil {
			assert.True(t, strings.HasPrefix(err.Error(), "conn: URL: "))
			return
		}
		cfg := Config{Endpoint: e}
		assert.NoError(t, cfg.Check())
		if e.TLS != nil {
			assert.False(t, e.TLS.InsecureSkipVerify && !strings.Contains(raw, "skip"), "R27: verifies by default")
			e.TLS = nil // a pointer
		}
		again, err := ParseURL(raw)
		assert.NoError(t, err)
		again.TLS = nil
		assert.Equal(t, fields(e), fields(again))
	})
}
