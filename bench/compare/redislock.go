package compare

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	goredislib "github.com/redis/go-redis/v9"
)

// redislockLocker is bsm/redislock behind the calls of this package. Without a
// retry strategy, which is the default, it tries once.
type redislockLocker struct {
	*redislock.Client
	connection *goredislib.Client
}

// TryAcquire makes one try.
func (l redislockLocker) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (*redislock.Lock, error) {
	return l.Obtain(ctx, resource, ttl, nil)
}

// Close closes the client.
func (l redislockLocker) Close(context.Context) error { return l.connection.Close() }

// openRedislock refuses more than one master.
func openRedislock(urls []string) (Pairer, error) {
	if len(urls) != 1 {
		return nil, fmt.Errorf("compare: redislock knows one master, not %d", len(urls))
	}
	c, err := GoredisClient(urls[0], goredislib.Options{})
	if err != nil {
		return nil, err
	}
	return pairer[*redislock.Lock]{redislockLocker{redislock.New(c), c}}, nil
}
