package resp_test

import (
	"bytes"
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

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/resp"
)

var (
	decoderInputs = flag.Float64("decoder.inputs", 2e5, "how many inputs TestDecoderManyInputs makes, such as 1e8")
	decoderSeed   = flag.Uint64("decoder.seed", 1, "what they are made from")
)

// TestDecoderManyInputs does what FuzzReference does, without the coverage
// engine and therefore some ten times as often. Inputs are made from the table
// by changes that follow the grammar. In place of coverage the test requires
// that each reason to refuse and each way to end occurs. The seed and the
// number of a batch determine its inputs on every machine.
//
//	go test ./resp -run TestDecoderManyInputs -timeout 0 -decoder.inputs=1e8
func TestDecoderManyInputs(t *testing.T) {
	inputs := uint64(*decoderInputs)
	if resp.Poisoned {
		inputs = min(inputs, 1e4) // the race detector is slow, and each Reader has only one goroutine
	}
	var corpus [][]byte
	for _, e := range table(t) {
		if len(e.wire) > 0 && len(e.wire) < 100 {
			corpus = append(corpus, e.wire)
		}
	}
	const batchSize = 1 << 10
	var next atomic.Uint64
	var wg sync.WaitGroup
	var mu sync.Mutex
	ends := make(map[string]int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			b := &batch{corpus: corpus, examiners: newExaminers(), ends: make(map[string]int)}
			for n := next.Add(1) - 1; n*batchSize < inputs && !t.Failed(); n = next.Add(1) - 1 {
				assert.NoError(t, b.run(n, min(batchSize, inputs-n*batchSize)))
			}
			mu.Lock()
			defer mu.Unlock()
			for end, n := range b.ends {
				ends[end] += n
			}
		})
	}
	wg.Wait()
	t.Log(ends)
	if inputs < 1e5 {
		return
	}
	assert.Equal(t, []string{
		"CR without LF", "LF without CR", "big number is not a decimal number", "boolean is neither t nor f",
		"bulk exceeds its limit", "complete", "depth exceeds its limit", "double is not a decimal number, inf, -inf or nan",
		"elements exceed their limit", "integer is not a decimal number of 64 bits", "length is not a decimal number",
		"line exceeds its limit", "null is not empty", "payload does not end with CR and LF", "push within another value",
		"streamed strings and aggregates are not supported", "unfinished", "unknown type byte",
		"value exceeds its limit of bytes", "verbatim string does not begin with three bytes and a colon",
	}, slices.Sorted(maps.Keys(ends)))
}

// A batch makes and examines inputs one after the other, in one goroutine.
type batch struct {
	corpus    [][]byte
	examiners []*examiner
	ends      map[string]int // reasons to refuse, "unfinished" and "complete"

	random *rand.Rand
	wire   []byte
	other  []byte
}

func (b *batch) run(number, inputs uint64) error {
	b.random = rand.New(rand.NewPCG(*decoderSeed, number))
	for range inputs {
		b.make()
		e := one(b, b.examiners)
		cuts := b.random
		if b.random.IntN(16) == 0 && len(b.wire) < 100 {
			cuts = nil
		}
		if err := e.examine(b.wire, cuts); err != nil {
			return fmt.Errorf("seed %d, batch %d, limits %+v, input %q: %w", *decoderSeed, number, e.limits, b.wire, err)
		}
		end := e.want.fault
		switch {
		case strings.HasPrefix(end, "unknown type byte"):
			end = "unknown type byte"
		case end == "" && e.want.rest() > 0:
			end = "unfinished"
		case end == "":
			end = "complete"
		}
		b.ends[end]++
	}
	return nil
}

// one returns a random element.
func one[T any](b *batch, all []T) T { return all[b.random.IntN(len(all))] }

// make writes the next input to wire. It is short, so that many run in a
// second: limits that short inputs reach are checked by the same code as the
// others.
func (b *batch) make() {
	b.wire = b.wire[:0]
	for range 1 + b.random.IntN(3) {
		b.wire = append(b.wire, one(b, b.corpus)...)
	}
	for range b.random.IntN(4) {
		b.mutate(b.random.IntN(len(b.wire) + 1))
	}
	b.wire = b.wire[:min(len(b.wire), 300)]
	if b.random.IntN(20_000) == 0 {
		b.lengthen()
	}
}

// lengthen adds a prefix for cases that only long inputs reach: growing buffers
// and the ordinary limits.
func (b *batch) lengthen() {
	var long []byte
	switch n := b.random.IntN(80_000); b.random.IntN(4) {
	case 0:
		long = resp.AppendBulkString(nil, strings.Repeat("x", n))
	case 1:
		long = append(resp.AppendArray(nil, n/4), strings.Repeat("_\r\n", n/4)...)
	case 2: // a line of the greatest length, or one byte more
		long = append([]byte{one(b, known)}, strings.Repeat("0", 64<<10-2+b.random.IntN(4))+"1\r\n"...)
	case 3: // a value every few bytes, some of them cut
		long = []byte(strings.Repeat("$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n", n/20))
	}
	b.wire = append(long, b.wire...)
}

var (
	interesting = []byte("+-:$*_#,(!=%|~>;.?\r\n\r\n0123456789 \x00\xdb\xfftfea")
	// contents are texts and numbers that a decoder may misread.
	contents = []string{
		"", "OK", "txt:", "mkd:x", "ERR no", "\x00", "$1", "é", "0", "1", "4", "5", "9", "10", "16", "31", "-1", "-2", "+1", "-0", "007", "00", "?", "??",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "18446744073709551617",
		"1048576", "1048577", "524288", "524289", "2147483647", "2147483648", "4294967297", "00000000000000000000001",
		"-", "+-1", " 1", "1 ", "1_0", "0x1", "1.0", "١", "1.5", "-1e9", "inf", "-inf", "nan", "+inf", "-nan", "NaN", "nan(1)", "nan(", "1.", ".5",
		"1e", "1e+5", "1e400", "-0", "1e-400", "Inf", "1.5e", "0x1p2",
	}
	around = []string{"*1\r\n", "*2\r\n", "|0\r\n", "|1\r\n", "%1\r\n", ">1\r\n", "~1\r\n"}
)

// mutate makes one change to the input at this index.
func (b *batch) mutate(at int) {
	if at == len(b.wire) {
		b.wire = append(b.wire, one(b, b.corpus)...)
		return
	}
	start, end := bytes.LastIndexByte(b.wire[:at], '\n')+1, len(b.wire) // of the line
	if n := bytes.IndexByte(b.wire[at:], '\n'); n >= 0 {
		end = at + n + 1
	}
	switch b.random.IntN(10) {
	case 0: // a byte with a meaning
		b.wire[at] = one(b, interesting)
	case 1:
		b.wire[at] = byte(b.random.IntN(256))
	case 2:
		b.replace(at, at+1, nil)
	case 3:
		b.replace(at, at, []byte{one(b, interesting)})
	case 4:
		b.wire = b.wire[:at]
	case 5, 6: // another length, number or text for the line
		if bytes.HasSuffix(b.wire[start+1:end], []byte("\r\n")) {
			end -= 2
		}
		b.replace(start+1, end, []byte(one(b, contents)))
	case 7: // another type for the line
		b.wire[start] = one(b, known)
	case 8: // a line twice
		b.replace(at, at, b.wire[start:end])
	case 9: // one more aggregate around it
		b.replace(0, 0, []byte(one(b, around)))
	}
}

// replace puts text in place of a part of the input.
func (b *batch) replace(from, to int, text []byte) {
	b.other = append(append(append(b.other[:0], b.wire[:from]...), text...), b.wire[to:]...)
	b.wire, b.other = b.other, b.wire
}
