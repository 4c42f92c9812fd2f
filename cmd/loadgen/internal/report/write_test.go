package report

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func written(t *testing.T, p Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, p))
	return b.String()
}

// TestPageLoadsNothing checks the text; TestInBrowser checks the requests.
func TestPageLoadsNothing(t *testing.T) {
	for _, p := range []Page{examplePage(), hostilePage(), {}} {
		page := written(t, p)
		require.NotRegexp(t, regexp.MustCompile(`(?i)<[^>]*\b(src|href|srcset|action|data)\s*=\s*["']?\s*(https?:|//)`), page)
		require.NotRegexp(t, regexp.MustCompile(`(?i)url\(|@import|importScripts|XMLHttpRequest|fetch\(|WebSocket|sendBeacon|serviceWorker`), page)
		require.Equal(t, 1, strings.Count(page, `http-equiv="Content-Security-Policy"`))
		require.Less(t, strings.Index(page, "Content-Security-Policy"), strings.Index(page, "<s"), "it binds only what comes after")
	}
}

func TestPolicyNamesBothScripts(t *testing.T) {
	a := newAssets()
	require.Contains(t, a.Policy, "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
	require.NotContains(t, strings.TrimPrefix(a.Policy, "default-src 'none'; style-src 'unsafe-inline'"), "unsafe")
	for _, script := range []string{string(a.UPlot), string(a.Charts)} {
		require.Contains(t, a.Policy, sum(script))
		require.Contains(t, written(t, Page{}), "<script>"+script+"</script>", "the sum is of exactly what stands there")
		require.NotContains(t, strings.ToLower(script), "</script")
	}
	require.Equal(t, "a\nb\n", lines("a\r\nb\n"), "a checkout may have changed the line ends")
}

// TestUPlotIsPinned keeps three places in step: the code, the page's footer and
// the licence, which must accompany the code.
func TestUPlotIsPinned(t *testing.T) {
	page := written(t, Page{})
	require.True(t, strings.HasPrefix(uplotScript, "/*! https://github.com/leeoniya/uPlot (v1.6.32) */"))
	require.Contains(t, page, "uPlot 1.6.32")
	require.Contains(t, page, "Permission is hereby granted, free of charge")
}

func TestHostileTextIsEscaped(t *testing.T) {
	page := written(t, hostilePage())
	for _, tag := range []string{"<script>window", "<img", "onload=window.hacked=1>\"'", "<svg onload"} {
		require.NotContains(t, page, tag)
	}
	require.Equal(t, 3, strings.Count(page, "</script>"))
	require.NotContains(t, page, "\x00")
	require.NotContains(t, page, "\xff")
	require.True(t, strings.HasSuffix(strings.TrimSpace(page), "</html>"))
}

func TestFewDataAreWritten(t *testing.T) {
	for name, p := range fewData() {
		t.Run(name, func(t *testing.T) {
			page := written(t, p)
			require.NotRegexp(t, regexp.MustCompile(`\bNaN\b|Inf\b|<nil>|%!`), page[:strings.Index(page, "<script>")])
		})
	}
}

func TestPageIsTheSameEachTime(t *testing.T) {
	require.Equal(t, written(t, examplePage()), written(t, examplePage()), "no order is that of a map")
}

func TestWriteDoesNotChangeThePage(t *testing.T) {
	p := examplePage()
	written(t, p)
	require.Equal(t, examplePage(), p)
}

// onceWriter fails after its first write, and records the size of that.
type onceWriter struct {
	bytes int
	err   error
}

func (w *onceWriter) Write(b []byte) (int, error) {
	if w.err != nil || w.bytes > 0 {
		return 0, errors.Join(w.err, io.ErrShortWrite)
	}
	w.bytes = len(b)
	return len(b), nil
}

func TestWriteIsOneWrite(t *testing.T) {
	w := &onceWriter{}
	require.NoError(t, Write(w, examplePage()))
	require.Greater(t, w.bytes, 100_000)
	full := errors.New("disk is full")
	require.ErrorIs(t, Write(&onceWriter{err: full}, Page{}), full)
}
