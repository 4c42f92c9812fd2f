package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/redlock"
)

// peerName is etcd's name in tables.
const peerName = "etcd"

// etcd is the Mutex of etcd's package concurrency, used as its documentation
// advises: one client and one session for the process, whose lease is the TTL
// of its locks and is kept alive, and a Mutex for each lock.
var etcd = compare.Peer{
	Name:    peerName,
	Modules: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3"},
	About:   "concurrency.Mutex on one client and one session, TryLock and Unlock; N members instead of N masters",
}.With(open)

// sessionTTL is the lease's, in seconds: the TTL of the other side's locks.
const sessionTTL = 10

// openTimeout bounds how long a session is waited for.
const openTimeout = 10 * time.Second

func open(urls []string) (compare.Pairer, error) {
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
			return compare.PairerOf[*etcdLease](&etcdLocker{client, session}), nil
		}
	}
	return nil, errors.Join(err, client.Close())
}

type etcdLocker struct {
	client  *clientv3.Client
	session *concurrency.Session
}

type etcdLease struct{ *concurrency.Mutex }

// TryAcquire makes one try. The TTL is the session's.
func (l *etcdLocker) TryAcquire(ctx context.Context, resource string, _ time.Duration) (*etcdLease, error) {
	m := concurrency.NewMutex(l.session, resource)
	err := m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		err = redlock.ErrHeld
	}
	return &etcdLease{m}, err
}

// Release deletes the lock's key. etcd does not tell whether it was there.
func (l *etcdLease) Release(ctx context.Context) error { return l.Unlock(ctx) }

// Close ends the session, with all of its locks.
func (l *etcdLocker) Close(context.Context) error {
	return errors.Join(l.session.Close(), l.client.Close())
}
