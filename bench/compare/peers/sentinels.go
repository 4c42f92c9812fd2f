package peers

import (
	"context"
	"fmt"
	"net"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/redmux/redmux/conn"
)

// BehindSentinels opens redislock or redsync with one server, which go-redis
// finds by sentinels. All three have their default options. redsync promises
// nothing with one server, but is often used so.
func BehindSentinels(name, url string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (Client, error) {
	e, err := conn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	c := goredislib.NewFailoverClient(&goredislib.FailoverOptions{MasterName: e.Seeds.Master, SentinelAddrs: e.Seeds.Addrs, Dialer: dial})
	switch name {
	case "redislock":
		return ClientOf[*redislockLease](redislockLocker{redislock.New(c), c}), nil
	case "redsync":
		return ClientOf[redsyncLease](redsyncLocker{redsync: redsync.New(goredis.NewPool(c)), close: func() { _ = c.Close() }}), nil
	}
	_ = c.Close()
	return nil, fmt.Errorf("peers: %s is not tried behind sentinels", name)
}
