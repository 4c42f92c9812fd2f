package bench

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/stretchr/testify/require"
)

// The flags after -args choose what is measured:
//
//	go test -bench . ./bench -args -nodes=5 -callers=1024 -impl=redlock,rueidis -network=unix
//
// The defaults take about two minutes with the usual benchtime.
var (
	benchNodes   = flag.String("nodes", "1,3,5", "numbers of masters")
	benchCallers = flag.String("callers", "1,16,128,1024", "numbers of callers")
	benchImpls   = flag.String("impl", "redlock,rueidis,rueidis-all,rueidis-tuned", "what takes turns")
	benchNetwork = flag.String("network", "tcp", "tcp or unix")
)

const benchTTL = 10 * time.Second

// BenchmarkAcquireRelease acquires and releases a lock; an operation is one
// pair. Each caller has its own resource. Implementations take turns for the
// same nodes and callers, so that other load on the machine hits all of them.
func BenchmarkAcquireRelease(b *testing.B) {
	nodes, callers := numbers(b, *benchNodes), numbers(b, *benchCallers)
	most := 1
	for _, n := range nodes {
		most = max(most, n)
	}
	urls := benchServers(b, most)
	for _, n := range nodes {
		for _, c := range callers {
			for impl := range strings.SplitSeq(*benchImpls, ",") {
				b.Run(fmt.Sprintf("impl=%s/nodes=%d/callers=%d", impl, n, c), func(b *testing.B) {
					benchmarkImpl(b, impl, urls[:n], c)
				})
			}
		}
	}
}

func numbers(b *testing.B, list string) (all []int) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		require.NoError(b, err)
		require.Positive(b, n)
		all = append(all, n)
	}
	return all
}

func benchServers(b *testing.B, n int) (urls []string) {
	redistest.Require(b)
	servers, err := redistest.StartN(n, redistest.Options{TCP: *benchNetwork == "tcp", Unix: *benchNetwork == "unix"})
	require.NoError(b, err)
	fmt.Printf("servers: spawned, %s\n", *benchNetwork)
	for _, s := range servers {
		b.Cleanup(func() { s.Close() })
		urls = append(urls, s.URL())
	}
	return urls
}

// benchmarkImpl opens an implementation for this benchmark only, so that no
// connections, buffers and goroutines of another one exist meanwhile.
func benchmarkImpl(b *testing.B, impl string, urls []string, callers int) {
	if strings.HasPrefix(impl, "redlock") {
		// Several cases share the servers, and a master belongs to one
		// deployment only.
		config := redlock.Config{
			Nodes: redlock.Nodes(urls...), Connect: redlock.Connect{NetDial: redistest.Portable(impl == "redlock-portable")}, Fenced: impl == "redlock-fenced",
			Prefix: strconv.Itoa(len(urls)) + ":",
		}
		_, err := admin.Init(b.Context(), config)
		require.NoError(b, err)
		c, err := redlock.New(b.Context(), config)
		require.NoError(b, err)
		benchmarkPairs[redlock.Lock](b, c, callers)
		return
	}
	cfg, err := RueidisConfig{Nodes: urls}.Variant(impl)
	require.NoError(b, err)
	l, err := OpenRueidis(cfg)
	require.NoError(b, err)
	benchmarkPairs[RueidisLease](b, l, callers)
}

func benchmarkPairs[L Lease](b *testing.B, locker Locker[L], callers int) {
	defer locker.Close(context.Background())
	all := make([]*pairs[L], callers)
	for i := range all {
		all[i] = &pairs[L]{locker: locker, resource: "bench" + strconv.Itoa(i), latencies: make([]time.Duration, 0, pairLatencies)}
	}
	share(all, 10*callers) // lets connections, pools and estimates settle
	for _, p := range all {
		p.latencies, p.granted, p.failed = p.latencies[:0], 0, 0
	}
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			all[0].do()
		}
	} else {
		b.ResetTimer()
		share(all, b.N)
		b.StopTimer()
	}

	var latencies []time.Duration
	failed := 0
	for _, p := range all {
		latencies = append(latencies, p.latencies...)
		failed += p.failed
	}
	slices.Sort(latencies)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	if n := len(latencies); n > 0 {
		b.ReportMetric(float64(latencies[n/2]), "p50-ns")
		b.ReportMetric(float64(latencies[n*99/100]), "p99-ns")
	}
	if failed > 0 {
		b.ReportMetric(float64(failed)/float64(b.N), "failed/op")
	}
}

// pairs is one caller. It is owned by the caller's goroutine.
type pairs[L Lease] struct {
	locker    Locker[L]
	resource  string
	latencies []time.Duration // of the last granted acquisitions
	granted   int
	failed    int
}

// pairLatencies is how many latencies a caller keeps. They are allocated before
// the measurement starts.
const pairLatencies = 4096

// record stores a latency in place of the oldest.
func (p *pairs[L]) record(d time.Duration) {
	if len(p.latencies) < pairLatencies {
		p.latencies = append(p.latencies, d)
	} else {
		p.latencies[p.granted%pairLatencies] = d
	}
	p.granted++
}

// share runs n operations, divided among the callers.
func share[L Lease](callers []*pairs[L], n int) {
	var left atomic.Int64
	left.Store(int64(n))
	var working sync.WaitGroup
	for _, p := range callers {
		working.Go(func() {
			for left.Add(-1) >= 0 {
				p.do()
			}
		})
	}
	working.Wait()
}

func (p *pairs[L]) do() {
	start := time.Now()
	lease, err := p.locker.TryAcquire(context.Background(), p.resource, benchTTL)
	if err != nil {
		p.failed++
		return
	}
	p.record(time.Since(start))
	if lease.Release(context.Background()) != nil {
		p.failed++
	}
}
