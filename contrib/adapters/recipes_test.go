package adapters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/contrib/fencing"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/election"
)

// What follows is the code of docs/recipes.md; the other tests run it.

func runAsynq(
	ctx context.Context, client *redlock.Client, redis asynq.RedisConnOpt, every string, task *asynq.Task,
) error {
	candidate, err := election.New(client, "scheduler", election.Options{})
	if err != nil {
		return err
	}
	return candidate.Run(ctx, func(ctx context.Context, _ uint64) error {
		scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.WarnLevel})
		if _, err := scheduler.Register(every, task); err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		defer scheduler.Shutdown() // waits for tasks that are being enqueued
		<-ctx.Done()
		return nil
	})
}

func runCron(ctx context.Context, client *redlock.Client, every string, job func(context.Context)) error {
	candidate, err := election.New(client, "cron", election.Options{})
	if err != nil {
		return err
	}
	return candidate.Run(ctx, func(ctx context.Context, _ uint64) error {
		c := cron.New()
		if _, err := c.AddFunc(every, func() { job(ctx) }); err != nil {
			return err
		}
		c.Start()
		<-ctx.Done()
		<-c.Stop().Done() // waits for jobs that are running; their context has ended
		return nil
	})
}

func migrate(ctx context.Context, client *redlock.Client, db *sql.DB, create string, migrations []string) error {
	return client.Do(ctx, "migrate:billing", 10*time.Second, func(ctx context.Context) error {
		number, err := fencing.FromContext(ctx)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, create); err != nil {
			return err
		}
		for done := false; !done && err == nil; {
			done, err = migrateOnce(ctx, db, number, migrations)
		}
		return err
	})
}

// migrateOnce makes the next migration, and reports whether there was none.
func migrateOnce(ctx context.Context, db *sql.DB, number uint64, migrations []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // does nothing after Commit
	const claim = `INSERT INTO migrated (id, version, fence) VALUES (1, 0, $1)
		ON CONFLICT (id) DO UPDATE SET fence = excluded.fence WHERE migrated.fence <= excluded.fence`
	if err := fencing.Changed(tx.ExecContext(ctx, claim, number)); err != nil {
		return false, err // ErrStale: a later instance is at work
	}
	var version int
	if err := tx.QueryRowContext(ctx, "SELECT version FROM migrated").Scan(&version); err != nil {
		return false, err
	}
	if version >= len(migrations) {
		return true, tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, migrations[version]); err != nil {
		return false, fmt.Errorf("migration %d: %w", version+1, err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE migrated SET version = $1", version+1); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

type credential struct {
	secret  string
	expires time.Time
}

// good reports whether there is time enough to use it.
func (c credential) good() bool { return time.Until(c.expires) > time.Minute }

// freshCredential returns a good credential. refresh gets the one that expires,
// or none.
func freshCredential(
	ctx context.Context, client *redlock.Client, db *sql.DB, name string,
	refresh func(context.Context, credential) (credential, error),
) (c credential, err error) {
	if c, err = storedCredential(ctx, db, name); err != nil || c.good() {
		return c, err
	}
	err = client.Do(ctx, "credential:"+name, 10*time.Second, func(ctx context.Context) error {
		number, err := fencing.FromContext(ctx)
		if err != nil {
			return err
		}
		if c, err = storedCredential(ctx, db, name); err != nil || c.good() {
			return err // another process has refreshed it
		}
		if c, err = refresh(ctx, c); err != nil {
			return err
		}
		const store = `INSERT INTO credential (name, secret, expires, fence) VALUES ($1, $2, $3, $4)
			ON CONFLICT (name) DO UPDATE SET secret = excluded.secret, expires = excluded.expires, fence = excluded.fence
			WHERE credential.fence <= excluded.fence`
		return fencing.Changed(db.ExecContext(ctx, store, name, c.secret, c.expires.Unix(), number))
	})
	return c, err
}

func storedCredential(ctx context.Context, db *sql.DB, name string) (c credential, err error) {
	var expires int64
	err = db.QueryRowContext(ctx, "SELECT secret, expires FROM credential WHERE name = $1", name).Scan(&c.secret, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return credential{}, nil
	}
	c.expires = time.Unix(expires, 0)
	return c, err
}

func elastiCache(
	cache, user, region string, provider aws.CredentialsProvider,
) func(context.Context, redlock.Node) (conn.Credentials, error) {
	const valid = 15 * time.Minute
	const noBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // its SHA-256
	query := url.Values{"Action": {"connect"}, "User": {user}, "X-Amz-Expires": {fmt.Sprint(valid.Seconds())}}
	return func(ctx context.Context, _ redlock.Node) (conn.Credentials, error) {
		keys, err := provider.Retrieve(ctx)
		if err != nil {
			return conn.Credentials{}, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cache+"/?"+query.Encode(), nil)
		if err != nil {
			return conn.Credentials{}, err
		}
		now := time.Now()
		signed, _, err := v4.NewSigner().PresignHTTP(ctx, keys, request, noBody, "elasticache", region, now)
		token := strings.TrimPrefix(signed, "http://")
		return conn.Credentials{Username: user, Password: token, Expires: now.Add(valid)}, err
	}
}
