//go:build unix

package caddystorage

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	"github.com/caddyserver/certmagic"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

func init() { caddy.RegisterModule(issuer{}) }

// issuer is a certificate authority that notes each order in a file, which the
// processes share.
type issuer struct {
	Journal string `json:"journal"`
}

func (issuer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.issuance.test", New: func() caddy.Module { return new(issuer) }}
}

func (*issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	journal, err := os.OpenFile(i.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	if _, err := fmt.Fprintln(journal, "order", csr.DNSNames); err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // an authority takes some time
	chain, err := redistest.Issue(csr)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: chain}, nil
}

// patience is how long a busy machine may take.
const patience = 30 * time.Second

// childConfig tells a process of this test binary that it is a Caddy, and its
// configuration.
const childConfig = "REDMUX_TEST_CADDY"

// config is the configuration of a Caddy that manages one certificate.
func config(masters []string, folder string) string {
	text, err := json.Marshal(map[string]any{
		"admin": map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"storage": map[string]any{
			"module": "redlock", "masters": masters, "ttl": "10s",
			"storage": map[string]any{"module": "file_system", "root": filepath.Join(folder, "storage")},
		},
		"apps": map[string]any{"tls": map[string]any{
			"certificates": map[string]any{"automate": []string{"example.test"}},
			"automation": map[string]any{"policies": []any{map[string]any{
				"issuers": []any{map[string]any{"module": "test", "journal": filepath.Join(folder, "journal")}},
			}}},
		}},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Two Caddys want one certificate while the test holds its lock: both wait.
// Then one asks the authority, and the other finds the certificate.
func TestTwoCaddysObtainACertificateOnce(t *testing.T) {
	if text := os.Getenv(childConfig); text != "" {
		runCaddy(text)
		return
	}
	redistest.Require(t)
	d := redlocktest.New(t, 3, redlocktest.Real())
	folder := t.TempDir()
	client := d.Client(t, func(c *redlock.Config) { c.NodeTimeout = patience })
	hold, err := client.Hold(t.Context(), "certmagic:issue_cert_example.test", redlock.HoldOptions{TTL: 20 * time.Second})
	require.NoError(t, err)
	lines := make(chan string)
	for i := range 2 {
		masters := d.URLs()
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=300s")
		child.Env = append(os.Environ(), childConfig+"="+config(append([]string{"{env.MASTER}"}, masters[1:]...), folder),
			"MASTER="+masters[0], fmt.Sprint("CHILD=", i), "HOME="+t.TempDir())
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, redistest.Spawn(child))
		t.Cleanup(func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		})
		go func() {
			for s := bufio.NewScanner(out); s.Scan(); {
				lines <- s.Text()
			}
		}()
	}
	next := func() string {
		select {
		case line := <-lines:
			return line
		case <-time.After(2 * patience):
			t.Fatal("a Caddy does not go on")
			return ""
		}
	}
	journal := func() string {
		text, err := os.ReadFile(filepath.Join(folder, "journal"))
		if os.IsNotExist(err) {
			return ""
		}
		require.NoError(t, err)
		return string(text)
	}
	require.ElementsMatch(t, []string{"loaded 0", "loaded 1"}, []string{next(), next()})
	select {
	case line := <-lines:
		t.Fatal(line, journal())
	case <-time.After(3 * time.Second): // in which either could do what it must not
	}
	require.Empty(t, journal())
	require.NoError(t, hold.Release(t.Context()))
	require.ElementsMatch(t, []string{"certificate 0", "certificate 1"}, []string{next(), next()})
	require.Equal(t, "order [example.test]\n", journal())
	for _, n := range d.Nodes() {
		require.Eventually(t, func() bool { return len(n.Keys()) == 0 }, patience, 10*time.Millisecond, "a lock was left")
	}
}

// runCaddy is the child.
func runCaddy(text string) {
	if err := caddy.Load([]byte(text), true); err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("loaded", os.Getenv("CHILD"))
	for len(caddytls.AllMatchingCertificates("example.test")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("certificate", os.Getenv("CHILD"))
	select {}
}

// A lock that is held while Caddy loads another configuration stays, can be
// released afterwards, and the client is closed with the last configuration.
func TestReload(t *testing.T) {
	redistest.Require(t)
	d := redlocktest.New(t, 3, redlocktest.Real())
	old, endFirst := load(t, map[string]any{"masters": d.URLs()})
	require.Equal(t, caddy.DefaultStorage, old.(locked).Storage)
	require.NoError(t, old.Lock(t.Context(), "x"))
	now, endSecond := load(t, map[string]any{"masters": d.URLs()})
	endFirst()
	endFirst() // gives up nothing that the second has
	require.False(t, try(t, now), "the lock has not survived")
	if err := old.Unlock(t.Context(), "x"); !errors.Is(err, redlock.ErrNoQuorum) { // votes may come too late
		require.NoError(t, err)
	}
	for _, n := range d.Nodes() {
		require.Eventually(t, func() bool { return len(n.Keys()) == 0 }, patience, 10*time.Millisecond, "a lock was left")
	}
	endSecond()
	require.ErrorIs(t, now.Lock(t.Context(), "x"), redlock.ErrClosed)
}

// try tries to take the lock x. Votes may come too late on a busy machine.
func try(t *testing.T, storage certmagic.Storage) (ok bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		ok, err = storage.(certmagic.TryLocker).TryLock(t.Context(), "x")
		if !errors.Is(err, redlock.ErrNoQuorum) {
			require.NoError(t, err)
		}
		return err == nil
	}, patience, time.Millisecond)
	return ok
}

// load loads a configuration as Caddy does.
func load(t *testing.T, config map[string]any) (certmagic.Storage, context.CancelFunc) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	module, err := ctx.LoadModuleByID("caddy.storage.redlock", mustMarshal(t, config))
	require.NoError(t, err)
	storage, err := module.(*Storage).CertMagicStorage()
	require.NoError(t, err)
	return storage, cancel
}

// A configuration with other masters or another prefix gets locks of its own.
func TestReloadOfAnotherConfiguration(t *testing.T) {
	redistest.Require(t)
	d, other := redlocktest.New(t, 3, redlocktest.Real()), redlocktest.New(t, 3, redlocktest.Real())
	for _, config := range []map[string]any{
		{"masters": d.URLs()}, {"masters": d.URLs(), "prefix": "tls:"}, {"masters": other.URLs()},
	} {
		storage, end := load(t, config)
		defer end()
		require.True(t, try(t, storage))
	}
	for _, n := range d.Nodes() {
		require.Eventually(t, func() bool { return slices.Equal(n.Keys(), []string{"certmagic:x", "tls:x"}) }, patience, 10*time.Millisecond)
	}
	for _, n := range other.Nodes() {
		require.Eventually(t, func() bool { return slices.Equal(n.Keys(), []string{"certmagic:x"}) }, patience, 10*time.Millisecond)
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

func TestConfigurations(t *testing.T) {
	redistest.NoLeaks(t)
	for says, v := range map[string]map[string]any{
		"no masters":     {},
		"redlock":        {"masters": []string{"http://127.0.0.1:1"}},
		"at most 30s":    {"masters": []string{"redis://127.0.0.1:1"}, "ttl": "31s"},
		"Nodes[0]":       {"masters": []string{"{env.REDMUX_UNSET}"}},
		"negative":       {"masters": []string{"redis://127.0.0.1:1"}, "ttl": -1},
		"unknown module": {"masters": []string{"redis://127.0.0.1:1"}, "storage": map[string]any{"module": "none"}},
	} {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
		_, err := ctx.LoadModuleByID("caddy.storage.redlock", mustMarshal(t, v))
		require.ErrorContains(t, err, says)
		cancel()
	}
	for text, want := range map[string]string{
		"redlock {\nmasters redis://a redis://b\nmasters redis://c\nprefix tls:\nttl 10s\nstorage file_system /shared\n}": `{"masters":["redis://a","redis://b","redis://c"],"prefix":"tls:","ttl":10000000000,` +
			`"storage":{"module":"file_system","root":"/shared"}}`,
		"redlock x":                        "",
		"redlock {\nnonsense\n}":           "",
		"redlock {\nprefix\n}":             "",
		"redlock {\nttl soon\n}":           "",
		"redlock {\nstorage\n}":            "",
		"redlock {\nstorage none_such\n}":  "",
		"redlock {\nprefix one another\n}": "",
	} {
		var s Storage
		err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.JSONEq(t, want, string(mustMarshal(t, &s)))
	}
}
