// Draws the charts of a report with uPlot. The page comes with every figure in tables; this adds pictures to them, and
// nothing else depends on it. <html data-charts> is "drawn" when all are; data-errors holds what went wrong.
"use strict";
(() => {
	const root = document.documentElement;
	const failed = (what) => {
		root.dataset.errors = (root.dataset.errors ? root.dataset.errors + "; " : "") + what;
		document.getElementById("failed").hidden = false;
	};
	addEventListener("error", (e) => failed(e.message));
	addEventListener("unhandledrejection", (e) => failed(String(e.reason)));
	document.addEventListener("securitypolicyviolation", (e) => failed("refused: " + e.violatedDirective + " " + e.blockedURI));

	const data = JSON.parse(document.getElementById("data").textContent);
	// As many as in page.css and view.go. The same patterns are in page.css, for the marks beside names.
	const colors = 6;
	const dashes = [[], [9, 4], [2, 3], [12, 3, 2, 3], [5, 2]];
	const hidden = new Set(); // indices of runs
	const charts = []; // {figure, hidden: names of its own lines, plot: uPlot}
	const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

	// Figures and their units.

	const short = (x) => String(Number(x.toPrecision(3)));
	// grouped is what thousands in format.go is.
	const grouped = (x) => Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, ",");
	const latency = (us) => us === 0 ? "0" : us == null ? "–" : us < 0.9995 ? short(us * 1e3) + " ns" : us < 999.5 ? short(us) + " µs" : us < 999.5e3 ? short(us / 1e3) + " ms" : short(us / 1e6) + " s";
	const number = (x) => x == null ? "–" : x >= 1000 ? grouped(x) : short(x);
	const seconds = (s) => s < 120 ? short(s) + " s" : s < 7200 ? short(s / 60) + " min" : short(s / 3600) + " h";
	// percentile turns a place on the axis back into what it stands for, with as many digits as it takes to tell it from 100.
	const percentile = (x) => Number((100 - 100 / x).toPrecision(2 + Math.ceil(Math.log10(Math.max(x, 10))))) + " %";

	// A line is {name, color, dash, run, x, y}; run is set where it goes by the switches of runs. Lines without any figure are
	// left out: uPlot would make room for them.

	function linesOf(figure) {
		const kind = figure.dataset.kind, only = Number(figure.dataset.run);
		if (only >= 0) {
			const run = data.runs[only];
			return (run[kind] || []).map((l, i) => ({ name: l.name, color: i % colors, dash: i % dashes.length, x: run.time, y: l.y })).filter((l) => l.y.some((y) => y != null));
		}
		return data.runs.map((run, i) => {
			const curve = run[kind] && run[kind].x !== undefined ? run[kind] : { x: run.time, y: run[kind] };
			return { name: run.name, color: run.color, dash: run.dash, faint: run.faint, run: i, x: curve.x, y: curve.y };
		}).filter((l) => l.y && l.y.some((y) => y != null));
	}

	const isCurve = (figure) => ["acquire", "release"].includes(figure.dataset.kind);
	const shown = (chart, line) => line.run === undefined ? !chart.hidden.has(line.name) : !hidden.has(line.run);

	// bandsOf unites the faults of the runs that a chart shows: several runs have the same ones at almost the same time.
	function bandsOf(chart) {
		const only = Number(chart.figure.dataset.run), bands = new Map();
		data.runs.forEach((run, i) => {
			if (only >= 0 ? i !== only : hidden.has(i)) return;
			for (const f of run.faults || []) {
				const all = bands.get(f.name) || bands.set(f.name, []).get(f.name);
				const other = all.find((b) => f.from <= b.to && f.to >= b.from);
				if (other) {
					other.from = Math.min(other.from, f.from);
					other.to = Math.max(other.to, f.to);
				} else all.push({ ...f });
			}
		});
		return [...bands.values()].flat().sort((a, b) => a.from - b.from);
	}

	// placed are the bands within a chart, in pixels of its canvas. One that is very short is still seen.
	function placed(u, chart) {
		const { left, width } = u.bbox, least = 2 * uPlot.pxRatio;
		return bandsOf(chart).map((band) => {
			const from = u.valToPos(band.from, "x", true), to = Math.max(u.valToPos(band.to, "x", true), from + least);
			return { name: band.name, from: Math.max(from, left), to: Math.min(to, left + width) };
		}).filter((band) => band.to > band.from);
	}

	// drawBands hatches the time of each fault, beneath the lines.
	function drawBands(u, chart) {
		const { ctx } = u, { top, height } = u.bbox, px = uPlot.pxRatio;
		ctx.save();
		ctx.strokeStyle = ctx.fillStyle = css("--fault");
		ctx.lineWidth = px;
		for (const { from, to } of placed(u, chart)) {
			ctx.globalAlpha = 0.10;
			ctx.fillRect(from, top, to - from, height);
			hatch(ctx, from, to, top, height, 8 * px);
		}
		ctx.restore();
	}

	// nameBands writes above the lines what each fault was, in rows where names would touch.
	function nameBands(u, chart) {
		const { ctx } = u, { left, top, width } = u.bbox, px = uPlot.pxRatio, ends = [];
		ctx.save();
		ctx.font = "600 " + 11 * px + "px system-ui, sans-serif";
		ctx.textAlign = "left";
		ctx.textBaseline = "top";
		ctx.lineJoin = "round";
		ctx.lineWidth = 4 * px;
		ctx.strokeStyle = css("--card");
		ctx.fillStyle = css("--fault");
		for (const { name, from } of placed(u, chart)) {
			const size = ctx.measureText(name).width, at = Math.max(left + 3 * px, Math.min(from + 4 * px, left + width - size - 3 * px));
			let row = ends.findIndex((end) => end < at);
			if (row < 0) row = ends.length;
			ends[row] = at + size + 6 * px;
			if (row > 4) continue; // more would hide the lines; the table of faults has them all
			ctx.strokeText(name, at, top + (3 + 14 * row) * px);
			ctx.fillText(name, at, top + (3 + 14 * row) * px);
		}
		ctx.restore();
	}

	// hatch is what a band is recognised by on paper and without colours.
	function hatch(ctx, from, to, top, height, step) {
		ctx.save();
		ctx.beginPath();
		ctx.rect(from, top, to - from, height);
		ctx.clip();
		ctx.globalAlpha = 0.35;
		ctx.beginPath();
		for (let x = from - height; x < to; x += step) {
			ctx.moveTo(x, top + height);
			ctx.lineTo(x + height, top);
		}
		ctx.stroke();
		ctx.restore();
	}

	// Axes and scales.

	// spread decides between a linear and a logarithmic axis, unless the reader has chosen one.
	function spread(lines) {
		let least = Infinity, greatest = 0;
		for (const l of lines) for (const y of l.y) if (y > 0) {
			least = Math.min(least, y);
			greatest = Math.max(greatest, y);
		}
		return greatest > 0 ? greatest / least : 1;
	}

	let axesAre = "automatic"; // or "logarithmic" or "linear", as the switch says
	const isLog = (lines) => axesAre === "logarithmic" || (axesAre === "automatic" && spread(lines) > 20);

	function yScale(figure, lines) {
		const room = !isCurve(figure) && data.runs.some((run) => run.faults) ? 1.2 : 1.08; // for the names of faults
		if (figure.dataset.latency !== undefined && isLog(lines)) return { distr: 3, range: (u, min, max) => min > 0 ? widened(min, max) : [1, 1000] };
		// Rates of outcomes that differ much would hide the rare ones, which matter most. This axis is logarithmic above 1
		// and has a zero.
		if (figure.dataset.kind === "outcomes" && spread(lines) > 20) return { distr: 4, asinh: 1, range: (u, min, max) => [0, Math.max(max, 1) * 4] };
		return { range: (u, min, max) => [0, max > 0 ? max * room : 1] };
	}

	// widened leaves room for the ticks around, so that at least one decade has a name.
	function widened(min, max) {
		const low = Math.pow(10, Math.floor(Math.log10(min))), high = Math.pow(10, Math.ceil(Math.log10(max)));
		const near = (x, steps) => steps.find((s) => s >= x) ?? 10;
		return [min / low >= 5 && high / low > 10 ? low * 5 : min / low >= 2 && high / low > 10 ? low * 2 : low, Math.max(high / 10 * near(max / high * 10, [1, 2, 5, 10]), low * 10)];
	}

	// xScale shows all of the measuring, also where a run has no samples at its ends, until the reader chooses a part. uPlot
	// asks for the range of all data with the data's own ends.
	function xScale(figure, x) {
		const first = x[0], last = x[x.length - 1];
		if (isCurve(figure)) return { time: false, distr: 3, range: (u, min, max) => min === max ? [1, Math.max(10, max)] : [min, max] };
		const all = (min, max) => min == null || (min === first && max === last);
		return { time: false, range: (u, min, max) => all(min, max) ? [0, Math.max(data.end, last || 0, 0.001)] : [min, max] };
	}

	// Ticks of outcomes, and of percentiles: 1/(1 − p) for 0, 50, 75, 90, 99 and so on.
	const tens = [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
	const nines = [1, 2, 4, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

	// apart drops those names of ticks that would touch the one before.
	function apart(u, splits, scale, room) {
		let last = NaN;
		return splits.map((s) => {
			const at = u.valToPos(s, scale);
			if (Math.abs(at - last) < room) return null;
			last = at;
			return s;
		});
	}

	// named are the percentiles that are written: whole nines first, then 50 and 75, each where there is room left. Names grow
	// with their nines.
	function named(u, splits) {
		const nine = (s) => s !== 2 && s !== 4, kept = [], wide = (s) => 7.2 * percentile(s).length;
		const free = (s) => kept.every((k) => Math.abs(u.valToPos(k, "x") - u.valToPos(s, "x")) >= (wide(k) + wide(s)) / 2 + 8);
		for (const s of [...splits.filter(nine), ...splits.filter((s) => !nine(s))]) if (free(s)) kept.push(s);
		return splits.map((s) => kept.includes(s) ? s : null);
	}

	function axes(figure, distr) {
		const curve = isCurve(figure), write = figure.dataset.latency !== undefined ? latency : number;
		const common = { stroke: css("--muted"), font: "12px system-ui, sans-serif", grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1, size: 5 } };
		const x = curve
			? { splits: (u, i, min, max) => nines.filter((n) => n >= min && n <= max), filter: named, values: (u, splits) => splits.map((s) => s == null ? null : percentile(s)) }
			: { space: 60, values: (u, splits) => splits.map(seconds) };
		const y = { size: 66, space: distr === 3 ? 18 : 36, values: (u, splits) => splits.map((s) => s == null ? null : write(s)) };
		if (distr === 4) Object.assign(y, { splits: (u, i, min, max) => tens.filter((n) => n <= max), filter: (u, splits) => apart(u, splits, "y", 18) });
		return [{ ...common, ...x, size: 32 }, { ...common, ...y }];
	}

	// Drawing.

	// draw draws a chart again: colors and kinds of axes are fixed when uPlot starts. Lines that are switched off stay so.
	function draw(chart) {
		const { figure } = chart, lines = linesOf(figure), box = figure.querySelector(".plot");
		if (chart.plot) chart.plot.destroy();
		chart.lines = lines;
		if (lines.length === 0) {
			box.textContent = "There is nothing to draw.";
			box.classList.add("empty");
			chart.drawn = true;
			return;
		}
		// Runs have times of their own. Joined, each has holes where only another has a point, over which its line goes on;
		// its own nulls stay gaps.
		const joined = uPlot.join(lines.map((l) => [l.x, l.y]));
		const y = yScale(figure, lines);
		figure.querySelector(".unit").textContent = y.distr ? "logarithmic" : "";
		chart.plot = new uPlot({
			width: Math.max(box.clientWidth, 200),
			height: figure.parentElement.classList.contains("n1") ? 280 : 230,
			legend: { show: false },
			padding: [null, isCurve(figure) ? 34 : null, null, null], // the last name of a percentile is long
			scales: { x: xScale(figure, joined[0]), y },
			axes: axes(figure, y.distr),
			series: [{}, ...lines.map((l) => ({
				label: l.name, scale: "y", show: shown(chart, l), stroke: css("--c" + l.color), width: l.faint ? 1 : 2, alpha: l.faint ? 0.35 : 1, dash: dashes[l.dash],
				points: { size: 5, fill: css("--card"), stroke: css("--c" + l.color), ...(l.x.length <= 3 ? { show: true } : l.faint ? { show: false } : {}) },
			}))],
			cursor: {
				y: false, drag: { x: true, y: false }, dataIdx: nearest,
				...(isCurve(figure) ? {} : { sync: { key: "time", scales: ["x", null] } }),
			},
			hooks: {
				drawClear: [(u) => { if (!isCurve(figure)) drawBands(u, chart); }],
				draw: [(u) => {
					if (!isCurve(figure)) nameBands(u, chart);
					done(chart);
				}],
				setCursor: [(u) => tell(u, chart)],
			},
		}, joined, box);
		box.append(chart.tip);
		chart.plot.over.addEventListener("mouseenter", () => { chart.under = true; });
		chart.plot.over.addEventListener("mouseleave", () => { chart.under = false; chart.tip.hidden = true; });
	}

	// done tells a test, or a program that takes pictures of the page, that all charts are drawn.
	function done(chart) {
		chart.drawn = true;
		if (charts.every((c) => c.drawn)) root.dataset.charts = "drawn";
	}

	// nearest is the point of a line beneath the cursor, or the one closest to it.
	function nearest(u, series, at) {
		const ys = u.data[series];
		if (series === 0 || ys[at] != null) return at;
		for (let d = 1; d < ys.length; d++) {
			if (ys[at - d] != null) return at - d;
			if (ys[at + d] != null) return at + d;
		}
		return at;
	}

	// tell shows the figures beneath the cursor, in the chart that it is over only.
	function tell(u, chart) {
		const { left, idx } = u.cursor, { tip, figure, lines } = chart;
		tip.hidden = !chart.under || left < 0 || idx == null;
		if (tip.hidden) return;
		const x = u.data[0][idx], write = figure.dataset.latency !== undefined ? latency : number;
		tip.replaceChildren(element("b", isCurve(figure) ? percentile(x) : seconds(x)));
		lines.forEach((line, i) => {
			if (!shown(chart, line)) return;
			const row = element("div");
			row.append(swatch(line), line.name, element("span", write(u.data[i + 1][u.cursor.idxs[i + 1]])));
			tip.append(row);
		});
		const at = left + u.over.offsetLeft;
		tip.style.top = u.over.offsetTop + 8 + "px";
		tip.style.left = (at + 14 + tip.offsetWidth > chart.plot.width ? Math.max(0, at - tip.offsetWidth - 14) : at + 14) + "px";
	}

	// Switches.

	function element(name, text) {
		const e = document.createElement(name);
		if (text !== undefined) e.textContent = text;
		return e;
	}

	// swatch is a piece of the line, as in the tables.
	function swatch(line) {
		const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
		svg.setAttribute("class", `mark c${line.color} d${line.dash}${line.faint ? " faint" : ""}`);
		svg.setAttribute("viewBox", "0 0 26 8");
		svg.setAttribute("aria-hidden", "true");
		path.setAttribute("d", "M0 4H26");
		svg.append(path);
		return svg;
	}

	// switchOf is a button, so that it can be reached and pressed by keyboard, and says whether it is pressed.
	function switchOf(line, on, toggle) {
		const b = element("button");
		b.type = "button";
		b.append(swatch(line), line.name);
		b.setAttribute("aria-pressed", on);
		if (line.run !== undefined) b.dataset.switch = line.run;
		b.addEventListener("click", () => {
			toggle();
			update();
		});
		return b;
	}

	function flip(set, key) {
		if (!set.delete(key)) set.add(key);
	}

	// update makes everything show what is switched on.
	function update() {
		for (const b of document.querySelectorAll("[data-switch]")) b.setAttribute("aria-pressed", !hidden.has(Number(b.dataset.switch)));
		for (const chart of charts) {
			const only = Number(chart.figure.dataset.run);
			chart.figure.hidden = only >= 0 && hidden.has(only);
			for (const b of chart.figure.querySelectorAll("[data-line]")) b.setAttribute("aria-pressed", !chart.hidden.has(b.dataset.line));
			if (!chart.plot) continue;
			chart.plot.batch(() => chart.lines.forEach((line, i) => {
				if (chart.plot.series[i + 1].show !== shown(chart, line)) chart.plot.setSeries(i + 1, { show: shown(chart, line) });
			}));
			chart.plot.redraw(false); // the bands of a run go with it
		}
	}

	// addLegend has switches of the chart's own lines, or, where the lines are runs, of these in all charts.
	function addLegend(chart) {
		const box = chart.figure.querySelector(".legend");
		for (const line of linesOf(chart.figure)) {
			const b = switchOf(line, true, () => line.run !== undefined ? flip(hidden, line.run) : flip(chart.hidden, line.name));
			if (line.run === undefined) b.dataset.line = line.name;
			box.append(b);
		}
	}

	function redraw() {
		charts.forEach(draw);
	}

	// Colours are the system's until the button was used.
	const dark = matchMedia("(prefers-color-scheme: dark)"), theme = document.getElementById("theme");
	const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
	function recolor() {
		theme.textContent = isDark() ? "Light" : "Dark";
		redraw();
	}

	// Paper is white, and narrower than most windows.
	let before = null;
	function toPaper() {
		before = root.dataset.theme ?? "";
		root.dataset.theme = "light";
		for (const c of charts) c.figure.querySelector(".plot").style.width = "660px";
		redraw();
	}
	function fromPaper() {
		if (before === null) return;
		if (before) root.dataset.theme = before; else delete root.dataset.theme;
		before = null;
		for (const c of charts) c.figure.querySelector(".plot").style.width = "";
		redraw();
	}

	// A change of size is followed in the next frame, not while the browser is still computing the layout.
	const resized = new ResizeObserver((entries) => requestAnimationFrame(() => {
		for (const { target } of entries) {
			const chart = charts.find((c) => c.figure.contains(target));
			if (chart.plot && target.clientWidth > 0 && target.clientWidth !== chart.plot.width) chart.plot.setSize({ width: target.clientWidth, height: chart.plot.height });
		}
	}));

	// A table that goes on beyond its right edge fades out there.
	const fade = (box) => box.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
	const tables = new ResizeObserver((entries) => requestAnimationFrame(() => entries.forEach((e) => fade(e.target))));
	for (const box of document.querySelectorAll(".scroll")) {
		box.addEventListener("scroll", () => fade(box), { passive: true });
		tables.observe(box);
	}

	for (const figure of document.querySelectorAll("figure[data-kind]")) {
		const chart = { figure, hidden: new Set(), tip: element("div") };
		chart.tip.className = "tip";
		chart.tip.hidden = true;
		chart.tip.setAttribute("aria-hidden", "true");
		charts.push(chart);
		addLegend(chart);
	}
	const bar = document.getElementById("bar");
	bar.hidden = charts.length === 0;
	if (data.runs.length > 1) document.getElementById("switches").append(...data.runs.map((run, i) => switchOf({ ...run, run: i }, true, () => flip(hidden, i))));
	redraw();
	if (charts.every((c) => c.drawn)) root.dataset.charts = "drawn";
	for (const c of charts) resized.observe(c.figure.querySelector(".plot"));

	theme.textContent = isDark() ? "Light" : "Dark";
	dark.addEventListener("change", recolor);
	theme.addEventListener("click", () => {
		root.dataset.theme = isDark() ? "light" : "dark";
		recolor();
	});
	const next = { automatic: "logarithmic", logarithmic: "linear", linear: "automatic" }, axesButton = document.getElementById("axes");
	axesButton.addEventListener("click", () => {
		axesAre = next[axesAre];
		axesButton.textContent = "Latency axes: " + axesAre;
		redraw();
	});
	addEventListener("beforeprint", toPaper);
	addEventListener("afterprint", fromPaper);
})();
