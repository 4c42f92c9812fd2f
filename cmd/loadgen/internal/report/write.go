package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// The parts of the page. uPlot is version 1.6.32, unchanged, with its licence,
// which must accompany the code.
var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle string
	//go:embed charts.js
	chartsScript string

	//go:embed uplot/uPlot.iife.min.js
	uplotScript string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
	//go:embed uplot/LICENSE
	uplotLicence string
)

// Write writes the page. It is self-contained: a browser shows it from a file,
// without a network, and its Content-Security-Policy forbids it to load
// anything or to run any script but its own two. Without scripts it still has
// every table.
//
// Text in p may contain anything; it is shown as text, and cut if it is too
// long. Runs with many samples are thinned, and the page says so. The size is
// some 80 KB plus, for each run, up to 200 KB and 20 KB per node.
//
// Write does not change or keep p. It builds the page in memory and writes it
// at once, so an error other than w's leaves w untouched.
func Write(w io.Writer, p Page) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var page bytes.Buffer
	if err := t.Execute(&page, newView(p).with(newAssets())); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := w.Write(page.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// assets are our own parts of the page, which are trusted; the template escapes
// everything else.
type assets struct {
	Policy string
	Style  template.CSS
	UPlot  template.JS
	Charts template.JS
}

func newAssets() assets {
	library := lines("/*\n" + uplotLicence + "*/\n" + uplotScript)
	charts := lines(chartsScript)
	return assets{
		// Scripts are allowed by their hashes, so that a script smuggled in
		// with the data does not run. Styles must be allowed in general: uPlot
		// positions its parts by style attributes.
		Policy: "default-src 'none'; style-src 'unsafe-inline'; script-src " + sum(library) + " " + sum(charts) +
			"; base-uri 'none'; form-action 'none'",
		Style:  template.CSS(lines(uplotStyle + pageStyle)),
		UPlot:  template.JS(library),
		Charts: template.JS(charts),
	}
}

// lines converts line ends as the browser's parser does. A script's hash is
// taken after that, and a checkout may have changed line ends.
func lines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// sum returns the name of a script in a Content-Security-Policy.
func sum(script string) string {
	s := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(s[:]) + "'"
}
