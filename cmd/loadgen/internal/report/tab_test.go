//go:build unix

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a browser may take on a busy machine.
const patience = 90 * time.Second

// findBrowser skips the test if there is no browser, or fails it if one is
// required. testdata/browser.sh looks in the same places.
func findBrowser(t *testing.T) string {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if name := os.Getenv("REDMUX_BROWSER"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	reason := "no browser on PATH: " + strings.Join(names, ", ")
	if os.Getenv("REDMUX_REQUIRE_BROWSER") == "1" {
		t.Fatal(reason)
	}
	t.Skip("skipped: " + reason)
	return ""
}

// A browser is a headless Chromium. It ends with the test.
type browser struct{ context.Context }

func startBrowser(t *testing.T) *browser {
	path := findBrowser(t)
	// Not of the test, which would fail if a process of the browser still wrote
	// to it at the end.
	home, err := os.MkdirTemp("", "browser")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	allocator, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home))...)
	t.Cleanup(end)
	silent := func(string, ...any) {} // the browser may be newer than the protocol of chromedp
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(silent))
	t.Cleanup(cancel)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits for its processes
	require.NoError(t, chromedp.Do(ctx))
	return &browser{ctx}
}

// A tab shows one page.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex                   // guards the following
	complaints []string                     // errors on the console, uncaught or logged
	requests   map[network.RequestID]string // URLs that the page was allowed to request
}

// open shows a page and waits until its charts are drawn or have failed.
func (b *browser) open(t *testing.T, p Page) *tab {
	t.Helper()
	var html bytes.Buffer
	require.NoError(t, Write(&html, p))
	return b.openHTML(t, html.Bytes())
}

func (b *browser) openHTML(t *testing.T, html []byte) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, html, 0o600))
	ctx, cancel := chromedp.NewContext(b, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab := &tab{t: t, ctx: ctx, requests: map[network.RequestID]string{}}
	require.NoError(t, chromedp.Listen(ctx, tab.event))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	tab.do(chromedp.EmulateViewport(1280, 2400), chromedp.Navigate("file://"+file))
	tab.await(`location.protocol === "file:" && document.readyState === "complete" && (root.dataset.charts || root.dataset.errors) !== undefined`)
	return tab
}

// event records errors and requests.
func (tab *tab) event(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	complain := func(format string, args ...any) {
		tab.complaints = append(tab.complaints, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tab.requests[e.RequestID] = e.Request.URL
	case *network.EventLoadingFailed:
		if e.BlockedReason == network.BlockedReasonCsp { // it was blocked, but counts as a request
			delete(tab.requests, e.RequestID)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError { // warnings may be about a slow machine
			complain("%s %s", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		complain("console: %s", e.Type)
	case *runtime.EventExceptionThrown:
		complain("%v", e.ExceptionDetails)
	}
}

// noted returns the complaints and the requests so far. Events that come before
// an answer have been handled when the answer is there.
func (tab *tab) noted() (complaints, requests []string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.complaints), slices.Collect(maps.Values(tab.requests))
}

func (tab *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	require.NoError(tab.t, chromedp.Do(ctx, actions...))
}

// try evaluates an expression in the page, where root is the document's element
// and helpers are those of browser_test.go. The result may be nil.
func (tab *tab) try(expression string, result any) error {
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](
		"(() => { const root = document.documentElement;"+helpers+"return ("+expression+"); })()", chromedp.EvalAwaitPromise))
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(text, result)
}

func (tab *tab) eval(expression string, result any) {
	tab.t.Helper()
	require.NoError(tab.t, tab.try(expression, result))
}

// holds evaluates a condition.
func (tab *tab) holds(condition string) (ok bool) {
	tab.t.Helper()
	tab.eval("!!("+condition+")", &ok)
	return ok
}

// await waits for a condition. While a page loads, it may not be possible to
// evaluate it.
func (tab *tab) await(condition string) {
	tab.t.Helper()
	var ok bool
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = tab.try("!!("+condition+")", &ok); err == nil && ok {
			return
		}
	}
	require.FailNow(tab.t, "waited in vain", "%s: %v", condition, err)
}
