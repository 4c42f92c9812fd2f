package redistest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seedVariable says what Arrange draws; it is a number. Without it each run
// draws the same, which differs from test to test.
const seedVariable = "REDMUX_TEST_SEED"

// An Arrangement is what most tests leave open: how many nodes there are, how
// they and their database are named, what stands before the names of keys, and
// what clients call themselves. A test that has no prefix and one host does not
// see a key that lacks the prefix, or what is kept of one node and used for
// another.
type Arrangement struct {
	Prefix string // of all keys of all clients
	Owner  string // of a client that names none
	DB     int    // of all nodes
	N      int    // of nodes, where a test does not say it
	host   string // of node i, as a format
}

// Arrange draws an arrangement for a test. It depends on the seed and on the
// test's name alone. A test that fails prints both.
func Arrange(tb testing.TB) Arrangement {
	tb.Helper()
	seed := seed(tb)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(tb.Name()))
	random := rand.New(rand.NewPCG(seed, sum.Sum64()))
	var a Arrangement
	a.Prefix = []string{"", "", "app:", "{tag}", "a b\r\n:", "redlock:", "é:"}[random.IntN(7)]
	a.DB = []int{0, 0, 0, 1, 15}[random.IntN(5)]
	a.Owner = []string{"", "", "web-1", "a.b/c_d:7"}[random.IntN(4)]
	a.N = []int{1, 2, 3, 3, 4, 5, 7}[random.IntN(7)]
	a.host = []string{"node%d:6379", "redis-%d.example:6380", "10.0.0.%d:7000", "Rack-%d.Example:6379", "[fd00::%x]:6379"}[random.IntN(5)]
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s=%d: prefix %q, owner %q, database %d, nodes %d (if the test does not say), hosts %q",
				seedVariable, seed, a.Prefix, a.Owner, a.DB, a.N, a.host)
		}
	})
	return a
}

// URL adds the database to the URL of a node that names none.
func (a Arrangement) URL(text string) string {
	u, err := url.Parse(text)
	if err != nil || a.DB == 0 || u.Query().Has("db") {
		return text
	}
	if u.Scheme == "unix" { // its path is that of the socket
		query := u.Query()
		query.Set("db", strconv.Itoa(a.DB))
		u.RawQuery = query.Encode()
	} else if strings.Trim(u.Path, "/") == "" {
		u.Path = fmt.Sprintf("/%d", a.DB)
	}
	return u.String()
}

// Host is the address of node i.
func (a Arrangement) Host(i int) string { return fmt.Sprintf(cmp.Or(a.host, "node%d:6379"), i) }

func seed(tb testing.TB) uint64 {
	tb.Helper()
	text := cmp.Or(os.Getenv(seedVariable), "1")
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", seedVariable, err)
	}
	return seed
}

// view shows a node's keys without the prefix that all clients put before them,
// and the database that they select as database 0, so that tests name keys as
// if there were neither. What lacks the prefix, or goes to another database, is
// reported as a stray.
type view struct {
	Arrangement
	stray func(text string)
}

// read takes the prefix off the keys of a command. The executor calls it, and
// what it returns is executed, counted and shown to hooks.
func (v *view) read(args []string, db int) ([]string, int) {
	from, to := keysOf(args)
	if from == to {
		return args, v.database(db)
	}
	if db != v.DB && v.stray != nil {
		v.stray(fmt.Sprintf("%s in database %d instead of %d", args[0], db, v.DB))
	}
	args = append([]string(nil), args...)
	for i := from; i < to; i++ {
		if len(args[i]) >= len(v.Prefix) && args[i][:len(v.Prefix)] == v.Prefix {
			args[i] = args[i][len(v.Prefix):]
			continue
		}
		if v.stray != nil {
			v.stray(fmt.Sprintf("%s of the key %q, which lacks the prefix %q", args[0], args[i], v.Prefix))
		}
		args[i] = "\x00stray " + args[i]
	}
	return args, v.database(db)
}

// database exchanges the database that the clients select and database 0.
func (v *view) database(db int) int {
	switch db {
	case v.DB:
		return 0
	case 0:
		return v.DB
	}
	return db
}

// keysOf returns which arguments of a command are keys.
func keysOf(args []string) (from, to int) {
	switch n := name(args); {
	case slices.Contains(ofOneKey, n):
		return 1, min(2, len(args))
	case slices.Contains(ofManyKeys, n):
		return 1, len(args)
	case (n == "EVAL" || n == "EVALSHA") && len(args) >= 3:
		n, err := strconv.Atoi(args[2])
		if err != nil || n < 0 || n > len(args)-3 {
			return 0, 0
		}
		return 3, 3 + n
	}
	return 0, 0
}

// Commands by their keys. A script may run no others.
var (
	ofNoKey  = []string{"TIME", "SELECT"}
	ofOneKey = []string{
		"SET", "GET", "PTTL", "PEXPIRE", "DELEX", "DELIFEQ",
		"ZADD", "ZRANGE", "ZRANK", "ZSCORE", "ZCARD", "ZREM", "ZREMRANGEBYSCORE",
		"HSET", "HDEL", "HMGET", "HGETALL", "HLEN",
	}
	ofManyKeys = []string{"DEL", "EXISTS", "MGET"}
)

// undeclared returns why a script with the given keys may not run a command; ""
// if it may. Each key must be in KEYS (R24): a cluster, and servers that lock a
// script's keys first, have no other key for it. Only a script without a key,
// which is scan.lua, may run SCAN.
func undeclared(keys, args []string) string {
	n := name(args)
	if n == "SCAN" && len(keys) == 0 {
		return ""
	}
	if !slices.Contains(slices.Concat(ofNoKey, ofOneKey, ofManyKeys), n) {
		return "a script runs " + n + ", whose keys are not known here"
	}
	from, to := keysOf(args)
	for _, key := range args[from:to] {
		if !slices.Contains(keys, key) {
			return fmt.Sprintf("a script runs %s on the key %q, which is not in KEYS", n, key)
		}
	}
	return ""
}
