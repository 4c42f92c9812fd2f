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

// What the page consists of. uPlot is version 1.6.32, unchanged, with its
// licence, which has to go wherever the code goes.
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

// Write writes the page, which is complete in itself: a browser shows it from a
// file, without a network, and its Content-Security-Policy keeps it from loading
// anything or running any script but its own two. Without scripts it still has
// every table.
//
// Text in p may hold anything; it is shown as text, cut where it is longer than
// a reader would want. Runs of many samples are thinned, which the page says.
// The size is some 80 KB and, for each run, up to 200 KB and 20 KB per node.
//
// Nothing of p is changed or kept. The page is put together in memory and
// written in one go, so that an error other than w's leaves w untouched.
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

// assets are the parts of the page that are ours, and therefore trusted; all
// else goes through the template's escaping.
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
		// Scripts are named by their sums, so that none that might slip in with the
		// data would run. Styles have to be allowed in general: uPlot places its
		// parts by style attributes.
		Policy: "default-src 'none'; style-src 'unsafe-inline'; script-src " + sum(library) + " " + sum(charts) +
			"; base-uri 'none'; form-action 'none'",
		Style:  template.CSS(lines(uplotStyle + pageStyle)),
		UPlot:  template.JS(library),
		Charts: template.JS(charts),
	}
}

// lines has the line ends that the browser's parser makes of all others. A
// script's sum is taken after that, and a checkout may have changed them.
func lines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// sum names a script in a Content-Security-Policy.
func sum(script string) string {
	s := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(s[:]) + "'"
}
