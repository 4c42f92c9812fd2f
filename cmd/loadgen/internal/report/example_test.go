package report

import (
	"math"
	"math/rand/v2"
	"time"
)

// examplePage is a possible result of loadgen: two implementations, two runs
// each, thirty samples, and a node that was stopped for a while in each run.
func examplePage() Page {
	p := Page{
		Title: "loadgen -d 30s -c 64 --impl redlock,rueidis --runs 2 --fault 10s:stop:2:4s --html report.html",
		Made:  time.Date(2026, 11, 22, 3, 30, 0, 0, time.UTC), Backend: "spawned", Loop: "closed",
	}
	for number := 1; number <= 2; number++ {
		p.Runs = append(p.Runs, exampleRun("redlock", number, 42_000), exampleRun("rueidis", number, 27_000))
	}
	return p
}

// exampleRun uses a fixed seed, so that its picture can be reproduced.
func exampleRun(impl string, number int, perSecond float64) Run {
	random := rand.New(rand.NewPCG(uint64(number), uint64(perSecond)))
	about := func(x float64) float64 { return x * (1 + 0.08*random.NormFloat64()) }
	micro := func(x float64) time.Duration { return time.Duration(x * float64(time.Microsecond)) }
	r := Run{
		Impl: impl, Number: number, Callers: 64, Duration: 30 * time.Second, PerSec: perSecond, Pairs: int64(perSecond * 30),
		Outcomes: map[string]int64{}, Errors: map[string]int64{"node is down": 41, "i/o timeout": 7},
		AllocsPerPair: 2.01, BytesPerPair: 313, CPUMicrosPerPair: 2e6 / perSecond,
		Faults: []Fault{{At: 10 * time.Second, Length: 4 * time.Second, Kind: "stop", Node: 2}},
	}
	base := 64e6 / perSecond / 2
	for i := 1; i <= 30; i++ {
		s := Sample{At: time.Duration(i)*time.Second + micro(200*random.Float64()), Length: time.Second, Outcomes: map[string]int64{}}
		slow := 1.0
		if i > 10 && i <= 14 {
			slow = 1.7
			s.Outcomes["noquorum"] = int64(about(40))
		}
		s.Pairs = int64(about(perSecond / slow))
		s.P50, s.P99, s.Max = micro(about(base*slow)), micro(about(base*3*slow*slow)), micro(about(base*14*slow*slow))
		s.Outcomes["granted"], s.Outcomes["held"] = s.Pairs, int64(about(300))
		for n := range 5 {
			d := micro(about(80 + 15*float64(n)))
			if n == 2 && slow > 1 {
				d = 0
			}
			s.ReplyTimes = append(s.ReplyTimes, d)
		}
		for name, n := range s.Outcomes {
			r.Outcomes[name] += n
		}
		r.Series = append(r.Series, s)
	}
	r.Acquire, r.Release = exampleQuantiles(about(base)), exampleQuantiles(about(base*0.7))
	for n := range 5 {
		r.Nodes = append(r.Nodes, Node{Addr: "/tmp/loadgen/node-" + string(rune('0'+n)) + ".sock", Product: "redis", Version: "7.0.15", State: "up", ReplyTime: micro(80 + 15*float64(n))})
	}
	return r
}

func exampleQuantiles(base float64) (q Quantiles) {
	for p := 0.0; p < 99.9999; p += (100 - p) / 8 {
		q.Percentiles = append(q.Percentiles, p)
	}
	q.Percentiles = append(q.Percentiles, 100)
	for _, p := range q.Percentiles {
		nines := math.Log10(100 / math.Max(100-p, 1e-5))
		q.Latencies = append(q.Latencies, time.Duration(base*1000*(0.4+nines*1.2+math.Pow(nines, 3)*0.12)))
	}
	return q
}

// hostile text tries to break out of its context.
const hostile = `</script></style></title><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><svg onload=window.hacked=1>"'` + "`${window.hacked=1}" + `{{.}}--><!--]]>` + "\u2028\x00\xff\u202e"

func hostilePage() Page {
	p := examplePage()
	p.Title, p.Backend, p.Loop = hostile, hostile, hostile
	for i := range p.Runs {
		r := &p.Runs[i]
		r.Impl = hostile
		r.Errors = map[string]int64{hostile: 3}
		r.Outcomes[hostile] = 5
		r.Series[0].Outcomes[hostile] = 5
		r.Nodes = []Node{{Addr: hostile, Product: hostile, Version: hostile, State: hostile}}
		r.Faults[0].Kind = hostile
	}
	return p
}

// fewData returns pages on which something is missing.
func fewData() map[string]Page {
	nan, long := math.NaN(), 100*time.Second
	one := Quantiles{[]float64{50}, []time.Duration{time.Millisecond}}
	return map[string]Page{
		"nothing":     {},
		"an idle run": {Runs: []Run{{Impl: "redlock", Number: 1}}},
		"no figure is one": {Runs: []Run{
			{Impl: "a", Number: 1, Pairs: 1, PerSec: nan, AllocsPerPair: nan, BytesPerPair: math.Inf(1), Series: make([]Sample, 3)},
			{Impl: "b", Number: 1, Acquire: Quantiles{[]float64{nan, -1, 50, 40, 200}, []time.Duration{1, 2, 3}}, Series: []Sample{{Length: -1, Pairs: -1, P50: -1}}},
		}},
		"one sample": {Runs: []Run{{Impl: "redlock", Number: 1, Pairs: 1, PerSec: 1, Acquire: one, Release: one,
			Series: []Sample{{At: time.Second, Length: time.Second, Pairs: 1, P50: 1, P99: 1, Max: 1, Outcomes: map[string]int64{"granted": 1}, ReplyTimes: []time.Duration{0, 1}}},
			Faults: []Fault{{Kind: "kill", Node: 16}, {At: long, Length: -long}, {Length: math.MaxInt64}}}}},
		"earlier ones only": {Runs: []Run{{Impl: "redlock", Number: 1, Earlier: true, PerSec: 5, Acquire: one}, {Impl: "redlock", Number: 2, Earlier: true}}},
		"one has samples":   {Runs: []Run{{Impl: "redlock", Number: 1}, exampleRun("rueidis", 1, 100)}},
	}
}
