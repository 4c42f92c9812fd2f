//go:build unix

package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// helpers are functions for expressions that are evaluated in a page.
const helpers = `
	const figures = () => [...document.querySelectorAll("figure[data-kind]")];
	const figure = (kind, run = -1) => figures().find((f) => f.dataset.kind === kind && f.dataset.run === String(run));
	// painted counts pixels close to the color of a variable of the style.
	const painted = (figure, name) => {
		const canvas = figure.querySelector("canvas"), value = getComputedStyle(root).getPropertyValue(name).trim();
		if (!canvas || canvas.width === 0 || canvas.height === 0) return 0;
		const want = [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
		// Read a copy: after a canvas is read, the browser warns and draws it
		// differently.
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
		copy.drawImage(canvas, 0, 0);
		const d = copy.getImageData(0, 0, canvas.width, canvas.height).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) {
			if (d[i + 3] > 200 && want.every((w, k) => Math.abs(d[i + k] - w) < 24)) n++;
		}
		return n;
	};
	const click = (selector) => { document.querySelector(selector).click(); return true; };
`

// TestInBrowser opens pages in a real browser: one process for all of them,
// because its start is slow.
func TestInBrowser(t *testing.T) {
	redistest.NoLeaks(t)
	b := startBrowser(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *browser)
	}{
		{"draws every chart", testDraws},
		{"switches runs and lines", testSwitches},
		{"light and dark", testThemes},
		{"axes", testAxes},
		{"tells figures beneath the cursor", testTip},
		{"looks at a part of the time", testZoom},
		{"shows hostile text as text", testHostile},
		{"runs no script but its own", testPolicy},
		{"says what failed", testFailure},
		{"few data", testFewData},
		{"many data", testManyData},
		{"the median stands out", testFaint},
		{"names of percentiles", testPercentiles},
		{"warnings", testWarnings},
		{"phone", testPhone},
		{"paper", testPaper},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}

// sound fails if the page reported errors or requested anything but itself.
func (tab *tab) sound() {
	tab.t.Helper()
	require.True(tab.t, tab.holds(`root.dataset.charts === "drawn" && root.dataset.errors === undefined && document.getElementById("failed").hidden`))
	complaints, requests := tab.noted()
	require.Empty(tab.t, complaints)
	require.Len(tab.t, requests, 1, "nothing but the page: %v", requests)
	require.True(tab.t, strings.HasPrefix(requests[0], "file://"))
}

func testDraws(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	tab.sound()
	var kinds []string
	tab.eval(`figures().map((f) => f.dataset.kind + f.dataset.run)`, &kinds)
	require.Equal(t, []string{"rate-1", "acquire-1", "release-1", "p50-1", "p99-1", "max-1",
		"outcomes0", "outcomes1", "outcomes2", "outcomes3", "nodes0", "nodes1", "nodes2", "nodes3"}, kinds)
	for i, kind := range kinds {
		var n struct{ Width, Height, First, Second, Legend int }
		tab.eval(fmt.Sprintf(`(() => { const f = figures()[%d], r = f.querySelector("canvas").getBoundingClientRect();
			return { width: r.width, height: r.height, first: painted(f, "--c0"), second: painted(f, "--c1"), legend: f.querySelectorAll(".legend button").length }; })()`, i), &n)
		require.Greater(t, n.Width, 250, kind)
		require.Greater(t, n.Height, 150, kind)
		require.Greater(t, n.First, 50, kind)
		require.Greater(t, n.Second, 50, kind)
		require.GreaterOrEqual(t, n.Legend, 3, kind)
	}
	for _, kind := range []string{"rate", "p50", "p99", "max"} {
		require.True(t, tab.holds(`painted(figure("`+kind+`"), "--fault") > 20`), "the fault is named in %s", kind)
	}
	require.False(t, tab.holds(`painted(figure("acquire"), "--fault") > 0`), "percentiles have no time")
}

func testSwitches(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	require.True(t, tab.holds(`painted(figure("rate"), "--c1") > 50`))
	tab.eval(`click("#switches [data-switch='1']") && click("#switches [data-switch='3']")`, nil)
	tab.await(`painted(figure("rate"), "--c1") === 0 && painted(figure("acquire"), "--c1") === 0 && painted(figure("rate"), "--c0") > 50`)
	require.True(t, tab.holds(`figure("outcomes", 1).hidden && figure("nodes", 3).hidden && !figure("outcomes", 0).hidden`))
	require.True(t, tab.holds(`[...document.querySelectorAll("[data-switch='1']")].every((b) => b.getAttribute("aria-pressed") === "false")`), "all switches of a run say the same")

	tab.eval(`click("#switches [data-switch='0']") && click("figure[data-kind=rate] [data-switch='2']")`, nil)
	tab.await(`painted(figure("rate"), "--c0") === 0`)
	require.False(t, tab.holds(`painted(figure("rate"), "--fault") > 0`), "faults go with their runs")

	tab.eval(`click("figure[data-kind=rate] .legend [data-switch='1']")`, nil)
	tab.await(`painted(figure("rate"), "--c1") > 50 && painted(figure("rate"), "--fault") > 20 && !figure("outcomes", 1).hidden`)

	tab.eval(`figure("outcomes", 1).querySelector("[data-line='held']").click()`, nil)
	tab.await(`painted(figure("outcomes", 1), "--c1") === 0 && painted(figure("outcomes", 1), "--c0") > 50`)
	tab.sound()
}

func testThemes(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	background := `getComputedStyle(document.body).backgroundColor`
	require.True(t, tab.holds(background+` === "rgb(246, 247, 249)"`))
	_, err := chromedp.Call(tab.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	require.NoError(t, err)
	tab.await(background + ` === "rgb(16, 20, 27)" && painted(figure("rate"), "--c0") > 50 && painted(figure("rate"), "--c1") > 50`)
	tab.await(`document.getElementById("theme").textContent === "Light"`) // the page learns of the change after it has been restyled
	tab.eval(`click("#theme")`, nil)
	tab.await(background + ` === "rgb(246, 247, 249)" && painted(figure("rate"), "--c0") > 50`)
	tab.sound()
}

func testAxes(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	units := func(acquire, p50 string) {
		t.Helper()
		tab.await(fmt.Sprintf(`figure("acquire").querySelector(".unit").textContent === %q && figure("p50").querySelector(".unit").textContent === %q`, acquire, p50))
		tab.await(`painted(figure("acquire"), "--c0") > 50 && painted(figure("p50"), "--c0") > 50`)
	}
	units("logarithmic", "")
	tab.eval(`click("#axes")`, nil)
	units("logarithmic", "logarithmic")
	tab.eval(`click("#axes")`, nil)
	units("", "")
	tab.eval(`click("#axes")`, nil)
	units("logarithmic", "")
	tab.sound()
}

// mouse sends a mouse event at a fraction of the width of the chart of rates.
func (tab *tab) mouse(what input.DispatchMouseEventType, part float64, clicks int) {
	tab.t.Helper()
	var at struct{ X, Y float64 }
	tab.eval(fmt.Sprintf(`(() => { const r = figure("rate").querySelector(".u-over").getBoundingClientRect(); return { x: r.x + r.width * %v, y: r.y + r.height / 2 }; })()`, part), &at)
	button := chromedp.ButtonNone
	if clicks > 0 {
		button = chromedp.ButtonLeft
	}
	tab.do(chromedp.MouseEvent(what, at.X, at.Y, button, chromedp.ClickCount(clicks)))
}

func testTip(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	tab.mouse(input.DispatchMouseEventTypeMouseMoved, 0.45, 0)
	tab.mouse(input.DispatchMouseEventTypeMouseMoved, 0.5, 0) // the browser needs to see a movement
	// The tip of the second place, not that of the first, which a slow browser
	// may still show.
	tab.await(`!figure("rate").querySelector(".tip").hidden && /^1[45]/.test(figure("rate").querySelector(".tip").textContent)`)
	var tip string
	tab.eval(`figure("rate").querySelector(".tip").textContent`, &tip)
	require.Regexp(t, `^1[45](\.\d)? sredlock #1[\d,]+rueidis #1[\d,]+redlock #2[\d,]+rueidis #2[\d,]+$`, tip, "each run has a figure, though no two have a sample at the same time")
	require.True(t, tab.holds(`[...document.querySelectorAll(".tip")].filter((t) => !t.hidden).length === 1`))
	tab.sound()
}

func testZoom(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	tab.mouse(input.DispatchMouseEventTypeMouseMoved, 0.6, 0)
	tab.mouse(input.DispatchMouseEventTypeMousePressed, 0.6, 1)
	tab.mouse(input.DispatchMouseEventTypeMouseMoved, 0.9, 1)
	tab.mouse(input.DispatchMouseEventTypeMouseReleased, 0.9, 1)
	tab.await(`["rate", "p50", "max"].every((k) => painted(figure(k), "--fault") === 0 && painted(figure(k), "--c0") > 50)`)
	for _, clicks := range []int{1, 2} {
		tab.mouse(input.DispatchMouseEventTypeMousePressed, 0.5, clicks)
		tab.mouse(input.DispatchMouseEventTypeMouseReleased, 0.5, clicks)
	}
	tab.await(`["rate", "p50", "max"].every((k) => painted(figure(k), "--fault") > 20)`)
	tab.sound()
}

func testHostile(t *testing.T, b *browser) {
	tab := b.open(t, hostilePage())
	tab.sound()
	require.True(t, tab.holds(`window.hacked === undefined && document.images.length === 0 && document.scripts.length === 3`))
	require.True(t, tab.holds(`document.querySelector(".command code").textContent.startsWith("</script></style></title><script>window.hacked=1")`))
	require.True(t, tab.holds(`document.querySelector("#switches button").textContent.startsWith("</script>")`))
}

func testPolicy(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	var refused []bool
	tab.eval(`(() => {
		const s = document.createElement("script"), i = document.createElement("img"), d = document.createElement("div");
		s.textContent = "window.hacked = 1";
		d.innerHTML = "<b onclick='window.hacked = 1'>x</b>";
		document.body.append(s, i, d);
		d.firstChild.click();
		const image = new Promise((done) => { i.onload = () => done(false); i.onerror = () => done(true); });
		i.src = "https://example.com/x.png";
		return Promise.all([image, fetch("https://example.com/").then(() => false, () => true)]);
	})()`, &refused)
	require.Equal(t, []bool{true, true}, refused)
	require.True(t, tab.holds(`window.hacked === undefined`))
	_, requests := tab.noted()
	require.Len(t, requests, 1, "only the page: %v", requests)
}

// testFailure breaks a page: it tells the reader, and shows the tables.
func testFailure(t *testing.T, b *browser) {
	var html strings.Builder
	require.NoError(t, Write(&html, examplePage()))
	tab := b.openHTML(t, []byte(strings.Replace(html.String(), `id="data">`, `id="data">no JSON `, 1)))
	require.True(t, tab.holds(`!document.getElementById("failed").hidden && root.dataset.errors.includes("JSON") && root.dataset.charts === undefined`))
	require.True(t, tab.holds(`document.querySelectorAll("table").length > 10`))
}

func testFewData(t *testing.T, b *browser) {
	for name, p := range fewData() {
		t.Run(name, func(t *testing.T) {
			tab := b.open(t, p)
			tab.sound()
			require.True(t, tab.holds(`document.querySelectorAll("section h2").length === 8`))
			require.True(t, tab.holds(`[...document.querySelectorAll("section")].every((s) => s.querySelector("table, .empty, canvas"))`), "a section without figures says so")
			require.False(t, tab.holds(`/NaN|Infinity|undefined|null/.test(document.querySelector("main").innerText)`))
		})
	}
}

// testManyData is a run of hours on many nodes.
func testManyData(t *testing.T, b *browser) {
	p := examplePage()
	for i := range p.Runs {
		r := &p.Runs[i]
		short := r.Series
		r.Series = nil
		for k := range 7200 {
			s := short[k%len(short)]
			s.At = time.Duration(k+1) * time.Second
			r.Series = append(r.Series, s)
		}
		r.Faults = nil
		for k := range 100 {
			r.Faults = append(r.Faults, Fault{At: time.Duration(k) * time.Minute, Length: 30 * time.Second, Kind: "stop", Node: k % 5})
		}
	}
	tab := b.open(t, p)
	tab.sound()
	require.True(t, tab.holds(`painted(figure("rate"), "--c0") > 50`))
	require.True(t, tab.holds(`[...document.querySelectorAll("details table")].every((t) => t.rows.length <= 61)`))
}

// testFaint: of two runs of an implementation one has a line that is painted in
// the colour itself, and a faint mark tells the other.
func testFaint(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	tab.eval(`click("#switches [data-switch='1']") && click("#switches [data-switch='3']")`, nil)
	tab.await(`painted(figure("rate"), "--c1") === 0`)
	var both, median int
	tab.eval(`painted(figure("rate"), "--c0")`, &both)
	tab.eval(`click("#switches button:has(.faint)[data-switch='2'], #switches button:has(.faint)[data-switch='0']")`, nil)
	tab.eval(`painted(figure("rate"), "--c0")`, &median)
	require.InEpsilon(t, both, median, 0.05, "the faint one is not painted in full")
	require.True(t, tab.holds(`document.querySelectorAll("#switches .mark.faint").length === 2`))
	tab.sound()
}

// testPercentiles: the names below an axis do not touch, whatever its width.
func testPercentiles(t *testing.T, b *browser) {
	p := examplePage()
	for i := range p.Runs { // of a run of hours, whose percentiles have many nines
		r := &p.Runs[i]
		r.Pairs, r.Acquire = 2e9, Quantiles{Percentiles: []float64{0}, Latencies: []time.Duration{time.Microsecond}}
		for left := 50.0; left > 1e-7; left /= 2 {
			r.Acquire.Percentiles = append(r.Acquire.Percentiles, 100-left)
			r.Acquire.Latencies = append(r.Acquire.Latencies, time.Duration(len(r.Acquire.Latencies))*time.Millisecond)
		}
	}
	tab := b.open(t, p)
	for _, width := range []int64{1280, 900, 620, 360} {
		tab.do(chromedp.EmulateViewport(width, 2400))
		tab.await(fmt.Sprintf(`innerWidth === %d && Math.abs(figure("acquire").querySelector(".plot").clientWidth - figure("acquire").querySelector(".uplot").clientWidth) < 2`, width))
		var apart bool
		tab.eval(`(() => {
			// What the chart writes, caught while it is drawn again.
			const written = [], canvas = CanvasRenderingContext2D.prototype, write = canvas.fillText;
			canvas.fillText = function (text, x, y) { if (/^[0-9.]+ %$/.test(text)) written.push([x, this.measureText(text).width]); return write.apply(this, arguments); };
			click("#axes"); click("#axes"); click("#axes");
			return new Promise((done) => setTimeout(() => { canvas.fillText = write; done(written); }, 200));
		})().then((written) => written.length > 2 && written.every(([x, w], i) => i === 0 || x < written[i - 1][0] ||
			x - w / 2 > written[i - 1][0] + written[i - 1][1] / 2 + 3))`, &apart)
		require.True(t, apart, "%d wide", width)
	}
}

// testWarnings: rare lateness is no alarm.
func testWarnings(t *testing.T, b *browser) {
	p := examplePage()
	p.Runs[0].NotBegun = 3
	tab := b.open(t, p)
	colour := `getComputedStyle(document.querySelector("header .warning")).color`
	require.True(t, tab.holds(colour+` === "rgb(138, 90, 0)"`))
	p.Runs[0].Violations = 3
	require.True(t, b.open(t, p).holds(colour+` === "rgb(179, 0, 27)"`))
}

func (tab *tab) asPhone() {
	tab.t.Helper()
	tab.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile))
	tab.await(`innerWidth === 360 && figures().every((f) => f.querySelector("canvas").getBoundingClientRect().width < 360)`)
}

func testPhone(t *testing.T, b *browser) {
	for _, p := range []Page{examplePage(), hostilePage()} {
		tab := b.open(t, p)
		tab.asPhone()
		tab.await(`document.documentElement.scrollWidth <= 360`) // nothing but tables scrolls sideways
		wide := `document.querySelector("#runs .scroll")`
		tab.await(wide + `.classList.contains("more") && getComputedStyle(` + wide + `).maskImage.includes("gradient")`) // and they say so
		tab.eval(`(() => { const t = `+wide+`; t.scrollLeft = t.scrollWidth; return true; })()`, nil)
		tab.await(`!` + wide + `.classList.contains("more")`)
		tab.await(`painted(figure("rate"), "--c0") > 50`)
		tab.sound()
	}
}

func testPaper(t *testing.T, b *browser) {
	tab := b.open(t, examplePage())
	tab.eval(`click("#theme")`, nil)
	data, err := chromedp.Run(tab.ctx, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize()))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(data), "%PDF"))
	require.Greater(t, len(data), 20_000)
	tab.await(`root.dataset.theme === "dark" && painted(figure("rate"), "--c0") > 50`) // unchanged
	tab.sound()
}
