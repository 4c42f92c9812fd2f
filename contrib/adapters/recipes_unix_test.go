//go:build unix

package adapters

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/contrib/cronlock"
	"github.com/redmux/redmux/contrib/fencing"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlocktest"
)

var _ cron.Job = (*cronlock.Job)(nil)

// Of two processes that run the recipe one runs jobs. When it retires, the
// other does, and not before the last job of the first has returned.
func TestCronOfTheLeader(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 3)
	var running, runs [2]atomic.Int32
	var both atomic.Bool // jobs of both ran at a time
	var ends [2]context.CancelFunc
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 2 {
		client := d.Client(t, patient, candidate)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ends[i] = cancel
		wg.Go(func() {
			err := runCron(ctx, client, "@every 1s", func(ctx context.Context) {
				running[i].Add(1)
				if running[1-i].Load() > 0 {
					both.Store(true)
				}
				runs[i].Add(1)
				<-ctx.Done()                        // a job that lasts
				time.Sleep(1500 * time.Millisecond) // and takes some time to end
				running[i].Add(-1)
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if i == 0 {
			require.Eventually(t, func() bool { return runs[0].Load() > 0 }, patience, time.Millisecond)
		}
	}
	require.Zero(t, runs[1].Load())
	ends[0]()
	require.Eventually(t, func() bool { return runs[1].Load() > 0 }, patience, time.Millisecond)
	require.False(t, both.Load(), "the second began while jobs of the first still ran")
	ends[1]()
	require.Error(t, runCron(t.Context(), d.Client(t, patient, candidate), "no time", nil), "a mistake ends it")
}

// Two processes run the recipe: one enqueues tasks. When it is told to end, the
// other one does; the queue shows that they never took turns otherwise.
func TestAsynqSchedulerOfTheLeader(t *testing.T) {
	redistest.Require(t)
	d := redlocktest.New(t, 3)
	queue := asynq.RedisClientOpt{Addr: redistest.Servers(t, 1, redistest.OverTCP)[0].TCPAddr()}
	var running sync.WaitGroup
	defer running.Wait()
	start := func(name string) (retire context.CancelFunc) {
		client := d.Client(t, patient, candidate)
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() {
			if err := runAsynq(ctx, client, queue, "@every 1s", asynq.NewTask("report", []byte(name))); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		return cancel
	}
	inspector := asynq.NewInspector(queue)
	defer inspector.Close()
	// waitFor waits until the last of these processes has enqueued four tasks,
	// in which time others could do what they must not.
	waitFor := func(want ...string) {
		t.Helper()
		var names []string // of the process that enqueued each task, in order
		require.Eventually(t, func() bool {
			tasks, err := inspector.ListPendingTasks("default", asynq.PageSize(1000))
			if !errors.Is(err, asynq.ErrQueueNotFound) {
				require.NoError(t, err)
			}
			names = nil
			last := 0
			for _, task := range tasks {
				name := string(task.Payload)
				if names = append(names, name); name == want[len(want)-1] {
					last++
				}
			}
			return last >= 4
		}, 2*patience, 10*time.Millisecond)
		require.Equal(t, want, slices.Compact(names))
	}
	retire := start("a")
	waitFor("a")
	defer start("b")()
	retire()
	waitFor("a", "b")
}

// fenced gives a client what the recipes with numbers need.
func fenced(c *redlock.Config) { c.Fenced = true }

// createTable returns the statement of docs/recipes.md for the table of
// migrations (0) or credentials (1).
func createTable(t *testing.T, i int) string {
	t.Helper()
	blocks := shown(t, "recipes.md", "sql")
	require.Len(t, blocks, 2)
	return blocks[i]
}

var migrations = []string{
	"CREATE TABLE customer (id bigint PRIMARY KEY)",
	"INSERT INTO customer (id) VALUES (7)",
	"ALTER TABLE customer ADD COLUMN name text NOT NULL DEFAULT 'none'",
}

// Five instances start at once: each migration is made once, and none of the
// instances goes on before all are made.
func TestMigrationsAreMadeOnce(t *testing.T) {
	create := createTable(t, 0)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		dropTables(t, db)
		d := redlocktest.New(t, 3)
		var wg sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			client := d.Client(t, patient, fenced)
			wg.Go(func() {
				errs[i] = migrate(t.Context(), client, db, create, migrations)
				var name string
				errs[i] = errors.Join(errs[i], db.QueryRowContext(t.Context(), "SELECT name FROM customer").Scan(&name))
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		var version, customers int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT version FROM migrated").Scan(&version))
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM customer").Scan(&customers))
		require.Equal(t, len(migrations), version)
		require.Equal(t, 1, customers)
	})
}

// The second migration fails in one instance, and leaves nothing; the next
// instance goes on there. One that was paused meanwhile is refused.
func TestMigrationsThatFailAreTakenOver(t *testing.T) {
	create := createTable(t, 0)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		dropTables(t, db)
		client := redlocktest.New(t, 3).Client(t, patient, fenced)
		broken := []string{migrations[0], "INSERT INTO nothing (id) VALUES (7)"}
		require.ErrorContains(t, migrate(t.Context(), client, db, create, broken), "migration 2")

		var paused uint64
		require.NoError(t, client.Do(t.Context(), "migrate:billing", 10*time.Second, func(ctx context.Context) (err error) {
			paused, err = fencing.FromContext(ctx)
			return err
		}))
		require.NoError(t, migrate(t.Context(), client, db, create, migrations))
		more := append(migrations[:3:3], "DROP TABLE customer")
		_, err := migrateOnce(t.Context(), db, paused, more)
		require.ErrorIs(t, err, fencing.ErrStale)
		require.NoError(t, migrate(t.Context(), client, db, create, migrations[:1]), "an older program does nothing")
		var name string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT name FROM customer").Scan(&name))
	})
	require.ErrorIs(t, migrate(t.Context(), redlocktest.New(t, 3).Client(t, patient), nil, create, nil), fencing.ErrNoNumber)
}

func dropTables(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, table := range []string{"migrated", "customer", "credential"} {
		_, err := db.ExecContext(t.Context(), "DROP TABLE IF EXISTS "+table)
		require.NoError(t, err)
	}
}

// Ten processes need a credential at once, when there is none, and again when
// it is about to expire: the issuer is asked once each time, and all get the
// same.
func TestACredentialIsRefreshedOnce(t *testing.T) {
	create := createTable(t, 1)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		dropTables(t, db)
		_, err := db.ExecContext(t.Context(), create)
		require.NoError(t, err)
		d := redlocktest.New(t, 3)
		var clients []*redlock.Client
		for range 10 {
			clients = append(clients, d.Client(t, patient, fenced))
		}
		var asked atomic.Int32
		refresh := func(_ context.Context, old credential) (credential, error) {
			n := asked.Add(1)
			time.Sleep(50 * time.Millisecond) // an issuer takes some time
			if n > 1 && old.secret != fmt.Sprint("secret ", n-1) {
				return credential{}, errors.New("an old token")
			}
			return credential{fmt.Sprint("secret ", n), time.Now().Add(time.Hour)}, nil
		}
		for round := range 3 {
			var wg sync.WaitGroup
			for _, client := range clients {
				wg.Go(func() {
					c, err := freshCredential(t.Context(), client, db, "partner", refresh)
					if err != nil || c.secret != fmt.Sprint("secret ", round+1) || !c.good() {
						t.Error(c.secret, err)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, round+1, asked.Load())
			_, err := db.ExecContext(t.Context(), "UPDATE credential SET expires = $1", time.Now().Add(10*time.Second).Unix())
			require.NoError(t, err)
		}
	})
}

// An issuer that fails costs one process an error; the next one asks again. So
// it does when the process that refreshes has died, within the TTL. One that
// was only paused stores nothing.
func TestARefreshThatEndsEarly(t *testing.T) {
	redistest.NoLeaks(t)
	create := createTable(t, 1)
	db, err := inSQLite(t).open()
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), create)
	require.NoError(t, err)
	d := redlocktest.New(t, 3)
	client, other := d.Client(t, patient, fenced), d.Client(t, patient, fenced)
	fails := errors.New("the issuer is down")
	_, err = freshCredential(t.Context(), client, db, "partner", func(context.Context, credential) (credential, error) {
		return credential{}, fails
	})
	require.ErrorIs(t, err, fails)

	// A lock that is not renewed stands for that of a process that has died.
	_, err = client.Acquire(t.Context(), "credential:partner", 2*time.Second)
	require.NoError(t, err)
	good := func(secret string) func(context.Context, credential) (credential, error) {
		return func(context.Context, credential) (credential, error) {
			return credential{secret, time.Now().Add(time.Hour)}, nil
		}
	}
	c, err := freshCredential(t.Context(), other, db, "partner", good("second"))
	require.NoError(t, err)
	require.Equal(t, "second", c.secret)

	_, err = db.ExecContext(t.Context(), "UPDATE credential SET expires = 0")
	require.NoError(t, err)
	_, err = freshCredential(t.Context(), client, db, "partner", func(ctx context.Context, _ credential) (credential, error) {
		// What a later holder has stored while this process was paused.
		_, err := db.ExecContext(ctx, "UPDATE credential SET secret = 'third', fence = $1", uint64(fencing.Last))
		return credential{"late", time.Now().Add(time.Hour)}, err
	})
	require.ErrorIs(t, err, fencing.ErrStale)
	c, err = storedCredential(t.Context(), db, "partner")
	require.NoError(t, err)
	require.Equal(t, "third", c.secret)
}

// The token is a request that the provider can verify, and servers take it for
// a password. The recipe gets a new one each time.
func TestTokenOfElastiCache(t *testing.T) {
	keys := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "s3cret", SessionToken: "session"}
	var failure error
	token := elastiCache("locks-1", "app", "eu-central-1", aws.CredentialsProviderFunc(
		func(context.Context) (aws.Credentials, error) { return keys, failure }))
	cr, err := token(t.Context(), redlock.Node{})
	require.NoError(t, err)
	require.Equal(t, "app", cr.Username)
	require.WithinDuration(t, time.Now().Add(15*time.Minute), cr.Expires, patience)
	require.NotContains(t, cr.Password, "s3cret")
	signed, err := url.Parse("http://" + cr.Password)
	require.NoError(t, err)
	require.Equal(t, "locks-1", signed.Host)
	at, err := time.Parse("20060102T150405Z", signed.Query().Get("X-Amz-Date"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, patience)
	request, err := http.NewRequest(http.MethodGet, "http://locks-1/?Action=connect&User=app&X-Amz-Expires=900", nil)
	require.NoError(t, err)
	nothing := sha256.Sum256(nil)
	same, _, err := v4.NewSigner().PresignHTTP(t.Context(), keys, request, hex.EncodeToString(nothing[:]), "elasticache", "eu-central-1", at)
	require.NoError(t, err)
	require.Equal(t, "http://"+cr.Password, same)

	s := redistest.Servers(t, 1, redistest.OverTCP)[0]
	_, err = s.Do("ACL", "SETUSER", "app", "on", ">"+cr.Password, "~*", "&*", "+@all")
	require.NoError(t, err)
	config := redlock.Config{Nodes: redlock.Nodes(s.URL()), Connect: redlock.Connect{
		Credentials: func(context.Context, redlock.Node) (conn.Credentials, error) { return cr, nil },
	}}
	_, err = admin.Init(t.Context(), config)
	require.NoError(t, err)
	client, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, client.Do(t.Context(), "r", time.Second, func(context.Context) error { return nil }))
	require.NoError(t, client.Close(t.Context()))

	failure = errors.New("no keys")
	_, err = token(t.Context(), redlock.Node{})
	require.ErrorIs(t, err, failure)
}
