package adapters

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redmux/redmux/contrib/fencing"
	"github.com/stretchr/testify/require"
)

// shownSection is the part of docs/fencing.md that this module runs.
const shownSection = "## The protected side"

// shown returns the blocks of one kind that the section has.
func shown(t *testing.T, kind string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "fencing.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), shownSection+"\n")
	require.True(t, found, "docs/fencing.md has no section %q", shownSection)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// The Go code of docs/fencing.md is that of fencing_test.go, all of it.
func TestDocumentShowsThis(t *testing.T) {
	text, err := os.ReadFile("fencing_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(text), "the other tests run it.\n")
	for _, block := range shown(t, "go") {
		require.Contains(t, code, block)
		code = strings.Replace(code, block, "", 1)
	}
	require.Empty(t, strings.TrimSpace(code), "the document does not show this")
}

// The statements of docs/fencing.md, in their order.
type statements struct {
	create, write, read, alter string
}

func shownStatements(t *testing.T) (s statements) {
	t.Helper()
	blocks := shown(t, "sql")
	require.Len(t, blocks, 4)
	for i, into := range []*string{&s.create, &s.write, &s.read, &s.alter} {
		*into = blocks[i]
	}
	return s
}

// A request without a number, or with what is none, is refused before the
// database is asked.
func TestHTTPWithoutANumber(t *testing.T) {
	for _, number := range []string{"", "0", "seven"} {
		r := httptest.NewRequest(http.MethodPut, "/invoices/7", strings.NewReader("paid"))
		if number != "" {
			r.Header.Set(fencing.Header, number)
		}
		w := httptest.NewRecorder()
		servePayments(nil, "")(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, "%q", number)
	}
}
