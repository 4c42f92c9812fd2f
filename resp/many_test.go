package resp_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

var (
	decoderInputs = flag.Float64("decoder.inputs", 2e5, "how many inputs TestDecoderManyInputs makes, such as 1e8")
	decoderSeed   = flag.Uint64("decoder.seed", 1, "what they are made from")
)

// TestDecoderManyInputs does what FuzzReference does, without the coverage
// engine and therefore some ten times as often. Inputs are generated from the
// grammar, and from the table by changes that follow the grammar. In place of
// coverage the test requires that each reason to refuse, each type and each way
// to end occurs. Inputs are numbered from 0; the seed and the number determine
// the input on every machine.
//
//	go test ./resp -run TestDecoderManyInputs -timeout 0 -decoder.inputs=1e8
func TestDecoderManyInputs(t *testing.T) {
	inputs := uint64(*decoderInputs)
	if resp.Poisoned {
		inputs = min(inputs, 1e4) // the race detector is slow, and each Reader has only one goroutine
	}
	corpus := newCorpus(t)
	workers := runtime.GOMAXPROCS(0)
	var next atomic.Uint64
	var wg sync.WaitGroup
	all := make([]census, workers)
	start := time.Now()
	for i := range workers {
		wg.Go(func() {
			b := &batch{corpus: corpus, examiners: newExaminers(), census: &all[i]}
			for !t.Failed() {
				number := next.Add(1) - 1
				if number*batchSize >= inputs {
					return
				}
				if err := b.run(number, min(batchSize, inputs-number*batchSize)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	sum := newCensus()
	for i := range all {
		sum.add(&all[i])
	}
	t.Logf("%d inputs with %d values and %d bytes in %v on %d cores: %.0f a second; ends: %v",
		inputs, sum.values, sum.bytes, took.Round(time.Millisecond), workers, float64(inputs)/took.Seconds(), sum.ends)
	if inputs >= 1e5 {
		sum.wantAll(t)
	}
}

// batchSize is how many inputs share one state of the random numbers.
const batchSize = 1 << 10

// A batch generates and examines inputs one after the other, in one goroutine.
type batch struct {
	corpus    [][]byte
	examiners []*examiner
	census    *census

	random *rand.Rand
	wire   []byte
	other  []byte
}

func (b *batch) run(number, inputs uint64) error {
	source := rand.NewPCG(*decoderSeed, number)
	b.random = rand.New(source)
	if b.census.ends == nil {
		*b.census = newCensus()
	}
	for range inputs {
		b.make()
		e := b.examiners[b.random.IntN(len(b.examiners))]
		cuts := b.random
		if b.random.IntN(16) == 0 && len(b.wire) < 100 {
			cuts = nil
		}
		if err := e.examine(b.wire, cuts); err != nil {
			return fmt.Errorf("seed %d, batch %d, limits %+v, input %q: %w", *decoderSeed, number, e.limits, b.wire, err)
		}
		b.census.count(&e.want)
	}
	return nil
}

// newCorpus returns the short inputs of the table.
func newCorpus(t testing.TB) (corpus [][]byte) {
	for _, e := range table(t) {
		if len(e.wire) > 0 && len(e.wire) < 100 {
			corpus = append(corpus, e.wire)
		}
	}
	return corpus
}

// A census counts the kinds of inputs.
type census struct {
	values, bytes uint64
	ends          map[string]uint64 // reasons, "unfinished", "complete"
	types         [256]uint64
}

func newCensus() census { return census{ends: make(map[string]uint64)} }

func (c *census) count(r *reference) {
	c.values += uint64(len(r.ends))
	c.bytes += uint64(len(r.wire))
	for i := range r.said {
		c.types[r.said[i].typ]++
	}
	switch {
	case strings.HasPrefix(r.fault, "unknown type byte"):
		c.ends["unknown type byte"]++
	case r.fault != "":
		c.ends[r.fault]++
	case r.rest() > 0:
		c.ends["unfinished"]++
	default:
		c.ends["complete"]++
	}
}

func (c *census) add(other *census) {
	c.values += other.values
	c.bytes += other.bytes
	for end, n := range other.ends {
		c.ends[end] += n
	}
	for i, n := range other.types {
		c.types[i] += n
	}
}

// wantAll requires every kind to have occurred.
func (c *census) wantAll(t *testing.T) {
	t.Helper()
	for _, typ := range known {
		assert.NotZero(t, c.types[typ], "no %v", resp.Type(typ))
	}
	ends := slices.Sorted(maps.Keys(c.ends))
	require.Equal(t, []string{
		"CR without LF", "LF without CR", "big number is not a decimal number", "boolean is neither t nor f",
		"bulk exceeds its limit", "complete", "depth exceeds its limit", "double is not a decimal number, inf, -inf or nan",
		"elements exceed their limit", "integer is not a decimal number of 64 bits", "length is not a decimal number",
		"line exceeds its limit", "null is not empty", "payload does not end with CR and LF", "push within another value",
		"streamed strings and aggregates are not supported", "unfinished", "unknown type byte",
		"value exceeds its limit of bytes", "verbatim string does not begin with three bytes and a colon",
	}, ends)
}
