package conn

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn/internal/locate"
	"github.com/redmux/redmux/internal/errtext"
)

// Endpoint is the address of a node and the credentials for it. Every way to
// print it leaves out the user and the password (R27).
type Endpoint struct {
	// Network is "tcp", "tcp4", "tcp6" or "unix". If zero, "tcp".
	Network string
	// Addr is host:port, or the path of a unix socket. It is empty with Seeds.
	Addr string
	// Seeds lead to the address of the node's present server. If nil, the
	// server is at Addr.
	Seeds *Seeds
	// TLS is the configuration of TLS; versions below 1.2 are refused. If it
	// has no ServerName, the host of Addr is verified. Each Dial calls its
	// GetClientCertificate, VerifyPeerCertificate and VerifyConnection. If
	// zero, plaintext.
	TLS *tls.Config
	// TLSFiles are read by each Dial with TLS, and outrank TLS. So
	// certificates can be replaced in a running program. If zero, TLS alone
	// counts.
	TLSFiles TLSFiles
	// Username is the ACL user. If zero, the default user.
	Username string
	// Password is sent with HELLO or AUTH. If Username is zero too, there is no
	// authentication.
	Password string
	// DB is the database to select. If zero, no SELECT is sent.
	DB int
	// ClientName is shown by CLIENT LIST: at most 256 bytes of printable ASCII
	// without blanks. If zero, none is set.
	ClientName string
	// Protocol is the version of RESP, 2 or 3. If zero, 3, or 2 for a node
	// without HELLO.
	Protocol int
	// DialTimeout bounds dialing and the handshake together. If zero,
	// DefaultDialTimeout.
	DialTimeout time.Duration
	// KeepAlive is TCP's idle time and interval between probes. If zero, 15 s;
	// if negative, no probes are sent.
	KeepAlive time.Duration
	// TCPUserTimeout is how long written bytes may stay unacknowledged (Linux
	// only). If zero, 15 s; if negative, the system's default.
	TCPUserTimeout time.Duration
	// Failover is set for a node behind which the server may change. If zero,
	// a lone master.
	Failover Failover

	// verifies is set by tls_skip_verify=false in the URL. That outranks
	// another endpoint's InsecureSkipVerify.
	verifies bool
}

// TLSFiles names files in PEM form. Cert and Key need each other.
type TLSFiles struct {
	// CA holds the authorities of the node's certificate. If zero, those of
	// Endpoint.TLS.
	CA string
	// Cert and Key are this client's certificate. If zero, those of
	// Endpoint.TLS.
	Cert, Key string
}

// ParseURL reads an endpoint from a URL:
//
//	redis://[user[:password]@]host[:port][/db][?param=value&…]
//	rediss://…   (with TLS)
//	unix://[user[:password]@]/path/of/socket[?param=value&…]
//	redis+sentinel://[user[:password]@]host[:port],…/master[/db][?param=value&…]
//	redis+cluster://[user[:password]@]host[:port],…[?param=value&…]
//
// valkey and valkeys mean the same as redis and rediss. The host must be named:
// an empty one is more often an unset variable than this machine. A path of a
// slash alone names no database, so it is 0, as in many URLs that providers
// hand out. It may be an unset variable too; where the others of a deployment
// use another database, its seals refuse that client (R30).
//
// The parameters are db, client_name, protocol, dial_timeout, keepalive and
// tcp_user_timeout (the last two may be "off"), and with TLS tls_server_name,
// tls_skip_verify, tls_ca_file, tls_cert_file and tls_key_file. The files must
// be there, and are read again by each Dial. An unknown or repeated parameter
// is an error. Errors show no part of the URL that may belong to a password
// without percent-encoding.
//
// The server of a node may change with +sentinel, with +cluster, and with the
// parameter failover; see [Failover]. It is "auto", "unknown" or a duration,
// the bound.
//
// With +sentinel the hosts are sentinels, and the path has the name by which
// they know the master. User, password and parameters are those of servers.
// sentinel_username and sentinel_password are for sentinels. TLS is for both,
// and so are its parameters other than tls_server_name. sentinel_tls, with true
// or false, and sentinel_tls_server_name, sentinel_tls_ca_file and so on are
// for sentinels alone. With +cluster the hosts are servers of the cluster.
func ParseURL(raw string) (Endpoint, error) {
	e, err := parseURL(raw)
	if err != nil {
		return Endpoint{}, fmt.Errorf("conn: URL: %w", err)
	}
	return e, nil
}

// Or returns the endpoint with what it lacks of the credentials, the client
// name, the dial timeout and the configuration of TLS taken from another. An
// endpoint with a password takes no user name: it would be that of another
// password. An endpoint without TLS stays without.
func (e Endpoint) Or(other Endpoint) Endpoint {
	if e.Password == "" {
		e.Password = other.Password
		e.Username = cmp.Or(e.Username, other.Username)
	}
	e.ClientName = cmp.Or(e.ClientName, other.ClientName)
	e.DialTimeout = cmp.Or(e.DialTimeout, other.DialTimeout)
	e.TLS = completed(e.TLS, e.verifies, other.TLS)
	e.Seeds = e.Seeds.completed(other.TLS)
	return e
}

// completed returns a copy of another configuration of TLS with what ours has
// in its place, or ours if either is nil.
func completed(ours *tls.Config, verifies bool, other *tls.Config) *tls.Config {
	if ours == nil || other == nil {
		return ours
	}
	config := other.Clone()
	config.ServerName = cmp.Or(ours.ServerName, config.ServerName)
	config.InsecureSkipVerify = ours.InsecureSkipVerify || config.InsecureSkipVerify && !verifies
	if ours.RootCAs != nil {
		config.RootCAs = ours.RootCAs
	}
	if ours.Certificates != nil {
		presents(config, ours.Certificates)
	}
	return config
}

// presents sets the certificates of this side. A GetClientCertificate would
// outrank them.
func presents(config *tls.Config, certificates []tls.Certificate) {
	config.Certificates, config.GetClientCertificate = certificates, nil
}

// String returns the address, as it stands in errors and JSON: what is not
// UTF-8 in the path of a socket is shown as \xNN. With Seeds it is what
// Seeds.String returns.
func (e Endpoint) String() string {
	if e.Seeds != nil {
		return e.Seeds.String()
	}
	addr := errtext.Name(e.Addr)
	if e.Network == "unix" {
		return "unix:" + addr
	}
	return addr
}

// Local reports whether the address leads to this machine, whichever it is: a
// unix socket, localhost, or a loopback address. Another name may lead
// anywhere.
func (e Endpoint) Local() bool {
	if e.Seeds != nil {
		elsewhere := func(addr string) bool { return !Endpoint{Addr: addr}.Local() }
		return !slices.ContainsFunc(e.Seeds.Addrs, elsewhere)
	}
	host, _, err := net.SplitHostPort(e.Addr)
	if e.Network == "unix" || err == nil && strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// Home is String, with the name of this machine if the address is Local: two
// clients with the same Home reach the same server.
func (e Endpoint) Home() string {
	if !e.Local() {
		return e.String()
	}
	host, _ := os.Hostname()
	return e.String() + "@" + host
}

// InCluster reports whether the Seeds are servers of a cluster.
func (e Endpoint) InCluster() bool { return e.Seeds != nil && e.Seeds.Master == "" }

// Format prints String for every verb. Without it %#v and %d would show the
// fields.
func (e Endpoint) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.String()) }

// LogValue makes package slog log String.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// MarshalText returns an error: an Endpoint holds credentials, so encode what
// is wanted of it on purpose.
func (e Endpoint) MarshalText() ([]byte, error) {
	return nil, errors.New("conn: an Endpoint is not marshalled, since it may hold a password")
}

const defaultPort = "6379"

var (
	errURLEmpty   = errors.New("it is empty; write redis://host:port")
	errURLNone    = errors.New("the scheme is missing; write redis://host:port, or rediss://host:port with TLS")
	errURLScheme  = errors.New("the scheme must be one of redis, rediss, valkey, valkeys, all of them also with +sentinel or +cluster, or unix")
	errURLSeveral = errors.New("it holds several URLs; each node needs one of its own")
	errURLHosts   = errors.New("it names several hosts; write one URL for each: redis://a:6379 and redis://b:6379")
	errURLHost    = errors.New("the host is empty, as with an unset variable; write redis://localhost:6379 for this machine")
	errURLIPv6    = errors.New("there is more than one colon in the address; write [ ] around an IPv6 address: redis://[2001:db8::5]:6379")
	errURLName    = errors.New("the host has a character that no name of a host has")
	errURLNoPort  = errors.New("the port is empty, as with an unset variable; write redis://host:6379, or no colon")
	errURLForm    = errors.New("malformed; write redis://user:password@host:port/database, or unix:///path")
	errURLSyntax  = errors.New("malformed; special characters in user and password must be percent-encoded")
	errURLEscape  = errors.New("invalid percent-encoding")
	errURLPort    = errors.New("the port is not between 1 and 65535")
)

// checkForm finds mistakes for which net/url has no error, or a misleading one.
// one is raw with one host. Its errors quote nothing.
func checkForm(raw, one string) error {
	blank := strings.IndexFunc(raw, func(c rune) bool { return c <= ' ' || c == 0x7f })
	switch scheme, _, found := strings.Cut(raw, "://"); {
	case raw == "":
		return errURLEmpty
	case blank == 0:
		return errors.New("it begins with a blank or a control character")
	case blank == len(raw)-1:
		return errors.New("it ends with a blank or a control character")
	case !found && !strings.HasPrefix(raw, "unix:/") || found && scheme == "":
		return errURLNone
	case blank > 0 && strings.Contains(raw[blank:], "://"):
		return errURLSeveral
	case blank > 0 && strings.Contains(raw[blank:], "@"):
		return errors.New("a blank or control character before the @; in user and password a blank is %20")
	case blank > 0:
		return errors.New("there is a blank or a control character in it")
	case strings.ContainsAny(raw, ",;") && strings.Contains(strings.TrimPrefix(raw, "unix:/"), "unix:/"):
		return errURLSeveral
	case scheme != "unix" && found:
		return checkHost(one[len(scheme)+len("://"):])
	}
	return nil
}

// checkHost finds lists of hosts, and addresses of IPv6 without brackets. rest
// is the URL behind its scheme.
func checkHost(rest string) error {
	end := strings.IndexAny(rest+"/", "/?#")
	host, rest := rest[strings.LastIndexByte(rest[:end], '@')+1:end], rest[end:]
	path, _, _ := strings.Cut(rest, "?")
	list := strings.ContainsAny(host+path, ",;")
	switch {
	case list && strings.HasPrefix(rest, "//"):
		return errURLSeveral
	case strings.Contains(rest, "@"):
		return nil // host is part of a password with a bare /, ? or #
	case strings.ContainsAny(host+rest, ",;") && strings.Contains(rest, "://"):
		return errURLSeveral
	case list:
		return errURLHosts
	case strings.Count(host, ":") > 1 && !strings.Contains(host, "["):
		return errURLIPv6
	}
	return nil
}

func parseURL(raw string) (e Endpoint, err error) {
	one, seeds := cutSeeds(raw)
	if err := checkForm(raw, one); err != nil {
		return e, err
	}
	u, err := url.Parse(one)
	if err != nil {
		return e, anonymous(err, raw)
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	case "unix":
	default:
		return e, errURLScheme
	}
	switch {
	case seeds != nil && scheme != "unix":
		err = parseSeeds(&e, u, kind, seeds)
	case strings.Contains(u.Scheme, "+"):
		err = errURLScheme
	case scheme == "unix":
		err = parseUnix(&e, u)
	default:
		err = parseTCP(&e, u)
	}
	if err != nil {
		return e, err
	}
	if u.User != nil {
		e.Username = u.User.Username()
		e.Password, _ = u.User.Password()
	}
	return e, parseParams(&e, u)
}

// anonymous replaces an error of net/url. Those quote the whole URL, with the
// password, and often the wrong part of it again. A URL without an @ has no
// password.
func anonymous(err error, raw string) error {
	var escape url.EscapeError
	switch {
	case errors.As(err, &escape):
		return errURLEscape
	case strings.Contains(raw, "@"):
		return errURLSyntax
	case strings.Contains(err.Error(), "invalid port"):
		return errURLPort
	}
	return errURLForm
}

func parseTCP(e *Endpoint, u *url.URL) (err error) {
	if misplaced(u) {
		return errURLSyntax
	}
	e.Network = "tcp"
	if e.Addr, err = parseHost(u, defaultPort); err != nil {
		return err
	}
	return parseDB(e, u, strings.TrimPrefix(u.Path, "/"))
}

// misplaced reports whether there is an @ after the authority. It ends a
// password with a bare /, ? or #. Going on would take a part of it for the
// host, the database or a parameter, and show it.
func misplaced(u *url.URL) bool {
	return u.Opaque != "" || strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@")
}

// parseHost returns host:port.
func parseHost(u *url.URL, defaultPort string) (addr string, err error) {
	host, port := u.Hostname(), u.Port()
	switch {
	case host == "":
		return "", errURLHost
	case strings.IndexFunc(host, locate.NeverInHost) >= 0:
		return "", errURLName
	case strings.HasSuffix(u.Host, ":"):
		return "", errURLNoPort
	case port == "":
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errURLPort
	}
	return net.JoinHostPort(host, port), nil
}

// parseDB reads the database from the path.
func parseDB(e *Endpoint, u *url.URL, db string) error {
	if db == "" {
		return nil
	}
	if u.Query().Has("db") {
		return errors.New("the database is named twice, by the path and by the parameter db")
	}
	if err := setDB(e, db); err != nil {
		return fmt.Errorf("the path: %w", err)
	}
	return nil
}

func parseUnix(e *Endpoint, u *url.URL) error {
	switch {
	case u.Opaque != "" || strings.Contains(u.Host+u.RawQuery+u.EscapedFragment(), "@"), u.Host != "" && u.User != nil:
		return errURLSyntax
	case u.Host != "":
		return errURLForm
	}
	// As in parseTCP, an @ behind a user may end a password that contains what
	// looks like the path. A path can have %40 in place of an @.
	if u.User != nil && strings.Contains(u.EscapedPath(), "@") {
		return errURLSyntax
	}
	if len(u.Path) < 2 {
		return errors.New("the path of the unix socket is missing")
	}
	if strings.Contains(u.Path, "\x00") { // the system would take it for the end
		return errors.New("the path of the unix socket has a zero byte")
	}
	e.Network, e.Addr = "unix", u.Path
	return nil
}

// params are the parameters of a URL. Those that begin with tls_ need a scheme
// with TLS.
var params = map[string]func(e *Endpoint, value string) error{
	"db":               setDB,
	"client_name":      setClientName,
	"protocol":         setProtocol,
	"dial_timeout":     func(e *Endpoint, value string) error { return setDuration(&e.DialTimeout, value) },
	"keepalive":        func(e *Endpoint, value string) error { return setDurationOrOff(&e.KeepAlive, value) },
	"tcp_user_timeout": func(e *Endpoint, value string) error { return setDurationOrOff(&e.TCPUserTimeout, value) },
	"failover":         setFailover,
	"tls_server_name":  setServerName,
	"tls_skip_verify":  setSkipVerify,
	"tls_ca_file":      func(e *Endpoint, value string) error { return setFile(&e.TLSFiles.CA, value) },
	"tls_cert_file":    func(e *Endpoint, value string) error { return setFile(&e.TLSFiles.Cert, value) },
	"tls_key_file":     func(e *Endpoint, value string) error { return setFile(&e.TLSFiles.Key, value) },
}

func parseParams(e *Endpoint, u *url.URL) error {
	if u.Fragment != "" {
		return errURLForm
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return anonymous(err, u.RawQuery)
	}
	veiled := query.Has(sentinelPassword)
	if veiled && strings.Contains(u.RawQuery, "+") {
		return errURLBlank
	}
	ofSeeds := takeSeeds(e, query)
	for name, values := range query {
		if err := setParam(e, name, values, veiled); err != nil {
			return err
		}
	}
	if err := e.TLSFiles.read(e.TLS); err != nil || e.Seeds == nil {
		return err
	}
	return e.Seeds.parseParams(e, ofSeeds)
}

// setParam sets what a parameter says. If veiled, an unknown name may be a part
// of a password.
func setParam(e *Endpoint, name string, values []string, veiled bool) error {
	set, known := params[name]
	switch {
	case !known && veiled:
		return errURLVeiled
	case !known:
		return fmt.Errorf("unknown parameter %.40q", name)
	case len(values) > 1:
		return fmt.Errorf("parameter %s is repeated", name)
	case e.TLS == nil && strings.HasPrefix(name, "tls_"):
		return fmt.Errorf("parameter %s needs a scheme with TLS", name)
	}
	if err := set(e, values[0]); err != nil {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	return nil
}

func setDB(e *Endpoint, value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return errors.New("not the number of a database")
	}
	e.DB = int(n)
	return nil
}

func setClientName(e *Endpoint, value string) error {
	e.ClientName = value
	return cmp.Or(notEmpty(value), checkClientName(value))
}

// longestName bounds a client name, which is in each handshake and in each
// answer to CLIENT LIST.
const longestName = 256

// checkClientName applies the servers' own rule, and a bound. Otherwise the
// node would refuse HELLO, which holds the name, without saying why.
func checkClientName(name string) error {
	if len(name) > longestName {
		return fmt.Errorf("the client name has %d bytes, more than %d", len(name), longestName)
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return fmt.Errorf("the client name %.40q has a character other than printable ASCII, or a blank", name)
		}
	}
	return nil
}

func setProtocol(e *Endpoint, value string) error {
	switch value {
	case "2":
		e.Protocol = 2
	case "3":
		e.Protocol = 3
	default:
		return errors.New("neither 2 nor 3")
	}
	return nil
}

func setDuration(d *time.Duration, value string) error {
	n, err := time.ParseDuration(value)
	if err != nil || n <= 0 {
		return errors.New(`not a positive duration such as "5s"`)
	}
	*d = n
	return nil
}

func setDurationOrOff(d *time.Duration, value string) error {
	if value == "off" {
		*d = -1
		return nil
	}
	return setDuration(d, value)
}

func setServerName(e *Endpoint, value string) error {
	e.TLS.ServerName = value
	return notEmpty(value)
}

func notEmpty(value string) error {
	if value == "" {
		return errors.New("empty")
	}
	return nil
}

func setSkipVerify(e *Endpoint, value string) error {
	skip, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("neither true nor false")
	}
	e.TLS.InsecureSkipVerify, e.verifies = skip, !skip
	return nil
}

func setFile(file *string, path string) error {
	*file = path
	return notEmpty(path)
}

// read puts the files' contents into a configuration of TLS. That may be nil
// without files.
func (f TLSFiles) read(config *tls.Config) error {
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("tls_ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return errors.New("tls_ca_file: no certificate in the file")
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
		return nil
	case f.Cert == "" || f.Key == "":
		return errors.New("tls_cert_file and tls_key_file need each other")
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("tls_cert_file, tls_key_file: %w", err)
	}
	presents(config, []tls.Certificate{pair})
	return nil
}
