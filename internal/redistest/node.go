package redistest

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// NodeConfig configures a Node. The zero value is an ordinary master, redis
// 7.0.15 without a password.
type NodeConfig struct {
	// Product and Version as in HELLO and INFO. If zero, redis and 7.0.15.
	Product, Version string

	// Role and Mode as in HELLO, INFO and ROLE. If zero, master and standalone.
	Role, Mode string

	// RunID is what it says of itself until it is restarted, true or not. If
	// zero, a random one.
	RunID string

	// EvictionPolicy is maxmemory-policy. If zero, noeviction.
	EvictionPolicy string
	// Age is for how long the process has run when the node is made; a restart
	// begins anew.
	Age time.Duration

	// Password is required of clients. If zero, none. User is the name that
	// goes with it. If zero, default.
	User, Password string

	// NoHello makes HELLO an unknown command, as before redis 6.
	NoHello bool

	// DELEX and DELIFEQ turn the native commands of release on (R25); see
	// Native.
	DELEX, DELIFEQ bool
	// NXGET makes SET know NX and GET together, as from redis 7.0 on; see
	// Native.
	NXGET bool

	// Arrangement is how clients name keys; Strays is called, in the node's
	// goroutine, for each key that is named otherwise. Tests name keys as if
	// there were no prefix and no database but 0.
	Arrangement Arrangement
	Strays      func(text string)

	// LogLimit bounds Log; the older half is dropped when it is reached.
	// If zero, 65,536.
	LogLimit int
}

// Order selects which of several waiting connections a Node serves first.
type Order int

const (
	// ByArrival executes commands in the order in which they came.
	ByArrival Order = iota
	// OldestFirst serves the connection that was opened first.
	OldestFirst
	// NewestFirst serves the connection that was opened last. After a Pause
	// it is the order that brings a SET after its own release (R8).
	NewestFirst
)

// Node is a server in memory: it executes commands one at a time, in one
// goroutine, as a real one does. Keys expire by its NodeClock, which unless it
// is set is time.Now, so that simulated time works. It serves any net.Listener.
// Methods are safe for concurrent use; hooks and scripts may call them too,
// except Close.
type Node struct {
	config NodeConfig
	view   view
	clock  NodeClock

	wg sync.WaitGroup // listeners, the executor, two per connection

	mu        sync.Mutex // guards the following, and what session says
	work      sync.Cond  // something changed that the executor waits for
	errands   []func()   // see Between
	did       sync.Cond  // an errand
	listeners []net.Listener
	addr      string
	dbs       map[int]*DB
	sessions  map[int]*session      // the clients that the server knows, by id
	conns     map[*session]struct{} // those whose goroutines run
	nextID    int
	closed    bool
	user      string // see NodeConfig; SetPassword changes both
	password  string
	paused    bool
	order     Order
	seq       int // of the command that arrived last
	timer     *time.Timer
	runID     string
	following bool    // see Follow
	history   history // replication
	started   time.Time

	scripts map[string]Script // registered, by SHA1
	loaded  map[string]string // as SCRIPT LOAD left them, by SHA1
	tracked tracking
	hooks   []Hook
	stream  func(id int, args []string) func(io.Writer) error // asked after the hooks
	refusal map[string]string                                 // command, "SET" or "CLIENT KILL", to error reply
	delays  map[string]time.Duration

	connects int
	calls    map[string]int
	log      []Executed
}

// Script is a script written in Go. What it returns becomes the reply: nil,
// bool, int, int64, string (bulk), error, []any, []int64 or []string.
type Script func(keys, args []string, db *DB) any

// Hook sees a command before it is executed and may answer it with raw bytes
// instead; an empty reply that is handled is silence. conn is the client's id.
type Hook func(conn int, args []string) (reply []byte, handled bool)

// Executed is one command of the log.
type Executed struct {
	At    time.Time
	Conn  int // client id
	Args  []string
	Reply string // as encoded
}

// NewNode returns a running node that accepts no connections yet: see Serve.
// The caller must close it.
func NewNode(config NodeConfig) *Node {
	n := &Node{
		config:   config.withDefaults(),
		view:     view{config.Arrangement, config.Strays},
		dbs:      make(map[int]*DB),
		sessions: make(map[int]*session),
		conns:    make(map[*session]struct{}),
		scripts:  make(map[string]Script),
		loaded:   make(map[string]string),
		refusal:  make(map[string]string),
		delays:   make(map[string]time.Duration),
		calls:    make(map[string]int),
		runID:    cmp.Or(config.RunID, newRunID()),
		history:  history{id: newRunID()},
		started:  time.Now().Add(-config.Age),
	}
	n.user, n.password = n.config.User, n.config.Password
	n.clock.told = n.recheckExpiry
	n.work.L, n.did.L = &n.mu, &n.mu
	n.wg.Go(n.execute)
	return n
}

// Serve accepts connections from a listener, in a goroutine of the node, until
// Close. The node closes the listener.
func (n *Node) Serve(l net.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		l.Close()
		return
	}
	if n.addr == "" {
		n.addr = l.Addr().String()
	}
	n.listeners = append(n.listeners, l)
	n.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.accept(conn)
		}
	})
}

// Addr is the address of the first listener.
func (n *Node) Addr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// Clock is the node's own, to be set.
func (n *Node) Clock() *NodeClock { return &n.clock }

// Arrange sets how clients name keys from now on, and ends the reports of keys
// that are named otherwise. It must be called before there is a client.
func (n *Node) Arrange(a Arrangement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = view{Arrangement: a}
}

// URL is redis://, the address of the first listener and the database.
func (n *Node) URL() string {
	return n.view.URL("redis://" + n.Addr())
}

// Script registers a Go function that stands for a script, which must still be
// loaded or sent by EVAL. All others are run as they are, in Lua.
func (n *Node) Script(source string, f Script) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scripts[SHA1(source)] = f
}

// Eval runs a script as EVAL does, on database 0, and returns its reply. A hook
// may call it.
func (n *Node) Eval(source string, keys []string, args ...string) []byte {
	c := &call{node: n, s: &session{node: n, proto: 3}, db: n.DB()}
	return c.runScript(SHA1(source), source, keys, args)
}

// Handle adds a hook. The one added last is asked first.
func (n *Node) Handle(h Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks = append([]Hook{h}, n.hooks...)
}

// Delay makes a command wait that long before it is executed, and with it what
// follows on its connection; other connections go on. The name is "SET" or, for
// one subcommand, "CLIENT KILL". Zero ends it.
func (n *Node) Delay(command string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[strings.ToUpper(command)] = d
}

// Refuse answers the named commands with an error, given as "-NOREPLICAS Not
// enough good replicas to write."; without names, everything that writes. An
// empty reply ends it.
func (n *Node) Refuse(reply string, commands ...string) {
	if len(commands) == 0 {
		commands = []string{"SET", "DEL", "PEXPIRE", "EVAL", "EVALSHA", "DELEX", "DELIFEQ"}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range commands {
		if reply == "" {
			delete(n.refusal, strings.ToUpper(c))
		} else {
			n.refusal[strings.ToUpper(c)] = "-" + strings.TrimPrefix(reply, "-")
		}
	}
}

// Native says from now on which of DELEX, DELIFEQ and NXGET the node has (R25),
// as if another version of the server ran in its place: the others are unknown.
func (n *Node) Native(commands ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.config.DELEX = slices.Contains(commands, "DELEX")
	n.config.DELIFEQ = slices.Contains(commands, "DELIFEQ")
	n.config.NXGET = slices.Contains(commands, "NXGET")
}

// Pause stops execution, as SIGSTOP does: connections are accepted and
// commands received, and nothing happens. What was received is executed after
// Resume, also when its connection has been closed or reset meanwhile (R8).
func (n *Node) Pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = true
}

// Resume ends a Pause.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = false
	n.changed()
}

// SetOrder sets which waiting connection goes first from now on.
func (n *Node) SetOrder(o Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.order = o
}

// Restart is kill -9 and a new start without persistence: connections and
// commands not yet executed are gone, keys and loaded scripts too, client ids
// start again at 1, the run id is new. Hooks, delays and refusals stay.
// To be away in between, refuse connections at the Link.
func (n *Node) Restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	// Not cleared but replaced: a command being executed at this moment goes
	// to the memory of the process that died.
	n.dbs = make(map[int]*DB)
	n.begin()
}

// RestartDurably is Restart with a persistence that loses nothing (appendonly
// yes, appendfsync always): the keys are there again, with the rest of their
// lives. Scripts are not part of it.
func (n *Node) RestartDurably() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begin()
}

// Demote makes the node a replica of another, and a master again in the same
// process (REPLICAOF, REPLICAOF NO ONE): of its keys it has those that the
// other had, too. Connections stay. Those that track keys are told that all
// keys were flushed, as at every full synchronisation.
func (n *Node) Demote(kept ...string) {
	n.Resync(kept...)
	n.Promote()
}

// Follow makes the node a replica of another (REPLICAOF), which refuses to
// write. It has its own keys until Resync.
func (n *Node) Follow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.following = true
}

// Promote makes a replica a master again (REPLICAOF NO ONE).
func (n *Node) Promote() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.following = false
	n.history = history{newRunID(), newRunID()}
}

// Succeed gives the node the replication history of a replica of another one
// that was promoted. Its keys stay.
func (n *Node) Succeed(former *Node) {
	former.mu.Lock()
	before := former.history.id
	former.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.history = history{newRunID(), before}
}

// Flushed tells the connections that track keys what they are told when all
// keys of another database were flushed.
func (n *Node) Flushed() { n.noteChange(change{all: true}) }

// Rewrite changes the node's replication history and nothing else, as its first
// replica does, and DEBUG CHANGE-REPL-ID.
func (n *Node) Rewrite() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.history = history{id: newRunID()}
}

// begin starts a new process of the node, which keeps its keys. The caller must
// hold the lock.
func (n *Node) begin() {
	for _, s := range n.sessions {
		n.kill(s)
	}
	n.loaded = make(map[string]string)
	n.tracked = tracking{}
	n.nextID, n.paused, n.following = 0, false, false
	n.runID, n.started = newRunID(), n.clock.Now()
	n.history = history{id: newRunID()}
	n.changed()
}

// FlushScripts forgets the loaded scripts, as SCRIPT FLUSH does.
func (n *Node) FlushScripts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.loaded)
}

// FlushAll deletes all keys of database 0, as FLUSHALL does.
func (n *Node) FlushAll() { n.DB().flush() }

// Resync gives a replica the keys of the other, which has some of its own.
func (n *Node) Resync(kept ...string) { n.DB().flush(kept...) }

// Between does something between two commands, as a server does what is not one,
// and returns when it is done. On a paused node that is after Resume. What it
// changes is pushed before a later reply. It must not be called by hooks and
// scripts.
func (n *Node) Between(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	done := false
	n.errands = append(n.errands, func() { do(); done = true })
	for n.changed(); !done && !n.closed; {
		n.did.Wait()
	}
}

// DropConns resets all connections. What was received is still executed.
func (n *Node) DropConns() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sessions {
		s.drop()
	}
}

// DB returns the keys of database 0, for looking at them and for arranging
// them. A Restart replaces it.
func (n *Node) DB() *DB {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.database(0)
}

// Keys returns the living keys of database 0, sorted.
func (n *Node) Keys() []string { return n.DB().Keys() }

// Get returns the value of a living key of database 0.
func (n *Node) Get(key string) (value string, ok bool) { return n.DB().Get(key) }

// RunID changes with each Restart.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runID
}

// Process is the name of its process in seals: its run id and its replication
// history.
func (n *Node) Process() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.history.former == "" {
		return n.runID + ":" + n.history.id
	}
	return n.runID + ":" + n.history.id + ":" + n.history.former + ":100"
}

// Conns is the number of clients that the server knows.
func (n *Node) Conns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sessions)
}

// Connects is the number of connections ever accepted.
func (n *Node) Connects() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.connects
}

// Calls is how often a command was executed or refused: "SET", or "CLIENT
// KILL". A command that a hook answered counts.
func (n *Node) Calls(command string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[strings.ToUpper(command)]
}

// Log returns the commands executed, in order.
func (n *Node) Log() []Executed {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.log)
}

// Close ends the node and waits for its goroutines.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	for _, l := range n.listeners {
		l.Close()
	}
	for s := range n.conns {
		n.kill(s)
	}
	if n.timer != nil {
		n.timer.Stop()
	}
	n.changed()
	n.mu.Unlock()
	n.wg.Wait()
	return nil
}

// SHA1 is the name under which a server knows a script.
func SHA1(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// database is called with the lock held.
func (n *Node) database(i int) *DB {
	if n.dbs[i] == nil {
		n.dbs[i] = &DB{keys: make(map[string]entry), clock: &n.clock}
		if i == 0 {
			n.dbs[i].changed = n.noteChange
		}
	}
	return n.dbs[i]
}

// withDefaults fills in what each field's comment promises.
func (c NodeConfig) withDefaults() NodeConfig {
	for field, standard := range map[*string]string{
		&c.Product: "redis", &c.Version: "7.0.15", &c.Role: "master", &c.Mode: "standalone",
		&c.EvictionPolicy: "noeviction", &c.User: "default",
	} {
		if *field == "" {
			*field = standard
		}
	}
	if c.LogLimit == 0 {
		c.LogLimit = 65536
	}
	return c
}

// newRunID has forty hexadecimal digits, as real ones have.
func newRunID() string {
	return fmt.Sprintf("%016x%016x%08x", rand.Uint64(), rand.Uint64(), rand.Uint32())
}
