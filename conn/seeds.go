package conn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redmux/redmux/conn/internal/locate"
)

// Seeds are the addresses at which Dial asks where a node's server is: those of
// sentinels, or of some servers of a cluster. All clients should name the same.
// The server that they name gets the endpoint's credentials, so seeds that lie
// may learn them; with TLS, only a server with the right certificate does.
// Every way to print Seeds leaves out the user and the password (R27).
type Seeds struct {
	// Addrs are 1 to 16 times host:port.
	Addrs []string
	// Master is the name by which the sentinels know the server. If zero, the
	// seeds are servers of a cluster, with the endpoint's TLS and credentials,
	// and the server is the master with the slot Config.Slot.
	Master string

	// TLS, TLSFiles, Username and Password are for sentinels, and mean what
	// those of Endpoint do. If zero, sentinels are asked in plaintext, and
	// without authentication.
	TLS                *tls.Config
	TLSFiles           TLSFiles
	Username, Password string

	verifies bool // as in Endpoint
}

// mostSeeds bounds Seeds.Addrs. All of them are asked at once.
const mostSeeds = 16

// String returns the addresses and the name, such as "sentinel:a:26379/name" or
// "cluster:a:6379,b:6379". It is the name of the node in its deployment, so the
// addresses are sorted.
func (s Seeds) String() string {
	all := strings.Join(slices.Sorted(slices.Values(s.Addrs)), ",")
	if s.Master == "" {
		return kindCluster + ":" + all
	}
	return kindSentinel + ":" + all + "/" + s.Master
}

// Format prints String for every verb.
func (s Seeds) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue makes package slog log String.
func (s Seeds) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns an error, as that of Endpoint does.
func (s Seeds) MarshalText() ([]byte, error) {
	return nil, errors.New("conn: Seeds are not marshalled, since they may hold a password")
}

// completed returns a copy of the seeds with what their TLS lacks taken from
// another configuration, or nil.
func (s *Seeds) completed(other *tls.Config) *Seeds {
	if s == nil {
		return nil
	}
	all := *s
	all.TLS = completed(s.TLS, s.verifies, other)
	return &all
}

// Seed returns the endpoint of a seed, for questions to itself: with the TLS
// and the credentials of the sentinels, or of the cluster's servers. It panics
// without Seeds.
func (e Endpoint) Seed(addr string) Endpoint {
	must(e.Seeds != nil, "an endpoint without Seeds has no seed")
	seed := Endpoint{
		Network: e.Network, Addr: addr, ClientName: e.ClientName,
		DialTimeout: e.DialTimeout, KeepAlive: e.KeepAlive, TCPUserTimeout: e.TCPUserTimeout,
	}
	if e.InCluster() {
		seed.TLS, seed.TLSFiles, seed.Username, seed.Password, seed.Protocol = e.TLS, e.TLSFiles, e.Username, e.Password, e.Protocol
		return seed
	}
	s := e.Seeds
	// RESP2 is what all sentinels speak, in one attempt.
	seed.TLS, seed.TLSFiles, seed.Username, seed.Password, seed.Protocol = s.TLS, s.TLSFiles, s.Username, s.Password, 2
	return seed
}

// check returns an error if the seeds of a configuration are invalid.
func (s *Seeds) check() error {
	switch {
	case len(s.Addrs) == 0 || len(s.Addrs) > mostSeeds:
		return fmt.Errorf("1 to %d seeds are needed, not %d", mostSeeds, len(s.Addrs))
	case s.Master != "" && !locate.IsName(s.Master):
		return errURLMaster
	case s.TLS == nil && s.TLSFiles != TLSFiles{}:
		return errors.New("the seeds have TLSFiles without TLS")
	}
	for i, addr := range s.Addrs {
		if slices.ContainsFunc(s.Addrs[:i], func(other string) bool { return strings.EqualFold(other, addr) }) {
			return errors.New("a host is named twice") // it would have two votes
		}
		host, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = locate.Address(host, port)
		}
		if err != nil {
			return errors.New("the address of a seed is not host:port")
		}
	}
	return Credentials{Username: s.Username, Password: s.Password}.check()
}

var (
	errURLMaster  = errors.New("the name of the master has other characters than letters, digits, dots, hyphens and underscores, or too many")
	errURLUnnamed = errors.New("the name of the master is missing; write redis+sentinel://a:26379,b:26379,c:26379/name")
	errURLBlank   = errors.New("a + in the parameters is a blank: write %2B, or %20")
	errURLVeiled  = errors.New("a parameter is unknown, or sentinel_password has a special character that is not percent-encoded")
)

const (
	kindSentinel        = "sentinel"
	kindCluster         = "cluster"
	defaultSentinelPort = "26379"
)

// cutSeeds returns a URL with the first of its hosts alone, and all of its
// hosts, if its scheme says that they are seeds. net/url reads no lists.
func cutSeeds(raw string) (one string, seeds []string) {
	scheme, rest, found := strings.Cut(raw, "://")
	_, kind, _ := strings.Cut(strings.ToLower(scheme), "+")
	if !found || kind != kindSentinel && kind != kindCluster {
		return raw, nil
	}
	end := strings.IndexAny(rest+"/", "/?#")
	at := strings.LastIndexByte(rest[:end], '@') + 1
	seeds = strings.Split(rest[at:end], ",")
	return scheme + "://" + rest[:at] + seeds[0] + rest[end:], seeds
}

// parseSeeds reads the hosts and the path of a URL with seeds.
func parseSeeds(e *Endpoint, u *url.URL, kind string, hosts []string) error {
	switch {
	case misplaced(u):
		return errURLSyntax
	case strings.HasPrefix(u.Path, "//"):
		return errURLSeveral
	}
	port := defaultPort
	if kind == kindSentinel {
		port = defaultSentinelPort
	}
	e.Network, e.Failover.Expected, e.Seeds = "tcp", true, &Seeds{}
	for _, host := range hosts {
		addr, err := parseSeed(host, port)
		if err != nil {
			return err
		}
		e.Seeds.Addrs = append(e.Seeds.Addrs, addr)
	}
	name, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if kind == kindCluster {
		if name != "" || db != "" || u.Query().Has("db") {
			return errors.New("a cluster has no databases: leave the path and the parameter db out")
		}
		return e.Seeds.check()
	}
	if name == "" {
		return errURLUnnamed
	}
	if e.Seeds.Master = name; !locate.IsName(name) {
		return errURLMaster
	}
	if err := parseDB(e, u, db); err != nil {
		return err
	}
	return e.Seeds.check()
}

// parseSeed returns the address of one of several hosts.
func parseSeed(host, port string) (string, error) {
	if strings.Count(host, ":") > 1 && !strings.Contains(host, "[") {
		return "", errURLIPv6
	}
	u, err := url.Parse("redis://" + host)
	if err != nil {
		return "", anonymous(err, host)
	}
	return parseHost(u, port)
}

const (
	ofSentinels      = "sentinel_"
	sentinelPassword = ofSentinels + "password"
)

// takeSeeds takes the parameters for sentinels out of the query. It returns nil
// without any.
func takeSeeds(e *Endpoint, query url.Values) url.Values {
	var all url.Values
	for name, values := range query {
		rest, ok := strings.CutPrefix(name, ofSentinels)
		if !ok || e.Seeds == nil || e.Seeds.Master == "" {
			continue
		}
		if all == nil {
			all = url.Values{}
		}
		all[rest] = values
		delete(query, name)
	}
	return all
}

// parseParams reads the parameters for sentinels, without their prefix. What
// they leave out of TLS is that of the endpoint, but for the name.
func (s *Seeds) parseParams(e *Endpoint, query url.Values) error {
	if s.Master == "" {
		return nil // they are servers
	}
	as := Endpoint{}
	secure := e.TLS != nil
	if values, ok := query["tls"]; ok {
		var err error
		if secure, err = strconv.ParseBool(values[0]); err != nil {
			return errors.New("parameter sentinel_tls: neither true nor false")
		}
	}
	if secure {
		as.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if e.TLS != nil {
			as.TLS.InsecureSkipVerify, as.verifies, as.TLSFiles = e.TLS.InsecureSkipVerify, e.verifies, e.TLSFiles
		}
	}
	for name, values := range query {
		if err := setOfSentinels(&as, name, values); err != nil {
			return err
		}
	}
	s.TLS, s.TLSFiles, s.verifies, s.Username, s.Password = as.TLS, as.TLSFiles, as.verifies, as.Username, as.Password
	return as.TLSFiles.read(as.TLS)
}

// setOfSentinels sets what a parameter for sentinels says, on an endpoint that
// stands for them.
func setOfSentinels(as *Endpoint, name string, values []string) error {
	switch {
	case len(values) > 1:
		return errors.New("a parameter for sentinels is repeated")
	case name == "tls":
		return nil
	case strings.HasPrefix(name, "tls_"):
		if err := setParam(as, name, values, true); err != nil {
			return fmt.Errorf("of sentinels: %w", err)
		}
		return nil
	case name == "username":
		as.Username = values[0]
	case name == "password":
		as.Password = values[0]
	default:
		return errURLVeiled
	}
	if values[0] == "" {
		return fmt.Errorf("parameter %s%s: empty", ofSentinels, name)
	}
	return nil
}
