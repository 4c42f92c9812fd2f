package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func write(value string, call, ret int64) Access {
	return Access{Key: "k", Write: true, Value: value, Call: call, Return: ret}
}

func read(value string, call, ret int64) Access {
	return Access{Key: "k", Value: value, Call: call, Return: ret}
}

// unknown is an access without a result.
func unknown(a Access) Access {
	a.Unknown, a.Return = true, 0
	return a
}

func on(key string, a Access) Access {
	a.Key = key
	return a
}

func TestRegistersMadeByHand(t *testing.T) {
	for _, c := range []struct {
		name  string
		all   []Access
		legal bool
	}{
		{"nothing", nil, true},
		{"never written", []Access{read("", 1, 2)}, true},
		{"written, then read", []Access{write("a", 1, 2), read("a", 3, 4)}, true},
		{"read while it was written", []Access{write("a", 1, 2), write("b", 3, 9), read("a", 4, 5), read("b", 6, 7)}, true},
		{"two at a time, in either order", []Access{write("a", 1, 5), write("b", 1, 5), read("a", 6, 7), read("a", 8, 9)}, true},
		{"a write without a result, never seen", []Access{write("a", 1, 2), unknown(write("b", 3, 0)), read("a", 9, 10)}, true},
		{"a write without a result, seen late", []Access{write("a", 1, 2), unknown(write("b", 3, 0)), read("a", 9, 10), read("b", 11, 12)}, true},
		{"a read without a result", []Access{write("a", 1, 2), unknown(read("", 3, 0)), read("a", 9, 10)}, true},
		{"wiped", []Access{write("a", 1, 2), write("", 3, 8), read("a", 4, 5), read("", 6, 7), read("", 9, 10)}, true},
		{"two keys", []Access{write("a", 1, 2), on("l", write("b", 3, 4)), read("a", 5, 6), on("l", read("b", 5, 6))}, true},

		{"an old value", []Access{write("a", 1, 2), write("b", 3, 4), read("a", 5, 6)}, false},
		{"back and forth", []Access{write("a", 1, 9), write("b", 1, 9), read("a", 10, 11), read("b", 12, 13)}, false},
		{"forgotten", []Access{write("a", 1, 2), read("", 5, 6)}, false},
		{"seen before it was written", []Access{read("a", 1, 2), write("a", 3, 4)}, false},
		{"a write without a result, seen before", []Access{read("a", 1, 2), unknown(write("a", 3, 0))}, false},
		{"a write without a result, seen and gone", []Access{write("a", 1, 2), unknown(write("b", 3, 0)), read("b", 5, 6), read("a", 7, 8)}, false},
		{"another key's value", []Access{write("a", 1, 2), on("l", write("b", 3, 4)), read("b", 5, 6)}, false},
		{"two replies swapped", []Access{write("a", 1, 2), on("l", write("b", 1, 2)), read("b", 3, 4), on("l", read("a", 3, 4))}, false},
		{"never written", []Access{read("x", 1, 2)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := CheckRegisters(c.all, 0)
			require.Equal(t, c.legal, v.Err() == nil, v.Findings)
			require.Zero(t, v.Undecided)
		})
	}
}

// A long history is cut after an access that overlapped no other, and its value
// is carried over.
func TestRegistersInWindows(t *testing.T) {
	var all []Access
	for i := range int64(10_000) {
		all = append(all, write(fmt.Sprint(i), 10*i, 10*i+6), read(fmt.Sprint(i), 10*i+7, 10*i+9))
	}
	v := CheckRegisters(all, time.Minute)
	require.NoError(t, v.Err())
	require.Equal(t, 20_000, v.Operations)
	require.Greater(t, v.Windows, 300)

	// One read of a value that was just overwritten is found wherever it is.
	for range 15 {
		i := 1 + rand.IntN(9_999)
		wrong := &all[2*i+1]
		right := wrong.Value
		wrong.Value = fmt.Sprint(i - 1)
		v := CheckRegisters(all, time.Minute)
		require.Equal(t, 1, v.Violated, "at %d: %v", i, v.Findings)
		wrong.Value = right
	}
}

// A window that cannot be decided in time is reported, and is no success.
func TestRegistersNotDecided(t *testing.T) {
	var all []Access
	for i := range int64(40) { // all at the same time, and the reads want an order that does not exist
		all = append(all, write(fmt.Sprint(i), 0, 1000))
	}
	for i := range int64(12) {
		all = append(all, read(fmt.Sprint(i), 0, 1000), read(fmt.Sprint(i), 0, 1000))
	}
	all = append(all, read("0", 1001, 1002), read("1", 1003, 1004))
	v := CheckRegisters(all, 100*time.Millisecond)
	require.Equal(t, 1, v.Undecided)
	require.ErrorContains(t, v.Err(), "1 not decided")
}
