//go:build unix

package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/contrib/fencing"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// A protected is something that both kinds of holders write to.
type protected struct {
	name   string
	plain  func(ctx context.Context, state string) error // as the holder of a lock without a number does
	fenced func(ctx context.Context, state string) error // as docs/fencing.md shows
	// read returns what plain and fenced wrote last.
	read func(ctx context.Context) (plain, fenced string, err error)
}

const (
	// unfencedWrite is the statement without its comparison.
	unfencedWrite = "INSERT INTO invoice (id, state, fence) VALUES ($1, $2, 1) ON CONFLICT (id) DO UPDATE SET state = excluded.state"
	selectState   = "SELECT state FROM invoice WHERE id = $1"
)

// allProtected starts and connects to everything that is protected.
func allProtected(t *testing.T) (all []protected) {
	t.Helper()
	redistest.Require(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redistest.Servers(t, 1, redistest.OverTCP)[0].TCPAddr()}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	get := func(ctx context.Context, key string) (string, error) {
		return client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	}
	all = append(all, protected{
		"redis",
		func(ctx context.Context, state string) error {
			return client.Do(ctx, client.B().Set().Key("{invoice:plain}").Value(state).Build()).Error()
		},
		func(ctx context.Context, state string) error { return payInRedis(ctx, client, "fenced", state) },
		func(ctx context.Context) (plain, fenced string, err error) {
			plain, err = get(ctx, "{invoice:plain}")
			fenced, err2 := get(ctx, "{invoice:fenced}")
			return plain, fenced, errors.Join(err, err2)
		},
	})
	s := shownStatements(t)
	for _, at := range []place{inSQLite(t), {"postgres", startPostgres(t)}} {
		if at.Address == "" {
			continue
		}
		db, err := at.open()
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		_, err = db.ExecContext(t.Context(), s.create)
		require.NoError(t, err)
		read := func(first, second string) func(ctx context.Context) (a, b string, err error) {
			return func(ctx context.Context) (a, b string, err error) {
				return a, b, errors.Join(db.QueryRowContext(ctx, selectState, first).Scan(&a), db.QueryRowContext(ctx, selectState, second).Scan(&b))
			}
		}
		write := func(id string) func(ctx context.Context, state string) error {
			return func(ctx context.Context, state string) error {
				return fencing.Changed(db.ExecContext(ctx, unfencedWrite, id, state))
			}
		}
		all = append(all, protected{
			at.Driver, write("plain"), func(ctx context.Context, state string) error { return payInSQL(ctx, db, s.write, "fenced", state) },
			read("plain", "fenced"),
		})
		mux := http.NewServeMux()
		mux.Handle("PUT /invoices/{id}", servePayments(db, s.write))
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		all = append(all, protected{
			"http before " + at.Driver, write("http-plain"), func(ctx context.Context, state string) error {
				return payOverHTTP(ctx, server.URL+"/invoices/http-fenced", state)
			}, read("http-plain", "http-fenced"),
		})
	}
	store := remote(newObjectStore(t).URL)
	return append(all, protected{
		"store",
		func(ctx context.Context, state string) error {
			_, _, err := store.do(ctx, http.MethodPut, "plain", []byte(state))
			return err
		},
		func(ctx context.Context, state string) error { return payInStore(ctx, store, "fenced", state) },
		func(ctx context.Context) (string, string, error) {
			_, plain, err := store.Get(ctx, "plain")
			_, content, err2 := store.Get(ctx, "fenced")
			var fenced invoice
			return string(plain), fenced.State, errors.Join(err, err2, json.Unmarshal(content, &fenced))
		},
	})
}

// A holder looks at its context, and is then stopped past its validity, while
// another takes the lock and writes. When the first continues, it writes: what is
// not protected takes that, and what is protected refuses it.
func TestProtectedFromAStoppedHolder(t *testing.T) {
	all, d := allProtected(t), redlocktest.New(t, 3)
	// hold takes a lock without a number, and one with. Its contexts do not end
	// with them, as a program does not see that they do.
	hold := func(ttl time.Duration) (plain, fenced context.Context) {
		var contexts [2]context.Context
		for i, resource := range []string{"plain", "fenced"} {
			client := d.Client(t, patient, func(c *redlock.Config) { c.Fenced = i == 1 })
			held, err := client.Hold(t.Context(), resource, redlock.HoldOptions{TTL: ttl, NoRenewal: true})
			require.NoError(t, err)
			contexts[i] = context.WithoutCancel(held.Context())
		}
		return contexts[0], contexts[1]
	}
	plain, fenced := hold(time.Second)
	for _, one := range all {
		require.NoError(t, errors.Join(one.plain(plain, "first"), one.fenced(fenced, "first")), one.name)
	}
	laterPlain, laterFenced := hold(20 * time.Second) // once the first one's locks have expired
	for _, one := range all {
		require.NoError(t, errors.Join(one.plain(laterPlain, "later"), one.fenced(laterFenced, "later")), one.name)
	}
	for _, one := range all {
		require.NoError(t, one.plain(plain, "earlier"), one.name)
		err := one.fenced(fenced, "earlier")
		require.True(t, fencing.Refused(err), "%s: %v", one.name, err)
		first, second, err := one.read(t.Context())
		require.NoError(t, err)
		require.Equal(t, "earlier", first, "%s without a number keeps the stopped holder out", one.name)
		require.Equal(t, "later", second, "%s lets the stopped holder write", one.name)
		require.NoError(t, one.fenced(laterFenced, "again"), one.name) // the later holder goes on
	}
}
