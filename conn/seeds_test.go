package conn

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseURLWithSeeds(t *testing.T) {
	auto, withTLS := Failover{Expected: true}, &tls.Config{MinVersion: tls.VersionTLS12}
	unverified := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	for raw, want := range map[string]Endpoint{
		"redis+sentinel://a/m": {Seeds: &Seeds{Addrs: []string{"a:26379"}, Master: "m"}},
		"REDIS+Sentinel://u:p,w@a:1,[::1],[fe80::1%25eth0]:7/my.master-1_x/3": {
			Username: "u", Password: "p,w", DB: 3,
			Seeds: &Seeds{Addrs: []string{"a:1", "[::1]:26379", "[fe80::1%eth0]:7"}, Master: "my.master-1_x"},
		},
		"valkey+sentinel://a/m?db=2&failover=12s&sentinel_username=su&sentinel_password=p%26%2B%40w": {
			DB: 2, Failover: Failover{Expected: true, Bound: 12 * time.Second},
			Seeds: &Seeds{Addrs: []string{"a:26379"}, Master: "m", Username: "su", Password: "p&+@w"},
		},
		"redis+sentinel://a/m?failover=unknown": {
			Failover: Failover{Expected: true, Bound: -1}, Seeds: &Seeds{Addrs: []string{"a:26379"}, Master: "m"},
		},
		"rediss+sentinel://a/m?tls_server_name=x&tls_skip_verify=true": {
			TLS:   &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "x", InsecureSkipVerify: true},
			Seeds: &Seeds{Addrs: []string{"a:26379"}, Master: "m", TLS: unverified},
		},
		"valkeys+sentinel://a/m?sentinel_tls=false": {
			TLS: withTLS, Seeds: &Seeds{Addrs: []string{"a:26379"}, Master: "m"},
		},
		"redis+sentinel://a/m?sentinel_tls=true&sentinel_tls_server_name=x": {
			Seeds: &Seeds{Addrs: []string{"a:26379"}, Master: "m", TLS: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "x"}},
		},
		"redis+cluster://a,b:7000":          {Seeds: &Seeds{Addrs: []string{"a:6379", "b:7000"}}},
		"valkey+cluster://:pw@a/":           {Password: "pw", Seeds: &Seeds{Addrs: []string{"a:6379"}}},
		"rediss+cluster://[::1]?protocol=2": {TLS: withTLS, Protocol: 2, Seeds: &Seeds{Addrs: []string{"[::1]:6379"}}},
	} {
		if want.Network = "tcp"; want.Failover == (Failover{}) {
			want.Failover = auto
		}
		got, err := ParseURL(raw)
		if assert.NoError(t, err, raw) {
			assert.True(t, assert.ObjectsAreEqual(want, got), "%s\nwant %s %v\ngot  %s %v", raw, fields(want), fieldsOf(want.Seeds), fields(got), fieldsOf(got.Seeds))
			assert.NoError(t, (&Config{Endpoint: got}).Check(), raw)
		}
	}
}

// fieldsOf returns the fields that Format hides.
func fieldsOf(s *Seeds) string {
	type bare Seeds
	return fmt.Sprintf("%+v", bare(*s))
}

func TestParseURLRefusesSeeds_R1_R27(t *testing.T) {
	many := "redis+cluster://h0"
	for i := range mostSeeds {
		many += fmt.Sprint(",h", i+1)
	}
	for raw, text := range map[string]string{
		"redis+sentinel://a":                                        "name of the master is missing",
		"redis+sentinel://a,b/":                                     "name of the master is missing",
		"redis+sentinel://a/m/x":                                    "path: not the number",
		"redis+sentinel://a/m/1/2":                                  "path: not the number",
		"redis+sentinel://a/m/1?db=1":                               "twice",
		"redis+sentinel://a/m%20n":                                  "name of the master has other",
		"redis+sentinel://a/m%0d%0aPING":                            "name of the master has other",
		"redis+sentinel:///m":                                       "the host is empty",
		"redis+sentinel://a,,b/m":                                   "the host is empty",
		"redis+sentinel://a,/m":                                     "the host is empty",
		"redis+sentinel://a,:26379/m":                               "the host is empty",
		"redis+sentinel://a,b:/m":                                   "the port is empty",
		"redis+sentinel://a,b:0/m":                                  "port",
		"redis+sentinel://a,b:x/m":                                  "port",
		"redis+sentinel://a,$HOST/m":                                "character",
		"redis+sentinel://a,2001:db8::5/m":                          "more than one colon",
		"redis+sentinel://a;b/m":                                    "several hosts",
		"redis+sentinel://a, b/m":                                   "blank",
		"redis+sentinel://a:1,b,a:1/m":                              "twice",
		"redis+sentinel://a/m,redis+sentinel://b/m":                 "several URLs",
		"redis+sentinel://a,redis+sentinel://b/m":                   "several URLs",
		"redis+sentinel://a/m?sentinel_db=1":                        "unknown",
		"redis+sentinel://a/m?sentinel_password=":                   "empty",
		"redis+sentinel://a/m?sentinel_username=":                   "empty",
		"redis+sentinel://a/m?sentinel_tls=perhaps":                 "sentinel_tls: neither",
		"redis+sentinel://a/m?sentinel_tls=true&sentinel_tls=false": "repeated",
		"redis+sentinel://a/m?sentinel_tls_server_name=x":           "needs a scheme with TLS",
		"rediss+sentinel://a/m?sentinel_tls_ca_file=/none":          "tls_ca_file",
		"redis+sentinel://a/m?tls_skip_verify=true":                 "needs a scheme with TLS",
		"redis+sentinel://a/m?sentinel_password=hunter2+x":          "blank",
		"redis+sentinel://a/m?sentinel_password=x&hunter2":          "unknown",
		"redis+sentinel://a/m?sentinel_password=x&hunter2=1":        "unknown",
		"redis+sentinel://a/m?sentinel_password=x#hunter2":          "malformed",
		"redis+sentinel://a/m?sentinel_password=x@hunter2":          "percent",
		"redis+sentinel://a/m?sentinel_hunter2=x":                   "unknown",
		"redis+sentinel://u:x/hunter2@a,b/m":                        "malformed",
		"redis+sentinel://u:x?hunter2@a,b/m":                        "malformed",
		"redis+sentinel://u:x,hunter2/@a,b/m":                       "malformed",
		"redis+sentinel://u:x@hunter2@a/m%zz":                       "percent",
		"redis://a?sentinel_password=x&hunter2":                     "unknown",
		"redis+cluster://a?sentinel_password=hunter2":               "unknown",
		"redis+cluster://a/1":                                       "no databases",
		"redis+cluster://a?db=1":                                    "no databases",
		"redis+cluster://a?db=0":                                    "no databases",
		"redis+cluster://":                                          "the host is empty",
		many:                                                        "1 to 16 seeds",
		"unix+sentinel://a/m":                                       "scheme",
		"redis+tower://a/m":                                         "scheme",
		"sentinel://a/m":                                            "scheme",
		"redis+://a":                                                "scheme",
	} {
		e, err := ParseURL(raw)
		if assert.Error(t, err, raw) {
			assert.Contains(t, err.Error(), text, raw)
			assert.NotContains(t, err.Error(), "hunter2", raw)
		}
		assert.True(t, e == Endpoint{}, raw)
	}
}

// The node has one name, whichever server is found, and no secret in it.
func TestSeedsAreNamedWithoutSecrets_R27(t *testing.T) {
	for raw, want := range map[string]string{
		"rediss+sentinel://u:hunter2@b:1,[::1]/m/2?sentinel_username=u&sentinel_password=hunter2": "sentinel:[::1]:26379,b:1/m",
		"redis+cluster://:hunter2@b:1,a": "cluster:a:6379,b:1",
	} {
		e, err := ParseURL(raw)
		require.NoError(t, err)
		require.Equal(t, want, e.String())
		checkHides(t, e, "hunter2", raw)
		require.Equal(t, want, fmt.Sprintf("%+v", e.Seeds))
	}
}

func TestSeedsAreLocalIfAllAre(t *testing.T) {
	for raw, want := range map[string]bool{
		"redis+cluster://localhost,[::1]": true, "redis+cluster://localhost,a": false, "redis+sentinel://a,127.0.0.1/m": false,
	} {
		e, err := ParseURL(raw)
		require.NoError(t, err)
		require.Equal(t, want, e.Local(), raw)
	}
}

func TestConfigRefusesSeeds(t *testing.T) {
	for text, e := range map[string]Endpoint{
		"1 to 16 seeds":   {Seeds: &Seeds{}},
		"both an address": {Addr: "a:1", Seeds: &Seeds{Addrs: []string{"a:1"}}},
		"name of the mas": {Seeds: &Seeds{Addrs: []string{"a:1"}, Master: "a b"}},
		"not host:port":   {Seeds: &Seeds{Addrs: []string{"a"}}},
		"named twice":     {Seeds: &Seeds{Addrs: []string{"a:1", "b:1", "A:1"}}},
		"without TLS":     {Seeds: &Seeds{Addrs: []string{"a:1"}, TLSFiles: TLSFiles{CA: "x"}}},
	} {
		require.ErrorContains(t, (&Config{Endpoint: e}).Check(), text)
	}
}

// What an endpoint lacks of TLS, its sentinels lack too.
func TestTLSOfSentinelsIsCompleted(t *testing.T) {
	certs := newCertificates(t)
	e, err := ParseURL("rediss+sentinel://a/m?tls_server_name=x")
	require.NoError(t, err)
	both := e.Or(Endpoint{TLS: certs.Client()})
	require.Same(t, certs.Pool, both.Seeds.TLS.RootCAs)
	require.Empty(t, both.Seeds.TLS.ServerName, "that is of servers")
	require.Nil(t, e.Seeds.TLS.RootCAs, "the original is as it was")
}

// FuzzParseSeeds parses URLs with a secret in the user's part or among the
// parameters, and text around it that should have been percent-encoded.
func FuzzParseSeeds(f *testing.F) {
	for _, around := range []string{"", "/", "?", "#", "@", ",", ":", "%", "%zz", "[", "]", " ", "+", ";", "\x00", "&", "=", "&db=", "&sentinel_tls="} {
		f.Add("sentinel", around, "", "a:1,[::1]/m?sentinel_password=x")
		f.Add("sentinel", "", around, "a:1,b/m/1?protocol=3&sentinel_password=")
		f.Add("cluster", around, around, "a,b?protocol=3&client_name=")
	}
	f.Fuzz(func(t *testing.T, kind, before, behind, rest string) {
		const secret = "48151"
		for _, part := range []string{kind, before, behind, rest} {
			if len(part) > 200 {
				return
			}
		}
		for _, raw := range []string{
			"redis+" + kind + "://u:" + before + secret + behind + "@" + rest,
			"redis+" + kind + "://" + rest + "&sentinel_password=" + before + secret + behind,
		} {
			e, err := ParseURL(raw)
			if err != nil {
				assert.NotContains(t, err.Error(), secret, "%q", raw)
				assert.True(t, e == Endpoint{}, "%q", raw)
				continue
			}
			if e.Seeds == nil || e.Password+e.Username+e.Seeds.Password+e.Seeds.Username == "" {
				continue
			}
			checkHides(t, e, secret, raw)
		}
	})
}
