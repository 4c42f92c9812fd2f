package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// A field is the servers of one trial of one subject, and clients that are there
// from the beginning.
type field struct {
	servers []*redistest.Server
	urls    []string
	clients []Client
}

// newField starts fresh servers for a subject, and opens so many clients.
func newField(ctx context.Context, s *Subject, clients int) (*field, error) {
	servers, err := redistest.StartN(s.Nodes, redistest.Options{TCP: true})
	if err != nil {
		return nil, err
	}
	f := &field{servers: servers, urls: redistest.URLs(servers)}
	if s.prepare != nil {
		err = s.prepare(f.urls)
	}
	for range clients {
		if err == nil {
			var c Client
			if c, err = s.ready(ctx, f.urls); err == nil {
				f.clients = append(f.clients, c)
			}
		}
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *field) close() {
	for _, c := range f.clients {
		c.Close()
	}
	redistest.CloseAll(f.servers)
}

// ready opens a client and waits until it grants locks.
func (s *Subject) ready(ctx context.Context, urls []string) (Client, error) {
	c, err := s.open(urls)
	if err != nil {
		return nil, err
	}
	if err := warmUp(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// occupy sets a key of another holder on some servers, without a TTL, so that
// they grant no vote.
func (f *field) occupy(resource string, servers ...int) error {
	return f.each(servers, "SET", resource, "another holder")
}

// vacate takes such keys away.
func (f *field) vacate(resource string, servers ...int) error {
	return f.each(servers, "DEL", resource)
}

func (f *field) each(servers []int, args ...string) error {
	for _, i := range servers {
		if _, err := f.servers[i].Do(args...); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
	}
	return nil
}

// keys counts the keys with a prefix, on all servers together.
func (f *field) keys(prefix string) (n int, err error) {
	for i, s := range f.servers {
		answer, err := s.Do("KEYS", prefix+"*")
		if err != nil {
			return 0, fmt.Errorf("server %d: %w", i, err)
		}
		list, ok := answer.([]any)
		if !ok {
			return 0, fmt.Errorf("server %d: KEYS was answered with %T", i, answer)
		}
		n += len(list)
	}
	return n, nil
}

// absent is the value of a key that is not there.
var absent = fmt.Sprint(nil, error(nil))

// values returns what a key holds on each server.
func (f *field) values(key string) []string {
	values := make([]string, len(f.servers))
	for i, s := range f.servers {
		answer, err := s.Do("GET", key)
		values[i] = fmt.Sprint(answer, err)
	}
	return values
}

// A Spread describes a number of times.
type Spread struct {
	Count            int
	Median, P99, Max time.Duration
}

// SpreadOf sorts the times.
func SpreadOf(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	n := len(times)
	return Spread{Count: n, Median: times[n/2], P99: times[min(n-1, n*99/100)], Max: times[n-1]}
}

// warmUp waits until a client grants locks.
func warmUp(ctx context.Context, client Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i := 0; ; i++ {
		lock, err := client.TryAcquire(ctx, fmt.Sprint("warm-up-", i), time.Second)
		if err == nil {
			return lock.Release(ctx)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("trial: the client never granted a lock: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
