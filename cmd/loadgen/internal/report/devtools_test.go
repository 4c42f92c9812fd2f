//go:build unix

package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// patience is how long a browser may take on a busy machine.
const patience = 90 * time.Second

// A browser is a headless Chromium, driven over two pipes with the DevTools
// protocol. It ends with the test, with all its processes.
type browser struct {
	cmd  *exec.Cmd
	to   *os.File
	said *os.File      // its standard output and error, for a failed start
	gone chan struct{} // closed when the browser has closed its end

	mu      sync.Mutex // guards the following
	last    int
	waiting map[int]chan message
	tabs    map[string]*tab // by session
}

// A message is an answer if it has an ID, else an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

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

func startBrowser(t *testing.T) *browser {
	path, dir := findBrowser(t), t.TempDir()
	toChild, to, err := os.Pipe()
	require.NoError(t, err)
	from, fromChild, err := os.Pipe()
	require.NoError(t, err)
	said, err := os.Create(filepath.Join(dir, "said"))
	require.NoError(t, err)
	b := &browser{to: to, said: said, gone: make(chan struct{}), waiting: map[int]chan message{}, tabs: map[string]*tab{}}
	b.cmd = exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad",
		"--disable-dev-shm-usage", "--user-data-dir="+filepath.Join(dir, "profile"), "--remote-debugging-pipe", "about:blank")
	b.cmd.ExtraFiles = []*os.File{toChild, fromChild} // descriptors 3 and 4, as the protocol requires
	b.cmd.Stdout, b.cmd.Stderr = said, said
	b.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() { b.end(t, from) })
	err = redistest.Spawn(b.cmd)
	require.NoError(t, errors.Join(err, toChild.Close(), fromChild.Close()))
	go b.read(from)
	return b
}

// end kills the process group and waits until none of it is left: a remaining
// process would write to the folder, which is removed next.
func (b *browser) end(t *testing.T, from *os.File) {
	defer func() { b.to.Close(); from.Close(); b.said.Close() }()
	if b.cmd.Process == nil {
		return
	}
	group := -b.cmd.Process.Pid
	syscall.Kill(group, syscall.SIGKILL)
	b.cmd.Wait()
	<-b.gone
	for deadline := time.Now().Add(patience); syscall.Kill(group, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the browser's processes do not end")
			return
		}
	}
}

// read passes on the browser's messages until its end.
func (b *browser) read(from io.Reader) {
	defer close(b.gone)
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, tab := b.waiting[m.ID], b.tabs[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case tab != nil:
			tab.event(m)
		}
	}
}

// call sends a request and stores the answer in result, which may be nil.
func (b *browser) call(session, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, SessionID: session, Method: method, Params: raw}
	b.waiting[m.ID] = answer
	b.mu.Unlock()
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(line, 0)); err != nil {
		return fmt.Errorf("%s: %w; the browser said: %s", method, err, b.output())
	}
	select {
	case m = <-answer:
	case <-b.gone:
		return fmt.Errorf("%s: the browser has gone; it said: %s", method, b.output())
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer", method)
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

func (b *browser) output() string {
	said, err := os.ReadFile(b.said.Name())
	return cmp.Or(string(said[max(0, len(said)-4000):]), fmt.Sprint(err))
}

// A tab shows one page.
type tab struct {
	t       *testing.T
	browser *browser
	session string

	mu         sync.Mutex        // guards the following
	complaints []string          // errors on the console, uncaught or logged
	requests   map[string]string // by id: URLs that the page was allowed to request
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
	var target struct{ TargetID, SessionID string }
	require.NoError(t, b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target))
	require.NoError(t, b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target))
	tab := &tab{t: t, browser: b, session: target.SessionID, requests: map[string]string{}}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	t.Cleanup(func() { b.call("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil) })
	for _, domain := range []string{"Runtime", "Log", "Network", "Page"} {
		tab.call(domain+".enable", nil, nil)
	}
	tab.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 2400, "deviceScaleFactor": 1, "mobile": false}, nil)
	tab.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	tab.await(`location.protocol === "file:" && document.readyState === "complete" && (root.dataset.charts || root.dataset.errors) !== undefined`)
	return tab
}

// event records errors and requests.
func (tab *tab) event(m message) {
	var p struct {
		RequestID        string
		BlockedReason    string
		Request          struct{ URL string }
		Entry            struct{ Level, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch m.Method {
	case "Network.requestWillBeSent":
		tab.requests[p.RequestID] = p.Request.URL
	case "Network.loadingFailed":
		if p.BlockedReason == "csp" { // it was blocked, but counts as a request
			delete(tab.requests, p.RequestID)
		}
	case "Log.entryAdded":
		if p.Entry.Level == "error" { // warnings may be about a slow machine
			tab.complaints = append(tab.complaints, p.Entry.Text+" "+p.Entry.URL)
		}
	case "Runtime.consoleAPICalled":
		tab.complaints = append(tab.complaints, "console: "+string(m.Params))
	case "Runtime.exceptionThrown":
		tab.complaints = append(tab.complaints, p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	}
}

// noted returns the complaints and the requests so far. Events that come before
// an answer in the pipe have been handled when the answer is there.
func (tab *tab) noted() (complaints, requests []string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.complaints), slices.Collect(maps.Values(tab.requests))
}

func (tab *tab) call(method string, params, result any) {
	tab.t.Helper()
	if params == nil {
		params = struct{}{}
	}
	require.NoError(tab.t, tab.browser.call(tab.session, method, params, result))
}

// try evaluates an expression in the page, where root is the document's element
// and helpers are those of browser_test.go.
func (tab *tab) try(expression string, result any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := tab.browser.call(tab.session, "Runtime.evaluate", map[string]any{
		"expression":   "(() => { const root = document.documentElement;" + helpers + "return (" + expression + "); })()",
		"awaitPromise": true, "returnByValue": true,
	}, &answer)
	if err != nil {
		return err
	}
	if e := answer.ExceptionDetails; e != nil {
		return fmt.Errorf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, result)
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
