package floor

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/internal/redistest"
)

const ttl = time.Minute

// longest is how long a test waits for what must come. It is shorter than the TTL, so that a key that ends by itself is not
// taken for one that was released.
const longest = ttl / 2

var (
	waitings = []Waiting{Any, InOrder, Spin}
	networks = map[string]redistest.Option{"tcp": redistest.OverTCP, "unix": redistest.OverUnix}
)

// open opens a floor for a test, on the test's own thread.
func open(t testing.TB, urls []string) *Floor {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	f, err := Open(urls)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// keys counts the keys on the servers.
func keys(t testing.TB, servers []*redistest.Server) (n int64) {
	t.Helper()
	for _, s := range servers {
		size, err := s.Do("DBSIZE")
		require.NoError(t, err)
		n += size.(int64)
	}
	return n
}

// requireEmpty waits until no key is left: releases that were not needed for the quorum arrive soon.
func requireEmpty(t testing.TB, servers []*redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return keys(t, servers) == 0 }, longest, time.Millisecond)
}

// everyWay runs a test on n servers for each network and each way of waiting.
func everyWay(t *testing.T, n int, test func(t *testing.T, f *Floor, servers []*redistest.Server)) {
	for network, option := range networks {
		servers := redistest.Servers(t, n, option)
		for _, w := range waitings {
			t.Run(fmt.Sprintf("%s/masters=%d/%v", network, n, w), func(t *testing.T) {
				f := open(t, redistest.URLs(servers))
				f.Wait = w
				test(t, f, servers)
			})
		}
	}
}

// commands is how many commands of one name a server has executed.
func commands(t testing.TB, s *redistest.Server, name string) (calls int) {
	t.Helper()
	stats, err := s.Do("INFO", "commandstats")
	require.NoError(t, err)
	_, rest, found := strings.Cut(stats.(string), "cmdstat_"+name+":calls=")
	if found {
		_, err = fmt.Sscan(strings.Split(rest, ",")[0], &calls)
		require.NoError(t, err)
	}
	return calls
}

func TestPair(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		everyWay(t, n, func(t *testing.T, f *Floor, servers []*redistest.Server) {
			for _, s := range servers {
				_, err := s.Do("CONFIG", "RESETSTAT")
				require.NoError(t, err)
			}
			const pairs = 100
			for i := range pairs {
				require.NoError(t, f.Pair("r", ttl), "pair %d", i)
			}
			requireEmpty(t, servers)
			// The work of a Redlock was done, on every master, and every lock was really there to be deleted.
			for _, s := range servers {
				require.Eventually(t, func() bool { return commands(t, s, "evalsha") == pairs }, longest, time.Millisecond)
				require.Equal(t, pairs, commands(t, s, "set"))
				require.Equal(t, pairs, commands(t, s, "del"))
			}
		})
	}
}

// A key that is held by another on a quorum is an error and is left alone; what was granted elsewhere is given back.
func TestHeld(t *testing.T) {
	everyWay(t, 5, func(t *testing.T, f *Floor, servers []*redistest.Server) {
		for _, s := range servers[:3] {
			_, err := s.Do("SET", "r", "another's")
			require.NoError(t, err)
		}
		for range 200 {
			require.ErrorIs(t, f.Pair("r", ttl), ErrHeld)
		}
		requireEmpty(t, servers[3:])
		for _, s := range servers[:3] {
			value, err := s.Do("GETDEL", "r")
			require.NoError(t, err)
			require.Equal(t, "another's", value)
		}
		require.NoError(t, f.Pair("r", ttl), "it is usable still")
		requireEmpty(t, servers)
	})
}

// A minority that refuses costs nothing but its votes.
func TestHeldByAMinority(t *testing.T) {
	everyWay(t, 5, func(t *testing.T, f *Floor, servers []*redistest.Server) {
		for _, s := range servers[:2] {
			_, err := s.Do("SET", "r", "another's")
			require.NoError(t, err)
		}
		for range 200 {
			require.NoError(t, f.Pair("r", ttl))
		}
		require.EqualValues(t, 2, keys(t, servers))
		for _, s := range servers[:2] {
			_, err := s.Do("DEL", "r")
			require.NoError(t, err)
		}
		requireEmpty(t, servers)
	})
}

// Masters that answer late by many pairs still have each answer counted for its own command.
func TestLateAnswersBelongToTheirCommands(t *testing.T) {
	everyWay(t, 5, func(t *testing.T, f *Floor, servers []*redistest.Server) {
		late := servers[3:] // not the first ones: InOrder would wait for them
		for _, s := range late {
			require.NoError(t, s.Stop())
		}
		// Not more than the buffer of a unix socket takes; enough for the replies to be cut anywhere.
		for range 100 {
			require.NoError(t, f.Pair("r", ttl))
		}
		for _, s := range late {
			require.NoError(t, s.Continue())
		}
		// Now others are late, and the quorum needs those that were.
		for _, s := range servers[1:3] {
			_, err := s.Do("SET", "r", "another's")
			require.NoError(t, err)
		}
		for range 1000 {
			require.NoError(t, f.Pair("r", ttl))
		}
		for _, s := range servers[1:3] {
			_, err := s.Do("DEL", "r")
			require.NoError(t, err)
		}
		requireEmpty(t, servers)
	})
}

// Answers are cut anywhere, and each is still one answer.
func TestAnswersInPieces(t *testing.T) {
	f, far := pairOfSockets(t)
	c := f.conns[0]
	for _, piece := range []struct {
		bytes    string
		answered uint64
		granted  bool
	}{
		{"+O", 0, false}, {"K\r", 0, false}, {"\n:", 1, true}, {"0\r\n$-1", 2, false}, {"\r\n", 3, false}, {":1\r\n+OK\r\n", 5, true},
	} {
		write(t, far, piece.bytes)
		require.NoError(t, c.read(0, 5))
		require.Equal(t, piece.answered, c.answered, "%q", piece.bytes)
		require.Equal(t, piece.granted, c.granted, "%q", piece.bytes)
	}
}

// What InOrder does not wait for is read nonetheless, before it fills the socket.
func TestInOrderReadsTheOthersToo(t *testing.T) {
	servers := redistest.Servers(t, 5)
	f := open(t, redistest.URLs(servers))
	f.Wait = InOrder
	const pairs = 2 * drainEvery // of two commands
	for range pairs {
		require.NoError(t, f.Pair("r", ttl))
	}
	// A master that gets no processor for a while answers later: what is not there could not have been read.
	for _, s := range servers {
		require.Eventually(t, func() bool { return commands(t, s, "evalsha") == pairs }, longest, time.Millisecond)
	}
	requireEmpty(t, servers) // whoever answers this has written what it answered before
	for range drainEvery {   // however late those were, now their replies are read before so many commands have gone by
		require.NoError(t, f.Pair("r", ttl))
	}
	for i, c := range f.conns {
		require.GreaterOrEqual(t, c.answered, uint64(2*pairs), "master %d", i)
	}
}

// A lock that is gone before its release: too few masters delete it.
func TestNotHeld(t *testing.T) {
	f, far := pairOfSockets(t)
	write(t, far, "+OK\r\n")
	done := make(chan error, 1)
	go func() {
		// What the floor sends second is answered when it has arrived.
		buffer, seen := make([]byte, 4096), ""
		for !strings.Contains(seen, "EVALSHA") {
			n, err := unix.Read(far, buffer)
			if err != nil || n == 0 {
				done <- errors.Join(err, errors.New("the release did not come"))
				return
			}
			seen += string(buffer[:n])
		}
		_, err := unix.Write(far, []byte(":0\r\n"))
		done <- err
	}()
	require.ErrorIs(t, f.Pair("r", ttl), ErrNotHeld)
	require.NoError(t, <-done)
}

func TestUnexpectedBytes(t *testing.T) {
	for _, w := range waitings {
		for _, c := range []struct{ bytes, want string }{
			{"-ERR no\r\n", `unexpected reply "-ERR no\r\n"`},
			{":1\r\n", "unexpected reply"},
			{"+OK\r\n:1\r\n", `":1\r\n" was asked for by nobody`},
			{"+OK\n", "unexpected reply"},
			{"_\r\n", "unexpected reply"},
			{"", "closed"},
		} {
			f, far := pairOfSockets(t)
			f.Wait = w
			write(t, far, c.bytes)
			if c.bytes == "" {
				require.NoError(t, unix.Shutdown(far, unix.SHUT_WR))
			}
			err := f.Pair("r", ttl)
			require.ErrorContains(t, err, c.want, "%v: %q", w, c.bytes)
			require.Equal(t, err, f.Pair("r", ttl), "it stays broken")
		}
	}
}

// Half an answer is none, and every wait has an end, also while the runtime sends signals to the thread that waits.
func TestPatience(t *testing.T) {
	const patience = 50 * time.Millisecond
	for _, w := range waitings {
		f, far := pairOfSockets(t)
		f.Wait, f.patience = w, patience
		require.NoError(t, f.conns[0].bound(patience))
		write(t, far, "+O")
		begin := time.Now()
		require.ErrorIs(t, f.Pair("r", ttl), errPatience, w)
		require.Less(t, time.Since(begin), defaultPatience)
	}
	f, _ := pairOfSockets(t)
	f.patience = patience
	require.ErrorIs(t, f.waitForAny(&votes{}), errPatience, "one master alone is waited for without epoll")

	require.NoError(t, f.conns[0].bound(patience))
	var err error
	for begin := time.Now(); err == nil; {
		require.Less(t, time.Since(begin), longest, "the buffer of a master that reads nothing takes everything")
		err = f.conns[0].write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, errPatience)

	// What a wait does that is disturbed all the time: without a deadline it would never end.
	l := waitLimit{patience: patience}
	begin := time.Now()
	for err = nil; err == nil; err = l.judge("read", syscall.EINTR) {
		require.Less(t, time.Since(begin), defaultPatience)
	}
	require.GreaterOrEqual(t, time.Since(begin), patience)
}

func TestOpenRefuses(t *testing.T) {
	for _, urls := range [][]string{nil, {""}, {"rediss://127.0.0.1:1"}, {"redis://127.0.0.1:1"}, {"unix:///nowhere"}} {
		_, err := Open(urls)
		require.Error(t, err, urls)
	}
	f := open(t, redistest.URLs(redistest.Servers(t, 1)))
	require.Error(t, f.Pair("r", time.Microsecond))
	require.NoError(t, f.Pair("r", ttl))
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Pair("r", ttl), errClosed)
}

func TestPassword(t *testing.T) {
	const password = "s3cret"
	servers := redistest.Servers(t, 1, redistest.Password(password))
	f := open(t, []string{servers[0].URL() + "?db=2"})
	require.NoError(t, f.Pair("r", ttl))
	_, err := Open([]string{"unix://" + servers[0].URL()[len("unix://:"+password+"@"):]})
	require.ErrorContains(t, err, "NOAUTH")
	require.NotContains(t, err.Error(), password)
}

// Nothing is left open, neither by Close nor by an Open that fails at the last master.
func TestDescriptorsAreClosed(t *testing.T) {
	urls := redistest.URLs(redistest.Servers(t, 3))
	before := redistest.RestingFiles()
	for range 10 {
		f, err := Open(urls)
		require.NoError(t, err)
		require.NoError(t, f.Pair("r", ttl))
		require.NoError(t, f.Close())
		_, err = Open(append(urls, "unix:///nowhere"))
		require.Error(t, err)
	}
	require.LessOrEqual(t, redistest.OpenFiles(), before)
}

func TestPairAllocatesNothing(t *testing.T) {
	everyWay(t, 5, func(t *testing.T, f *Floor, _ []*redistest.Server) {
		require.Zero(t, testing.AllocsPerRun(300, func() {
			if err := f.Pair("r", ttl); err != nil {
				t.Fatal(err)
			}
		}))
	})
}

// pairOfSockets is a floor whose only master is the test itself, without a process or goroutine of its own.
func pairOfSockets(t *testing.T) (f *Floor, far int) {
	t.Helper()
	// While the floor waits it keeps its processor, so a test that answers it needs another.
	if before := runtime.GOMAXPROCS(0); before < 2 {
		runtime.GOMAXPROCS(2)
		t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	f = &Floor{conns: []*connection{{socket: fds[0]}}, events: make([]unix.EpollEvent, 1), patience: defaultPatience}
	require.NoError(t, f.watch())
	// As dial does. A read without a bound is restarted by the kernel after each signal, so that a garbage collection would
	// wait for this one for ever, and the test's own goroutine, which has to answer, for the garbage collection.
	require.NoError(t, f.conns[0].bound(defaultPatience))
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, unix.Close(fds[1]))
	})
	return f, fds[1]
}

func write(t *testing.T, socket int, s string) {
	t.Helper()
	_, err := unix.Write(socket, []byte(s))
	require.NoError(t, err)
}

// BenchmarkPair compares the ways of waiting.
func BenchmarkPair(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		for _, n := range []int{1, 3, 5} {
			servers := redistest.Servers(b, n, networks[network])
			for _, w := range waitings {
				b.Run(fmt.Sprintf("network=%s/masters=%d/wait=%v", network, n, w), func(b *testing.B) {
					f := open(b, redistest.URLs(servers))
					f.Wait = w
					for b.Loop() {
						if err := f.Pair("r", ttl); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
