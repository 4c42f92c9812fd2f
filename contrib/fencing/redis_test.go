package fencing

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

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
