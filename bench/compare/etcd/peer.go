//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/redlock"
)

// peerName is etcd's name in figures.
const peerName = "etcd"

// etcd is the Mutex of etcd's package concurrency, used as its documentation
// advises: one client and one session for the process, whose lease is the TTL of
// its locks and is kept alive, and a Mutex for each lock. It uses no masters, but
// clusters of as many members, which it starts.
type etcd struct {
	dir      string
	clusters map[int]*cluster
	noFsync  bool
}

func (e *etcd) implementation() load.Implementation {
	return load.Implementation{
		Name: peerName, About: "concurrency.Mutex of a cluster of as many members",
		Open: func(s load.Settings) (load.System, error) {
			c, err := e.cluster(len(s.URLs))
			if err != nil {
				return nil, err
			}
			l, err := open(c.urls)
			if err != nil {
				return nil, err
			}
			return load.Drive(l), nil
		},
	}
}

// cluster starts a cluster when it is first asked for.
func (e *etcd) cluster(members int) (c *cluster, err error) {
	if c = e.clusters[members]; c != nil {
		return c, nil
	}
	if e.dir == "" {
		if e.dir, err = os.MkdirTemp("", "etcd"); err != nil {
			return nil, err
		}
		e.clusters = make(map[int]*cluster)
	}
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		return nil, err
	}
	c, err = startCluster(members, dir, e.noFsync)
	if err == nil {
		e.clusters[members] = c
	}
	return c, err
}

// close ends the clusters.
func (e *etcd) close() {
	for _, c := range e.clusters {
		c.close()
	}
	if e.dir != "" {
		_ = os.RemoveAll(e.dir)
	}
}

// sessionTTL is the lease's, in seconds: the TTL of the other side's locks.
const sessionTTL = 10

// openTimeout bounds how long a session is waited for.
const openTimeout = 10 * time.Second

func open(urls []string) (*etcdLocker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: openTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	lease, err := client.Grant(ctx, sessionTTL)
	if err == nil {
		var session *concurrency.Session
		if session, err = concurrency.NewSession(client, concurrency.WithLease(lease.ID)); err == nil {
			return &etcdLocker{client, session}, nil
		}
	}
	return nil, errors.Join(err, client.Close())
}

type etcdLocker struct {
	client  *clientv3.Client
	session *concurrency.Session
}

// An etcdLease is valid while the session is, which keeps its lease alive: it
// states the lease's TTL.
type etcdLease struct {
	*concurrency.Mutex
	until time.Time
}

// TryAcquire makes one try. The TTL is the session's.
func (l *etcdLocker) TryAcquire(ctx context.Context, resource string, _ time.Duration) (*etcdLease, error) {
	m := concurrency.NewMutex(l.session, resource)
	err := m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		err = redlock.ErrHeld
	}
	return &etcdLease{m, time.Now().Add(sessionTTL * time.Second)}, err
}

// Acquire waits until ctx ends.
func (l *etcdLocker) Acquire(ctx context.Context, resource string, _ time.Duration) (*etcdLease, error) {
	m := concurrency.NewMutex(l.session, resource)
	err := m.Lock(ctx)
	return &etcdLease{m, time.Now().Add(sessionTTL * time.Second)}, err
}

// Close ends the session, with all of its locks.
func (l *etcdLocker) Close(context.Context) error {
	return errors.Join(l.session.Close(), l.client.Close())
}

// Release deletes the lock's key. etcd does not tell whether it was there.
func (l *etcdLease) Release(ctx context.Context) error { return l.Unlock(ctx) }

// Until implements bench.Lease.
func (l *etcdLease) Until() time.Time { return l.until }

// Token implements bench.Lease: the key is the session's own.
func (l *etcdLease) Token() (t redlock.Token) {
	copy(t[:], l.Key())
	return t
}
