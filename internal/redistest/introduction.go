package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/resp"
)

// What a node and a client tell each other of themselves: HELLO, AUTH, SELECT,
// CLIENT, INFO, ROLE.

// hello changes nothing unless all of it is right: a client whose password is
// refused goes on speaking the protocol it spoke.
func (c *call) hello() []byte {
	proto := c.s.proto
	args := c.args
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fail("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return fail("NOPROTO unsupported protocol version")
		}
		proto, args = n, args[1:]
	}
	authed, clientName := c.s.authed, c.s.name
	for len(args) > 0 {
		switch {
		case strings.EqualFold(args[0], "AUTH") && len(args) >= 3:
			if !c.node.admits(args[1], args[2]) {
				return wrongPassword()
			}
			authed, args = true, args[3:]
		case strings.EqualFold(args[0], "SETNAME") && len(args) >= 2:
			clientName, args = args[1], args[2:]
		default:
			return failf("ERR Syntax error in HELLO option '%s'", args[0])
		}
	}
	if !authed {
		return fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	c.s.proto, c.s.authed, c.s.name = proto, authed, clientName
	return c.greeting()
}

// greeting is HELLO's reply with the fields and the order of a real server.
func (c *call) greeting() []byte {
	cfg := c.node.config
	b := c.mapHeader(nil, 7)
	b = bulks(b, "server", cfg.Product, "version", cfg.Version, "proto")
	b = resp.AppendInteger(b, int64(c.s.proto))
	b = bulks(b, "id")
	b = resp.AppendInteger(b, int64(c.s.id))
	b = bulks(b, "mode", cfg.Mode, "role", hideSlave(c.node.role()), "modules")
	return resp.AppendArray(b, 0)
}

// role is the node's at the moment.
func (n *Node) role() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.following {
		return "slave"
	}
	return n.config.Role
}

// hideSlave: HELLO says replica where INFO and ROLE say slave.
func hideSlave(role string) string {
	if role == "slave" {
		return "replica"
	}
	return role
}

// SetPassword changes what the node asks for from now on. As on a real server,
// the clients that it has stay.
func (n *Node) SetPassword(user, password string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.user, n.password = user, password
}

// login returns the user and the password that clients must have.
func (n *Node) login() (user, password string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.user, n.password
}

// auth is AUTH password or AUTH user password.
func (c *call) auth() []byte {
	user, password := "default", c.args[0]
	if len(c.args) > 1 {
		user, password = c.args[0], c.args[1]
	}
	if _, asked := c.node.login(); asked == "" && len(c.args) == 1 {
		return fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	if !c.node.admits(user, password) {
		return wrongPassword()
	}
	c.s.authed = true
	return ok()
}

// admits reports whether the credentials are right. Without a configured
// password, every password is.
func (n *Node) admits(user, password string) bool {
	ours, asked := n.login()
	return user == ours && (asked == "" || password == asked)
}

// selectDB knows the usual sixteen databases.
func (c *call) selectDB() []byte {
	i, err := strconv.Atoi(c.args[0])
	if err != nil {
		return fail("ERR value is not an integer or out of range")
	}
	if i < 0 || i > 15 {
		return fail("ERR DB index is out of range")
	}
	c.s.db = i
	return ok()
}

// client is CLIENT and those of its subcommands that a lock's client may send.
func (c *call) client() []byte {
	switch sub := strings.ToUpper(c.args[0]); {
	case sub == "ID":
		return integer(c.s.id)
	case sub == "INFO":
		return c.verbatim(c.s.describe() + "\n")
	case sub == "LIST":
		return c.verbatim(c.node.clientList())
	case sub == "GETNAME":
		return resp.AppendBulkString(nil, c.s.name)
	case sub == "SETNAME" && len(c.args) == 2:
		c.s.name = c.args[1]
		return ok()
	case sub == "SETINFO" && len(c.args) == 3 && atLeast(c.node.config.Version, 7, 2):
		return ok()
	case sub == "TRACKING":
		return c.clientTracking()
	case sub == "CACHING" && len(c.args) == 2 && strings.EqualFold(c.args[1], "YES"):
		return c.clientCaching()
	case sub == "NO-EVICT" || sub == "NO-TOUCH":
		return ok()
	case sub == "KILL":
		return c.clientKill()
	}
	return unknownSubcommand("CLIENT", c.args[0])
}

// clientKill is CLIENT KILL addr, and CLIENT KILL with the filters ID, ADDR,
// LADDR, SKIPME, which are ANDed.
func (c *call) clientKill() []byte {
	args := c.args[1:]
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(args) == 1 {
		if c.killMatching(func(s *session) bool { return s.clientAddr() == args[0] }, false) == 0 {
			return fail("ERR No such client")
		}
		return ok()
	}
	if len(args) == 0 || len(args)%2 != 0 {
		return fail("ERR syntax error")
	}
	skipMe := true
	var filters []func(*session) bool
	for i := 0; i < len(args); i += 2 {
		value := args[i+1]
		switch strings.ToUpper(args[i]) {
		case "ID":
			id, err := strconv.Atoi(value)
			if err != nil || id <= 0 {
				return fail("ERR client-id should be greater than 0")
			}
			filters = append(filters, func(s *session) bool { return s.id == id })
		case "ADDR":
			filters = append(filters, func(s *session) bool { return s.clientAddr() == value })
		case "LADDR":
			filters = append(filters, func(s *session) bool { return s.serverAddr() == value })
		case "SKIPME":
			skipMe = strings.EqualFold(value, "yes")
		default:
			return fail("ERR syntax error")
		}
	}
	return integer(c.killMatching(func(s *session) bool {
		for _, f := range filters {
			if !f(s) {
				return false
			}
		}
		return true
	}, skipMe))
}

// killMatching needs the node's lock.
func (c *call) killMatching(match func(*session) bool, skipMe bool) int {
	killed := 0
	for _, s := range c.node.sessions {
		switch {
		case !match(s) || s == c.s && skipMe:
			continue
		case s == c.s:
			s.closing = true // the reply still goes out
		default:
			c.node.kill(s)
		}
		killed++
	}
	return killed
}

// clientAddr is the client's address as a server names it. A unix socket's
// clients have none: there the socket's own path stands, with port 0.
func (s *session) clientAddr() string {
	if s.conn.RemoteAddr().Network() == "unix" {
		return s.conn.LocalAddr().String() + ":0"
	}
	return s.conn.RemoteAddr().String()
}

// serverAddr is the server's own address, named in the same way.
func (s *session) serverAddr() string {
	if s.conn.LocalAddr().Network() == "unix" {
		return s.conn.LocalAddr().String() + ":0"
	}
	return s.conn.LocalAddr().String()
}

// describe is a line of CLIENT LIST, fit to be found by its fields.
func (s *session) describe() string {
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=0 flags=N db=%d sub=0 psub=0 ssub=0 multi=-1 cmd=client user=%s redir=-1 resp=%d",
		s.id, s.clientAddr(), s.serverAddr(), s.id+7, s.name, int(time.Since(s.born).Seconds()), s.db, s.node.config.User, s.proto)
}

// clientList is in the order of ids, without those that are gone.
func (n *Node) clientList() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for id := 1; id <= n.nextID; id++ {
		if s := n.sessions[id]; s != nil {
			b.WriteString(s.describe() + "\n")
		}
	}
	return b.String()
}

// role answers for a master or, with anything else, for a replica whose master
// is at an address reserved for documentation.
func (c *call) role() []byte {
	role := c.node.role()
	if role == "master" {
		b := resp.AppendArray(nil, 3)
		b = resp.AppendBulkString(b, "master")
		b = resp.AppendInteger(b, 0)
		return resp.AppendArray(b, 0)
	}
	b := resp.AppendArray(nil, 5)
	b = bulks(b, role, "192.0.2.9")
	b = resp.AppendInteger(b, 6379)
	b = bulks(b, "connected")
	return resp.AppendInteger(b, 0)
}

// info is INFO with any number of sections; none is all.
func (c *call) info() []byte {
	n, cfg, role := c.node, c.node.config, c.node.role()
	n.mu.Lock()
	runID, history := n.runID, n.history
	uptime, clients := int(n.clock.Now().Sub(n.started).Seconds()), len(n.sessions)
	n.mu.Unlock()

	server := fmt.Sprintf("redis_version:%s\r\n", cfg.Version)
	if cfg.Product == "valkey" {
		// Valkey keeps the version of the server from which it was forked.
		server = fmt.Sprintf("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:%s\r\n", cfg.Version)
	}
	server += fmt.Sprintf("redis_mode:%s\r\nprocess_id:1\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n",
		cfg.Mode, runID, uptime, uptime/86400)
	sections := []struct{ name, text string }{
		{"Server", server},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\n", clients)},
		{"Memory", fmt.Sprintf("used_memory:1000000\r\nmaxmemory:0\r\nmaxmemory_policy:%s\r\n", cfg.EvictionPolicy)},
		{"Persistence", "loading:0\r\naof_enabled:0\r\n"},
		{"Replication", fmt.Sprintf("role:%s\r\nconnected_slaves:0\r\n%s", role, history)},
		{"Cluster", fmt.Sprintf("cluster_enabled:%s\r\n", boolDigit(cfg.Mode == "cluster"))},
	}
	var b strings.Builder
	for _, s := range sections {
		if !wanted(c.args, s.name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.name + "\r\n" + s.text)
	}
	return c.verbatim(b.String())
}

// A history is what INFO says of replication: the id of the node's history, and
// that of the one before it was promoted, or "" if it never was.
type history struct{ id, former string }

// promotedAt is the offset at which a node that was promoted began its history.
const promotedAt = "100"

func (h history) String() string {
	former, offset := h.former, promotedAt
	if former == "" {
		former, offset = strings.Repeat("0", 40), "-1"
	}
	return "master_replid:" + h.id + "\r\nmaster_replid2:" + former + "\r\nsecond_repl_offset:" + offset + "\r\n"
}

// boolDigit is how INFO writes yes and no.
func boolDigit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// wanted says whether INFO with these arguments shows a section.
func wanted(sections []string, name string) bool {
	for _, s := range sections {
		switch strings.ToLower(s) {
		case strings.ToLower(name), "all", "default", "everything":
			return true
		}
	}
	return len(sections) == 0
}

// wrongPassword does not say which of the two was wrong.
func wrongPassword() []byte {
	return fail("WRONGPASS invalid username-password pair or user is disabled.")
}

// atLeast compares the first two numbers of a version.
func atLeast(version string, major, minor int) bool {
	var a, b int
	fmt.Sscanf(version, "%d.%d", &a, &b)
	return a > major || a == major && b >= minor
}
