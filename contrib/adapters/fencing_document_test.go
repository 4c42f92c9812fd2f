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

// shownParts are the documents whose code this module runs: where it begins in
// each, where it ends, and the file with the same code.
var shownParts = map[string]struct{ begin, end, file string }{
	"fencing.md": {"## The protected side\n", "\n## ", "fencing_test.go"},
	"recipes.md": {"# Recipes\n", "\n## One request per key", "recipes_test.go"},
}

// shown returns the blocks of one kind that such a part has.
func shown(t *testing.T, document, kind string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
	require.NoError(t, err)
	part := shownParts[document]
	_, section, found := strings.Cut(string(text), part.begin)
	require.True(t, found, "docs/%s has no %q", document, part.begin)
	section, _, found = strings.Cut(section, part.end)
	require.True(t, found, "docs/%s has no %q", document, part.end)
	for _, block := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// The Go code of these documents is that of our files, all of it.
func TestDocumentsShowThis(t *testing.T) {
	for document, part := range shownParts {
		text, err := os.ReadFile(part.file)
		require.NoError(t, err)
		_, code, _ := strings.Cut(string(text), "the other tests run it.\n")
		for _, block := range shown(t, document, "go") {
			require.Contains(t, code, block)
			code = strings.Replace(code, block, "", 1)
		}
		require.Empty(t, strings.TrimSpace(code), "docs/%s does not show this", document)
	}
}

// The statements of docs/fencing.md, in their order.
type statements struct {
	create, write, read, alter string
}

func shownStatements(t *testing.T) (s statements) {
	t.Helper()
	blocks := shown(t, "fencing.md", "sql")
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
