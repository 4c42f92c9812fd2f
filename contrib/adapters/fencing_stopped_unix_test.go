//go:build unix

package adapters

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redmux/redmux/contrib/fencing"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

// protectedPlaces tells a process of this test binary that it is the first
// holder, and where everything is.
const protectedPlaces = "REDMUX_TEST_PROTECTED"

// places is all that both holders need to know.
type places struct {
	Masters     []string
	Redis       string
	SQL         []place
	HTTP, Store string
	Write       string // the statement of the document
}

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

// open connects to everything that is protected.
func (p places) open() (all []protected, err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.Redis}, DisableCache: true})
	if err != nil {
		return nil, err
	}
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
	for _, at := range p.SQL {
		db, err := at.open()
		if err != nil {
			return nil, err
		}
		all = append(all, protected{
			at.Driver,
			func(ctx context.Context, state string) error {
				return fencing.Changed(db.ExecContext(ctx, unfencedWrite, "plain", state))
			},
			func(ctx context.Context, state string) error { return payInSQL(ctx, db, p.Write, "fenced", state) },
			func(ctx context.Context) (string, string, error) { return readStates(ctx, db, "plain", "fenced") },
		})
		if at.Driver != "sqlite" {
			continue
		}
		all = append(all, protected{
			"http",
			func(ctx context.Context, state string) error {
				_, _, err := remote(p.HTTP).do(ctx, http.MethodPut, "plain/http-plain", []byte(state))
				return err
			},
			func(ctx context.Context, state string) error {
				return payOverHTTP(ctx, p.HTTP+"/invoices/http-fenced", state)
			},
			func(ctx context.Context) (string, string, error) {
				return readStates(ctx, db, "http-plain", "http-fenced")
			},
		})
	}
	store := remote(p.Store)
	all = append(all, protected{
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
	return all, nil
}

func readStates(ctx context.Context, db *sql.DB, first, second string) (a, b string, err error) {
	return a, b, errors.Join(db.QueryRowContext(ctx, selectState, first).Scan(&a),
		db.QueryRowContext(ctx, selectState, second).Scan(&b))
}

// start starts everything.
func start(t *testing.T) places {
	t.Helper()
	redistest.Require(t)
	p := places{
		Masters: redlocktest.New(t, 3, redlocktest.Real()).URLs(),
		Redis:   redistest.Servers(t, 1, redistest.OverTCP)[0].TCPAddr(),
		SQL:     []place{inSQLite(t)},
		Store:   newObjectStore(t).URL,
	}
	if address := startPostgres(t); address != "" {
		p.SQL = append(p.SQL, place{"postgres", address})
	}
	s := shownStatements(t)
	p.Write = s.write
	for i, at := range p.SQL {
		db, err := at.open()
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		_, err = db.ExecContext(t.Context(), s.create)
		require.NoError(t, err)
		if i > 0 {
			continue
		}
		mux := http.NewServeMux()
		mux.Handle("PUT /invoices/{id}", servePayments(db, s.write))
		mux.HandleFunc("PUT /plain/{id}", func(w http.ResponseWriter, r *http.Request) {
			state, err := io.ReadAll(r.Body)
			if err == nil {
				_, err = db.ExecContext(r.Context(), unfencedWrite, r.PathValue("id"), string(state))
			}
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		p.HTTP = server.URL
	}
	return p
}

// hold takes two locks, one without a number and one with, and returns contexts
// that come from them and do not end with them: a program can be stopped after
// the last look at its context.
func (p places) hold(ctx context.Context, ttl time.Duration) (plain, fenced context.Context, end func(), err error) {
	var clients [2]*redlock.Client
	var holds [2]*redlock.Hold
	for i, resource := range []string{"plain", "fenced"} {
		clients[i], err = redlock.New(ctx, redlock.Config{
			Nodes: redlock.Nodes(p.Masters...), Fenced: i == 1, NodeTimeout: patience,
		})
		if err != nil {
			return nil, nil, nil, err
		}
		holds[i], err = clients[i].Hold(ctx, resource, redlock.HoldOptions{TTL: ttl})
		if err != nil {
			return nil, nil, nil, err
		}
	}
	end = func() {
		for i := range clients {
			_ = holds[i].Release(ctx)
			_ = clients[i].Close(ctx)
		}
	}
	return context.WithoutCancel(holds[0].Context()), context.WithoutCancel(holds[1].Context()), end, nil
}

// A process that holds a lock is stopped past its validity, and another takes
// the lock and writes. When the first continues, it writes: what is not
// protected takes that, and what is protected refuses it.
func TestProtectedFromAStoppedHolder(t *testing.T) {
	if text := os.Getenv(protectedPlaces); text != "" {
		if err := writeLate(text); err != nil {
			fmt.Println(err)
		}
		return
	}
	p := start(t)
	text, err := json.Marshal(p)
	require.NoError(t, err)
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=300s")
	child.Env = append(os.Environ(), protectedPlaces+"="+string(text))
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, redistest.Spawn(child))
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(out)
	says := func() string {
		require.True(t, lines.Scan(), "the child is gone")
		return lines.Text()
	}

	require.Equal(t, "holds", says())
	require.NoError(t, redistest.StopProcess(child.Process))
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	plain, fenced, end, err := p.hold(ctx, 20*time.Second) // once the child's locks have expired
	require.NoError(t, err)
	defer end()
	all, err := p.open()
	require.NoError(t, err)
	for _, one := range all {
		require.NoError(t, one.plain(plain, "later"), one.name)
		require.NoError(t, one.fenced(fenced, "later"), one.name)
	}
	_, err = fmt.Fprintln(in, "write") // in its pipe before it continues
	require.NoError(t, err)
	require.NoError(t, redistest.ContinueProcess(child.Process))
	for _, one := range all {
		require.Equal(t, one.name+": plain: accepted", says())
		require.Equal(t, one.name+": fenced: refused", says())
		first, second, err := one.read(ctx)
		require.NoError(t, err)
		require.Equal(t, "earlier", first, "%s without a number keeps the stopped holder out", one.name)
		require.Equal(t, "later", second, "%s lets the stopped holder write", one.name)
		require.NoError(t, one.fenced(fenced, "again"), one.name) // the later holder goes on
	}
	for _, held := range []context.Context{plain, fenced} {
		hold, _ := redlock.FromContext(held)
		require.NoError(t, hold.Err(), "all this time another process had the lock")
	}
}

// writeLate is the child: it holds, looks, and writes when it is told to.
func writeLate(text string) error {
	var p places
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	all, err := p.open()
	if err != nil {
		return err
	}
	ctx := context.Background()
	plain, fenced, _, err := p.hold(ctx, time.Second)
	if err != nil {
		return err
	}
	for _, one := range all { // its connections are there, so its writes come quickly
		if err := errors.Join(one.plain(plain, "first"), one.fenced(fenced, "first")); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	fmt.Println("holds")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	outcome := func(err error) string {
		switch {
		case err == nil:
			return "accepted"
		case fencing.Refused(err):
			return "refused"
		}
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	for _, one := range all {
		fmt.Println(one.name+": plain:", outcome(one.plain(plain, "earlier")))
		fmt.Println(one.name+": fenced:", outcome(one.fenced(fenced, "earlier")))
	}
	return nil
}
