package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// A connection to a former primary that no sentinel can reach any more, and
// that kills no client, ends at +switch-master.
func TestFollowLeavesAPrimaryThatIsCutOff(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinels(t)
	former := g.Primary()
	c := connect(t, g.URL())
	c.Follow()
	time.Sleep(500 * time.Millisecond) // for the subscription
	begun := time.Now()
	require.NoError(t, former.Stop())
	_, err := g.AwaitFailover(former)
	require.NoError(t, err)
	eventually(t, func() bool { return c.Err() != nil })
	t.Logf("ended %v after the stop", time.Since(begun))
	require.ErrorIs(t, c.Err(), ErrMoved)
	require.NoError(t, former.Continue())
}

// An endpoint without seeds is followed by nothing.
func TestFollowOfALoneMaster(t *testing.T) {
	s := &script{}
	c := s.connect(t, Config{})
	c.Follow()
	c.Follow()
	c.Doubt(value(t, "-MOVED 0 a:1\r\n"))
	require.NoError(t, c.Err())
}

// After an error that a former master replies, the seeds are asked. Only more
// votes for one other server end the connection (R33).
func TestDoubtAsksTheSeeds_R33(t *testing.T) {
	for name, c := range map[string]struct {
		later [3]string
		ends  bool
	}{
		"as before": {[3]string{"db:1", "db:1", "db:1"}, false}, "one lies": {[3]string{"x:1", "db:1", "db:1"}, false}, "a tie": {[3]string{"x:1", "db:1", ""}, false},
		"two of three": {[3]string{"x:1", "x:1", "db:1"}, true}, "the only one": {[3]string{"x:1", "", ""}, true}, "none": {[3]string{"", "", "*-1\r\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSeeded(t)
				var later atomic.Bool
				s.turning(&later, c.later)
				s.node("db:1")
				conn, err := s.dial(threeSentinels)
				require.NoError(t, err)
				conn.Follow()
				time.Sleep(2 * time.Second)
				require.NoError(t, conn.Err())
				later.Store(true)
				conn.Doubt(value(t, "-ERR x\r\n"))
				time.Sleep(4 * time.Second)
				require.NoError(t, conn.Err(), "any server may reply that")
				conn.Doubt(value(t, "-NOREPLICAS x\r\n"))
				time.Sleep(4 * time.Second)
				require.Equal(t, c.ends, errors.Is(conn.Err(), ErrMoved), conn.Err())
				require.NoError(t, conn.Close())
			})
		})
	}
}

// MOVED ends a connection to a cluster, if it is about its slot. ASK and
// TRYAGAIN are about keys.
func TestMovedEndsAConnectionToACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		s.members(map[string]string{"a:6379": "a:6379"})
		c, err := s.dial("redis+cluster://a", func(cfg *Config) { cfg.Slot = 866 })
		require.NoError(t, err)
		c.Doubt(value(t, "-MOVED 866 b:1\r\n"))
		require.NoError(t, c.Err(), "it is not followed yet")
		c.Follow()
		for _, said := range []string{"-MOVED 867 b:1", "-ASK 866 b:1", "-TRYAGAIN x", "-CLUSTERDOWN x", "+OK"} {
			c.Doubt(value(t, said+"\r\n"))
			time.Sleep(2 * time.Second)
			require.NoError(t, c.Err(), said)
		}
		c.Doubt(value(t, "-MOVED 866 b:1\r\n"))
		require.ErrorIs(t, c.Err(), ErrMoved)
	})
}

// Servers of a cluster are asked with the credentials that the connection has
// by now: those of its dial may have expired.
func TestDoubtAsksWithTheLatestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		nodes := s.members(map[string]string{"a:6379": "a:6379", "b:6379": "a:6379", "c:6379": "a:6379"})
		demand := func(password string) {
			for _, n := range nodes {
				n.SetPassword("default", password)
			}
		}
		first, next := Credentials{Password: "first"}, Credentials{Password: "next"}
		demand(first.Password)
		c, err := s.dial("redis+cluster://a,b,c", func(cfg *Config) {
			cfg.Credentials = func(context.Context) (Credentials, error) { return first, nil }
		})
		require.NoError(t, err)
		c.Follow()
		demand(next.Password)
		_, err = c.AppendAuth(nil, first, next)
		require.NoError(t, err)
		for _, addr := range []string{"b:6379", "c:6379"} {
			nodes[addr].Handle(memberOf(addr, "b:6379"))
		}
		c.Doubt(value(t, "-CLUSTERDOWN x\r\n"))
		time.Sleep(time.Second)
		require.ErrorIs(t, c.Err(), ErrMoved)
	})
}

// The connection stays with a server that the others name by another address.
func TestAServerWithTwoAddressesIsNotLeft(t *testing.T) {
	for id, stays := range map[string]bool{"id of a:6379": true, "id of another": false, "": false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSeeded(t)
			nodes := s.members(map[string]string{"a:6379": "a:6379", "b:6379": "a:6379", "c:6379": "a:6379"})
			c, err := s.dial("redis+cluster://a,b,c")
			require.NoError(t, err)
			c.Follow()
			for addr, n := range nodes {
				n.Handle(memberNaming(addr, "10.0.0.1:6379", id))
			}
			c.Doubt(value(t, "-CLUSTERDOWN x\r\n"))
			time.Sleep(2 * time.Second)
			require.Equal(t, stays, c.Err() == nil, "%q: %v", id, c.Err())
		})
	}
}

// After a refused AUTH, servers are asked with what the connection holds.
func TestDoubtAsksWithoutWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		nodes := s.members(map[string]string{"a:6379": "a:6379", "b:6379": "a:6379", "c:6379": "a:6379"})
		first, next := Credentials{Password: "first"}, Credentials{Password: "next"}
		for _, n := range nodes {
			n.SetPassword("default", first.Password)
		}
		c, err := s.dial("redis+cluster://a,b,c", func(cfg *Config) { cfg.Password = first.Password })
		require.NoError(t, err)
		c.Follow()
		_, err = c.AppendAuth(nil, first, next)
		require.NoError(t, err)
		c.AuthRefused()
		require.NotContains(t, c.ServerError(value(t, "-WRONGPASS next\r\n")).Error(), "next", "it is still concealed (R27)")
		for addr, n := range nodes {
			n.Handle(memberOf(addr, "b:6379"))
		}
		c.Doubt(value(t, "-CLUSTERDOWN x\r\n"))
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, c.Err(), ErrMoved)
	})
}

// turning starts sentinels that name db:1, and later other addresses, or "" for
// no answer, or a whole reply.
func (s *seeded) turning(later *atomic.Bool, then [3]string) {
	for i := range then {
		s.node(fmt.Sprintf("s%d:26379", i+1)).Handle(func(_ int, args []string) ([]byte, bool) {
			answer := "db:1"
			if later.Load() {
				answer = then[i]
			}
			switch {
			case args[0] == "SUBSCRIBE":
				return []byte("*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"), true
			case args[0] != "SENTINEL" || answer == "":
				return nil, args[0] == "SENTINEL"
			case answer[0] == '*':
				return []byte(answer), true
			}
			host, port, _ := net.SplitHostPort(answer)
			return resp.AppendBulkString(resp.AppendBulkString(resp.AppendArray(nil, 2), host), port), true
		})
	}
}

// What the sentinels said between the dial and the subscription is not missed.
func TestNewsBeforeTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		var later atomic.Bool
		s.turning(&later, [3]string{"x:1", "x:1", "x:1"})
		s.node("db:1")
		c, err := s.dial(threeSentinels)
		require.NoError(t, err)
		later.Store(true)
		c.Follow()
		time.Sleep(time.Second)
		require.ErrorIs(t, c.Err(), ErrMoved)
	})
}

// A sentinel that falls silent, and one that floods its subscriber, are
// replaced by another; a connection that nothing speaks against stays (R32).
func TestSubscriptionsThatHangOrFlood_R32(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		var subscribed, fault atomic.Int32 // 1: silence, 2: a flood
		s.node("s1:26379").Handle(func(_ int, args []string) ([]byte, bool) {
			switch args[0] {
			case "SUBSCRIBE":
				subscribed.Add(1)
				return []byte("*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"), true
			case "SENTINEL":
				return []byte("*2\r\n$2\r\ndb\r\n$1\r\n1\r\n"), true
			case "PING":
				if fault.Load() == 1 {
					return nil, true
				}
				flood := ""
				for range 2 * mostNews {
					flood += "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
				}
				return []byte(flood), fault.Load() == 2
			}
			return nil, false
		})
		s.node("db:1")
		c, err := s.dial("redis+sentinel://s1/m")
		require.NoError(t, err)
		c.Follow()
		time.Sleep(5 * listenAlive)
		require.EqualValues(t, 1, subscribed.Load(), "it answers PING")
		for which, times := range map[int32]int32{1: 2, 2: 4} {
			fault.Store(which)
			time.Sleep(5 * listenAlive)
			before := subscribed.Load()
			time.Sleep(5 * listenAlive)
			require.GreaterOrEqual(t, subscribed.Load(), before+times, which)
			require.LessOrEqual(t, subscribed.Load(), before+5, which)
		}
		require.NoError(t, c.Err())
		require.NoError(t, c.Close())
	})
}
