package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// An examiner compares the Reader with the reference: the values, the results
// of their accessors, the error and its offset, what stays in the buffer, and
// the memory held after each piece. It reuses its readers, so that state which
// survives Reset shows as a difference.
type examiner struct {
	limits   resp.Limits // as given
	complete resp.Limits
	want     reference
	whole    *resp.Reader
	cut      *resp.Reader
}

func newExaminer(limits resp.Limits) *examiner {
	complete := limits
	for field, standard := range map[*int]int{
		&complete.Line: 64 << 10, &complete.Bulk: 1 << 20, &complete.Elements: 1 << 20, &complete.Depth: 32,
	} {
		if *field == 0 {
			*field = standard
		}
	}
	if complete.Size == 0 {
		complete.Size = max(4<<20, 4*complete.Bulk)
	}
	return &examiner{limits: limits, complete: complete, whole: resp.NewReader(limits), cut: resp.NewReader(limits)}
}

// wholeMost bounds what is sent at once: a Reader that is not asked for values
// takes no more than one value and 40 KiB.
const wholeMost = 32 << 10

// examine sends wire whole, and again in pieces whose sizes cuts chooses. A nil
// source cuts after every byte.
func (e *examiner) examine(wire []byte, cuts *rand.Rand) error {
	e.want.decode(wire, e.complete)
	if len(wire) < wholeMost {
		e.whole.Reset()
		push(e.whole, wire)
		if err := e.compare(e.whole, 0, len(wire)); err != nil {
			return fmt.Errorf("whole: %w", err)
		}
	}
	e.cut.Reset()
	values := 0
	for sent := 0; sent < len(wire); {
		n := 1
		if cuts != nil {
			n = min(len(wire)-sent, 1+cuts.IntN(1+cuts.IntN(max(40, len(wire)/8))))
		}
		push(e.cut, wire[sent:sent+n])
		sent += n
		if err := e.compare(e.cut, values, sent); err != nil {
			return fmt.Errorf("cut, after %d bytes: %w", sent, err)
		}
		for values < len(e.want.ends) && e.want.ends[values].byte <= sent {
			values++
		}
	}
	return e.compareEnd(e.cut)
}

// compare takes the values that the Reader has, of which it has returned the
// first taken before, and requires exactly the values that were complete after
// sent bytes.
func (e *examiner) compare(r *resp.Reader, taken, sent int) error {
	if held := resp.Held(r); held > sent+allowance {
		return fmt.Errorf("%d bytes are held after %d", held, sent)
	}
	for ; taken < len(e.want.ends) && e.want.ends[taken].byte <= sent; taken++ {
		v, ok, err := r.Next()
		if err != nil || !ok {
			return fmt.Errorf("value %d is missing: %t, %v", taken, ok, err)
		}
		if err := e.sameValue(v, taken); err != nil {
			return fmt.Errorf("value %d: %w", taken, err)
		}
	}
	_, ok, err := r.Next()
	switch {
	case ok:
		return errors.New("a value that was not sent")
	case err != nil && e.want.fault == "":
		return fmt.Errorf("refused without a reason: %w", err)
	}
	if held := resp.Held(r); held > sent+allowance {
		return fmt.Errorf("%d bytes are held after %d and Next", held, sent)
	}
	if sent == len(e.want.wire) {
		return e.compareEnd(r)
	}
	return nil
}

// compareEnd requires the Reader to end where the reference does, and to return
// the same error when it is asked again.
func (e *examiner) compareEnd(r *resp.Reader) error {
	_, ok, err := r.Next()
	var syntax *resp.SyntaxError
	switch {
	case ok:
		return errors.New("one more value")
	case e.want.fault == "" && err != nil, e.want.fault != "" && !errors.As(err, &syntax):
		return fmt.Errorf("error %v, wanted %q", err, e.want.fault)
	case syntax != nil && (syntax.Reason != e.want.fault || syntax.Offset != int64(e.want.offset)):
		return fmt.Errorf("error %v, wanted %q at %d", err, e.want.fault, e.want.offset)
	case r.Buffered() != e.want.rest():
		return fmt.Errorf("%d bytes are left, wanted %d", r.Buffered(), e.want.rest())
	}
	return nil
}

// sameValue compares the top-level value i with its items.
func (e *examiner) sameValue(v resp.Value, i int) error {
	var from ending
	if i > 0 {
		from = e.want.ends[i-1]
	}
	to := e.want.ends[i]
	if raw := e.want.wire[from.byte:to.byte]; !bytes.Equal(v.Raw(), raw) {
		return fmt.Errorf("encoding %q, wanted %q", v.Raw(), raw)
	}
	rest, err := sameItems(v, e.want.said[from.item:to.item])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d items too few", len(rest))
	}
	return err
}

var errDifferent = errors.New("the value is another")

// sameItems compares a value, its attributes and its elements with the items at
// the start of items, and returns the rest.
func sameItems(v resp.Value, items []item) (rest []item, err error) {
	if attribute, ok := v.Attributes(); ok {
		if items, err = sameItems(attribute, items); err != nil {
			return nil, err
		}
	}
	if len(items) == 0 {
		return nil, errors.New("more items than were sent")
	}
	i := &items[0]
	if !sameOwn(v, i) {
		return nil, fmt.Errorf("%w: %q, wanted %q %q", errDifferent, v.Raw(), i.typ, i.text)
	}
	items = items[1:]
	n := 0
	for element := range v.Elements() {
		if items, err = sameItems(element, items); err != nil {
			return nil, err
		}
		n++
	}
	if n != i.len {
		return nil, fmt.Errorf("%w: %d elements", errDifferent, n)
	}
	return items, nil
}

// sameOwn compares the results of a value's accessors, without its elements.
// Accessors for other types must return their zero.
func sameOwn(v resp.Value, i *item) bool {
	if v.Type() != i.typ || v.IsNull() != (i.null || i.typ == resp.Null) || v.Len() != i.len {
		return false
	}
	integer, isInteger := v.Int64()
	boolean, isBoolean := v.Bool()
	double, isDouble := v.Float64()
	isError := i.typ == resp.SimpleError || i.typ == resp.BulkError
	if _, got := v.AsError(); got != isError {
		return false
	}
	if isInteger != (i.typ == resp.Integer) || isBoolean != (i.typ == resp.Boolean) || isDouble && i.typ != resp.Double {
		return false
	}
	var text, format []byte
	switch i.typ {
	case resp.Integer:
		return integer == i.integer
	case resp.Boolean:
		return boolean == (i.text[0] == 't')
	case resp.Double:
		return sameDouble(double, isDouble, i.text)
	case resp.VerbatimString:
		format, text = i.text[:3], i.text[4:]
	case resp.SimpleString, resp.BulkString, resp.BigNumber, resp.SimpleError, resp.BulkError:
		text = i.text
	}
	return bytes.Equal(v.Bytes(), text) && (v.Bytes() == nil) == (text == nil) && bytes.Equal(v.Format(), format) &&
		v.IsError() == isError && v.IsOK() == (i.typ == resp.SimpleString && string(text) == "OK") &&
		(!isError || samePrefix(v.ErrorPrefix(), text))
}

func sameDouble(f float64, ok bool, text []byte) bool {
	if bytes.Contains(bytes.ToLower(text), []byte("nan")) {
		return ok && math.IsNaN(f) // ParseFloat knows it without a sign only
	}
	want, err := strconv.ParseFloat(string(text), 64)
	return ok == (err == nil) && (f == want || math.IsNaN(f) && math.IsNaN(want))
}

var prefixOf = regexp.MustCompile(`\A([A-Z0-9_]{1,32})(?: |\z)`)

func samePrefix(prefix, text []byte) bool {
	if m := prefixOf.FindSubmatch(text); m != nil {
		return bytes.Equal(prefix, m[1])
	}
	return string(prefix) == "ERR"
}

// confines are limits that short inputs meet, each in its turn, and the
// ordinary ones.
var confines = []resp.Limits{
	{},
	{Line: 40, Bulk: 30, Elements: 12, Depth: 4, Size: 200},
	{Line: 5, Bulk: 4},
	{Elements: 3, Depth: 2},
	{Depth: 1},
	{Size: 16},
	{Line: 20, Size: 24, Elements: 5, Depth: 3, Bulk: 9},
	{Size: 1},
}

// FuzzReference compares the Reader with a second decoder that was written from
// the specification: the values, their accessors, the error with its offset and
// the bytes left, for the whole input, for a random cut and for a cut after
// every byte (R18).
func FuzzReference(f *testing.F) {
	for i, e := range table(f) {
		f.Add(e.wire, byte(0), uint64(i))
		f.Add(e.wire, byte(i), uint64(i))
	}
	for i, wire := range hostile {
		f.Add([]byte(wire[:min(len(wire), 4096)]), byte(i), uint64(i))
	}
	examiners := newExaminers()
	f.Fuzz(func(t *testing.T, wire []byte, limits byte, seed uint64) {
		if len(wire) > 256<<10 {
			return
		}
		e := examiners[int(limits)%len(examiners)]
		require.NoError(t, e.examine(wire, rand.New(rand.NewPCG(seed, 1))), "%q, %+v", wire, e.limits)
		if len(wire) < wholeMost {
			require.NoError(t, roundTrip(e.limits, wire), "%q", wire)
		}
		if len(wire) < 256 {
			require.NoError(t, e.examine(wire, nil), "%q, %+v", wire, e.limits)
		}
	})
}

func newExaminers() []*examiner {
	var all []*examiner
	for _, limits := range confines {
		all = append(all, newExaminer(limits))
	}
	return all
}
