// Package caddystorage is a storage module of Caddy that locks with package
// redlock, so that the instances of a cluster obtain each certificate once. It
// keeps nothing itself: certificates are in another storage, which all
// instances share, and whose own locks are not used.
//
// Build Caddy with it, and configure it:
//
//	{
//		"storage": {
//			"module": "redlock",
//			"masters": ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"],
//			"storage": {"module": "file_system", "root": "/shared/caddy"}
//		}
//	}
//
// In a Caddyfile, as a global option:
//
//	storage redlock {
//		masters redis://10.0.0.1:6379 redis://10.0.0.2:6379 redis://10.0.0.3:6379
//		storage file_system /shared/caddy
//	}
//
// A lock that is lost, because its process was paused or its masters are gone,
// does not end what certmagic is doing. Then two instances may ask for one
// certificate, which costs an order and harms nothing else.
package caddystorage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"github.com/redmux/redmux/contrib/certmagiclock"
	"github.com/redmux/redmux/redlock"
)

func init() { caddy.RegisterModule(Storage{}) }

// Storage is another storage with the locks of redlock. Caddy creates it from
// its configuration.
type Storage struct {
	// Masters are the URLs of all masters, as redlock.Nodes takes them. Global
	// placeholders are replaced, such as {env.MASTER_1}, so that passwords need
	// not be in the configuration. All instances name the same masters.
	Masters []string `json:"masters,omitempty"`
	// Prefix precedes the names of locks. If zero, "certmagic:". Clusters that
	// share masters, but not certificates, need different ones.
	Prefix string `json:"prefix,omitempty"`
	// TTL is how long a lock outlives an instance that dies. If zero, 30 s,
	// which is also the most.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// StorageRaw is the storage that keeps the certificates. If zero, Caddy's
	// default, which is a folder of this machine: it must be one that the
	// instances share.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=caddy.storage inline_key=module"`

	inner certmagic.Storage
	key   string // in pool: a hash of what makes the client
	locks *locks
}

// CaddyModule returns the module's ID, caddy.storage.redlock.
func (Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.redlock", New: func() caddy.Module { return new(Storage) }}
}

// pool keeps clients while Caddy loads another configuration, so that a lock
// that is held meanwhile can be released. A client logs as the configuration
// says that made it.
var pool = caddy.NewUsagePool()

// locks are a client and its locks.
type locks struct {
	*certmagiclock.Locker
	client *redlock.Client
}

// Destruct closes the client when no configuration uses it. Locks that are
// still held end with their TTL.
func (l *locks) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return l.client.Close(ctx)
}

// Provision loads the other storage and connects to the masters. It returns an
// error for a configuration that is invalid, and none if masters are down: then
// certificates wait for them.
func (s *Storage) Provision(ctx caddy.Context) error {
	s.inner = caddy.DefaultStorage
	if s.StorageRaw != nil {
		module, err := ctx.LoadModule(s, "StorageRaw")
		if err != nil {
			return err
		}
		if s.inner, err = module.(caddy.StorageConverter).CertMagicStorage(); err != nil {
			return err
		}
	}
	if len(s.Masters) == 0 {
		return errors.New("no masters are configured")
	}
	if ttl := time.Duration(s.TTL); ttl > redlock.DefaultMaxTTL {
		return fmt.Errorf("ttl is %v, and may be at most %v", ttl, redlock.DefaultMaxTTL)
	}
	masters := make([]string, len(s.Masters))
	for i, master := range s.Masters {
		masters[i] = caddy.NewReplacer().ReplaceKnown(master, "")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %v", masters, s.Prefix, s.TTL))
	key := hex.EncodeToString(sum[:]) // not the passwords themselves (R27)
	shared, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		client, err := redlock.New(ctx, redlock.Config{Nodes: redlock.Nodes(masters...), Logger: ctx.Slogger()})
		if err != nil {
			return nil, err
		}
		locker, err := certmagiclock.New(client, certmagiclock.Options{Prefix: s.Prefix, TTL: time.Duration(s.TTL)})
		if err != nil {
			return nil, errors.Join(err, client.Close(ctx))
		}
		return &locks{locker, client}, nil
	})
	if err != nil {
		return err
	}
	s.key, s.locks = key, shared.(*locks)
	return nil
}

// Cleanup gives the client up, which is closed if no other configuration uses
// it. Further calls do nothing.
func (s *Storage) Cleanup() error {
	if s == nil || s.key == "" {
		return nil // it was never in the pool, or is no more
	}
	key := s.key
	s.key = "" // not in the pool
	_, err := pool.Delete(key)
	return err
}

// Format prints no field, whatever the verb: URLs may hold passwords.
func (Storage) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redlock") }

// CertMagicStorage returns the storage for certmagic.
func (s *Storage) CertMagicStorage() (certmagic.Storage, error) {
	if s == nil || s.locks == nil {
		return nil, errors.New("caddystorage: the storage is not provisioned")
	}
	return locked{unlocked{s.inner}, s.locks.Locker}, nil
}

// UnmarshalCaddyfile reads the options masters, prefix, ttl and storage.
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		switch d.Val() {
		case "masters":
			s.Masters = append(s.Masters, d.RemainingArgs()...)
		case "prefix":
			if !d.AllArgs(&s.Prefix) {
				return d.ArgErr()
			}
		case "ttl":
			var text string
			if !d.AllArgs(&text) {
				return d.ArgErr()
			}
			ttl, err := caddy.ParseDuration(text)
			if err != nil {
				return d.Errf("ttl: %v", err)
			}
			s.TTL = caddy.Duration(ttl)
		case "storage":
			if !d.NextArg() {
				return d.ArgErr()
			}
			name := d.Val()
			module, err := caddyfile.UnmarshalModule(d, "caddy.storage."+name)
			if err != nil {
				return err
			}
			s.StorageRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
		default:
			return d.Errf("unrecognized option %q", d.Val())
		}
	}
	return nil
}

// locked is a storage with other locks: the methods of Locker hide those of the
// storage, which is embedded one level deeper.
type locked struct {
	unlocked
	*certmagiclock.Locker
}

type unlocked struct{ certmagic.Storage }

// String describes the storage in Caddy's log.
func (l locked) String() string { return strings.TrimSpace(fmt.Sprint("redlock ", l.Storage)) }

var (
	_ caddy.Provisioner          = (*Storage)(nil)
	_ caddy.CleanerUpper         = (*Storage)(nil)
	_ caddy.StorageConverter     = (*Storage)(nil)
	_ caddyfile.Unmarshaler      = (*Storage)(nil)
	_ certmagic.TryLocker        = locked{}
	_ certmagic.LockLeaseRenewer = locked{}
)
