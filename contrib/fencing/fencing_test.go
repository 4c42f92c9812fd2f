package fencing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// numbers are texts, and the numbers that Parse and RedisScript take them for;
// 0 is none.
var numbers = []struct {
	text string
	want uint64
}{
	{"1", 1}, {"9", 9}, {"10", 10}, {"1764000000123456", 1764000000123456}, {"9007199254740991", Last},
	{"", 0}, {"0", 0}, {"00", 0}, {"01", 0}, {"-1", 0}, {"+1", 0}, {" 1", 0}, {"1 ", 0}, {"1\n", 0}, {"1\x00", 0},
	{"1.0", 0}, {"1e3", 0}, {"0x10", 0}, {"1_000", 0}, {"1,2", 0}, {"1, 2", 0}, {"inf", 0}, {"nan", 0}, {"١", 0},
	{"9007199254740992", 0}, {"9007199254740993", 0}, {"9999999999999999", 0}, {"18446744073709551616", 0},
	{strings.Repeat("9", 400), 0}, {strings.Repeat("0", 1<<20) + "1", 0},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range numbers {
		got, err := Parse(tt.text)
		require.Equal(t, tt.want, got, "%.20q", tt.text)
		if tt.want != 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrNoNumber, "%.20q", tt.text)
		require.Less(t, len(err.Error()), 200, "the error repeats what came")
	}
}

// The number is that of the innermost hold, and a client that has none is told
// so: 0 would pass for a number.
func TestFromContext(t *testing.T) {
	t.Parallel()
	_, err := FromContext(t.Context())
	require.ErrorIs(t, err, ErrNoNumber)

	d := redlocktest.New(t, 3)
	patient := func(c *redlock.Config) { c.NodeTimeout = 30 * time.Second }
	fenced := d.Client(t, patient, func(c *redlock.Config) { c.Fenced = true })
	require.NoError(t, fenced.Do(t.Context(), "r", 20*time.Second, func(ctx context.Context) error {
		hold, _ := redlock.FromContext(ctx)
		number, err := FromContext(ctx)
		require.NoError(t, err)
		require.Equal(t, hold.Current().Fence(), number)
		return nil
	}))
	require.NoError(t, d.Client(t, patient).Do(t.Context(), "r", 20*time.Second, func(ctx context.Context) error {
		_, err := FromContext(ctx)
		require.ErrorIs(t, err, ErrNoNumber)
		return nil
	}))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	script := errors.New(redisRefusal + "the number is lower")
	for err, want := range map[error]bool{
		nil: false, errors.New("EOF"): false, ErrNoNumber: false, ErrChanged: false, redlock.ErrLost: false,
		errors.New("ERR FENCED"): false, errors.New("FENCED"): false,
		ErrStale: true, script: true, fmt.Errorf("pay: %w", ErrStale): true, fmt.Errorf("pay: %w", script): true,
		errors.Join(redlock.ErrNotHeld, script): true, fmt.Errorf("%w, %w", redlock.ErrNotHeld, ErrStale): true,
	} {
		require.Equal(t, want, Refused(err), "%v", err)
	}
}

func TestFromHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header http.Header
		want   uint64
	}{
		{"one", http.Header{Header: {"7"}}, 7},
		{"none", http.Header{}, 0},
		{"nil", nil, 0},
		{"two", http.Header{Header: {"7", "7"}}, 0},
		{"two in one", http.Header{Header: {"7, 8"}}, 0},
		{"empty", http.Header{Header: {""}}, 0},
		{"zero", http.Header{Header: {"0"}}, 0},
		{"words", http.Header{Header: {"seven"}}, 0},
	} {
		got, err := FromHeader(tt.header)
		require.Equal(t, tt.want, got, tt.name)
		if tt.want == 0 {
			require.ErrorIs(t, err, ErrNoNumber, tt.name)
		} else {
			require.NoError(t, err, tt.name)
		}
	}
	require.Equal(t, http.CanonicalHeaderKey(Header), Header)
}

// Without a number nothing is set, so a server refuses a request that is sent
// all the same.
func TestSetHeaderWithoutANumber(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://example.org", nil)
	require.NoError(t, err)
	require.ErrorIs(t, SetHeader(r), ErrNoNumber)
	require.Empty(t, r.Header)
}

// A bucket has one object. Between a read and a write, the next of others is
// put in its place.
type bucket struct {
	version, number uint64
	others          []uint64
	reads           int
}

func (b *bucket) write(ctx context.Context, number uint64) error {
	return WriteObject(ctx, number, func(context.Context) (string, uint64, error) {
		b.reads++
		version, seen := strconv.FormatUint(b.version, 10), b.number
		if len(b.others) > 0 {
			b.version, b.number, b.others = b.version+1, b.others[0], b.others[1:]
		}
		return version, seen, nil
	}, func(_ context.Context, version string) error {
		if version != strconv.FormatUint(b.version, 10) {
			return ErrChanged
		}
		b.version, b.number = b.version+1, number
		return nil
	})
}

func TestWriteObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		number uint64
		bucket bucket
		reads  int
		want   error
	}{
		{"a new object", 7, bucket{}, 1, nil},
		{"a higher number", 7, bucket{number: 6}, 1, nil},
		{"the same number", 7, bucket{number: 7}, 1, nil},
		{"a lower number", 7, bucket{number: 8}, 1, ErrStale},
		{"an older holder between", 7, bucket{others: []uint64{6}}, 2, nil},
		{"a later holder between", 7, bucket{others: []uint64{8}}, 2, ErrStale},
		{"several between, then a later one", 7, bucket{others: []uint64{5, 6, 8}}, 4, ErrStale},
		{"another each time", 7, bucket{others: make([]uint64, 100)}, objectTries, ErrChanged},
		{"no number", 0, bucket{}, 0, ErrNoNumber},
		{"no number any more", Last + 1, bucket{}, 0, ErrNoNumber},
	} {
		before := tt.bucket.number
		err := tt.bucket.write(t.Context(), tt.number)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.Equal(t, tt.reads, tt.bucket.reads, tt.name)
		if tt.want == nil {
			require.Equal(t, tt.number, tt.bucket.number, tt.name)
		} else if tt.want == ErrStale {
			require.GreaterOrEqual(t, tt.bucket.number, before, tt.name)
		}
	}
}

func TestWriteObjectEnds(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	never := func(context.Context, string) error { t.Error("written"); return nil }
	require.Equal(t, failed, WriteObject(t.Context(), 7,
		func(context.Context) (string, uint64, error) { return "", 0, failed }, never))
	require.Equal(t, failed, WriteObject(t.Context(), 7,
		func(context.Context) (string, uint64, error) { return "", 0, nil },
		func(context.Context, string) error { return failed }))

	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	require.ErrorIs(t, WriteObject(ctx, 7,
		func(context.Context) (string, uint64, error) { return "", 0, nil },
		func(context.Context, string) error { tries++; cancel(); return ErrChanged }), context.Canceled)
	require.Equal(t, 1, tries)
}

// A counted is the result of a statement.
type counted struct {
	rows int64
	err  error
}

func (c counted) RowsAffected() (int64, error) { return c.rows, c.err }
func (counted) LastInsertId() (int64, error)   { return 0, errors.New("not asked for") }

func TestChanged(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	require.NoError(t, Changed(counted{rows: 1}, nil))
	require.NoError(t, Changed(counted{rows: 2}, nil))
	require.ErrorIs(t, Changed(counted{}, nil), ErrStale)
	require.Equal(t, failed, Changed(nil, failed))
	require.Equal(t, failed, Changed(counted{rows: 1, err: failed}, nil))
}

// under runs RedisScript by EVAL.
func under(s *redistest.Server, number string, command ...string) (any, error) {
	eval := []string{"EVAL", RedisScript, "2", "{r}:fence", "{r}", number}
	return s.Do(append(eval, command...)...)
}

// A number that is stored, one that comes, and whether the write is done.
func TestRedisScriptCompares(t *testing.T) {
	t.Parallel()
	s := redistest.Servers(t, 1)[0]
	for _, tt := range []struct {
		stored, comes string // "" is no key
		written       bool
		refused       bool // because it is lower, and not for another reason
	}{
		{"", "1", true, false},
		{"", "9007199254740991", true, false},
		{"7", "7", true, false}, // a holder writes more than once
		{"7", "8", true, false},
		{"7", "6", false, true},
		{"9", "10", true, false}, // as numbers, not as texts
		{"10", "9", false, true},
		{"1764000000123456", "1764000000123456", true, false},
		{"1764000000123456", "1764000000123457", true, false},
		{"1764000000123456", "1764000000123455", false, true},
		{"9007199254740991", "9007199254740990", false, true}, // where the last digit is lost first
		{"9007199254740990", "9007199254740991", true, false},
		{"9007199254740991", "9007199254740992", false, false},
		{"9007199254740992", "9007199254740991", false, false}, // stored by something else
		{"0", "1", false, false},
		{"-1", "1", false, false},
		{"nan", "1", false, false},
		{"1e300", "1", false, false},
		{"1 ", "1", false, false},
		{"07", "8", false, false},
		{"unpaid", "8", false, false},
		{"7", "nan", false, false},
		{"7", "0", false, false},
	} {
		_, err := s.Do("FLUSHALL")
		require.NoError(t, err)
		if tt.stored != "" {
			_, err = s.Do("SET", "{r}:fence", tt.stored)
			require.NoError(t, err)
		}
		reply, err := under(s, tt.comes, "SET", "{r}", "paid")
		value, _ := s.Do("GET", "{r}")
		number, _ := s.Do("GET", "{r}:fence")
		if tt.written {
			require.NoError(t, err, "%+v", tt)
			require.Equal(t, "OK", reply, "%+v", tt)
			require.Equal(t, "paid", value, "%+v", tt)
			require.Equal(t, tt.comes, number, "%+v: another text", tt)
			continue
		}
		require.Error(t, err, "%+v", tt)
		require.Equal(t, tt.refused, Refused(err), "%+v: %v", tt, err)
		require.Nil(t, value, "%+v", tt)
		if tt.stored != "" {
			require.Equal(t, tt.stored, number, "%+v", tt)
		}
	}
}

// The script and Parse take the same texts for numbers, sent or stored.
func TestRedisScriptParses(t *testing.T) {
	t.Parallel()
	s := redistest.Servers(t, 1)[0]
	for _, tt := range numbers {
		_, err := s.Do("DEL", "{r}:fence")
		require.NoError(t, err)
		_, err = under(s, tt.text)
		require.Equal(t, tt.want != 0, err == nil, "sent: %.20q: %v", tt.text, err)

		_, err = s.Do("SET", "{r}:fence", tt.text)
		require.NoError(t, err)
		_, err = under(s, strconv.FormatUint(Last, 10))
		require.Equal(t, tt.want != 0, err == nil, "stored: %.20q: %v", tt.text, err)
		require.False(t, Refused(err), "%.20q", tt.text)
	}
}

// The command's reply and its errors are passed on, and what it has no command
// for only raises the number. A number whose command failed counts: only older
// holders are refused.
func TestRedisScriptRunsAnyCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Servers(t, 1)[0]
	reply, err := under(s, "5")
	require.NoError(t, err)
	require.Equal(t, "OK", reply)
	reply, err = under(s, "5", "RPUSH", "{r}", "a", "b\r\n$1", "")
	require.NoError(t, err)
	require.EqualValues(t, 3, reply)
	reply, err = under(s, "6", "LRANGE", "{r}", "0", "-1") // a read keeps older holders out too
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b\r\n$1", ""}, reply)
	_, err = under(s, "5", "RPUSH", "{r}", "late")
	require.True(t, Refused(err), "%v", err)

	_, err = under(s, "7", "INCR", "{r}")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.False(t, Refused(err))
	_, err = under(s, "8", "NOTHING")
	require.Error(t, err)
	require.False(t, Refused(err))
	number, err := s.Do("GET", "{r}:fence")
	require.NoError(t, err)
	require.Equal(t, "8", number)

	_, err = s.Do("DEL", "{r}:fence")
	require.NoError(t, err)
	_, err = s.Do("RPUSH", "{r}:fence", "9")
	require.NoError(t, err)
	_, err = under(s, "9", "RPUSH", "{r}", "unseen")
	require.ErrorContains(t, err, "WRONGTYPE", "the key of the number has another type")
	length, err := s.Do("LLEN", "{r}")
	require.NoError(t, err)
	require.EqualValues(t, 3, length)
}

// Of many holders that write at one time, the last write is that with the
// highest number, by a client that loads the script. Its error is recognised.
func TestRedisScriptByManyClients(t *testing.T) {
	t.Parallel()
	s := redistest.Servers(t, 1, redistest.OverTCP)[0]
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.TCPAddr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	script := rueidis.NewLuaScript(RedisScript)
	write := func(number int) error {
		text := strconv.Itoa(number)
		return script.Exec(t.Context(), client, []string{"{r}:fence", "{r}"}, []string{text, "SET", "{r}", text}).Error()
	}
	var wg sync.WaitGroup
	for number := 1; number <= 64; number++ {
		wg.Go(func() {
			if err := write(number); err != nil && !Refused(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	value, err := s.Do("GET", "{r}")
	require.NoError(t, err)
	require.Equal(t, "64", value)
	err = write(63)
	require.True(t, Refused(err), "%v", err)
	require.True(t, strings.HasPrefix(err.Error(), redisRefusal), "%v", err)
}
