package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/resp"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, granted},
		{redlock.ErrHeld, held},
		{fmt.Errorf("x: %w", redlock.ErrHeld), held},
		{errors.Join(context.DeadlineExceeded, redlock.ErrHeld), held},
		{errors.Join(context.Canceled, redlock.ErrHeld), cancelled},
		{&bench.RueidisError{}, noQuorum},
		{redlock.ErrExpired, expired},
		{context.Canceled, cancelled},
		{context.DeadlineExceeded, cancelled},
		{redlock.ErrOverloaded, failed},
		{errors.New("?"), failed},
	} {
		require.Equal(t, c.want, judge(c.err), "%v", c.err)
	}
}

// Each node of a missing quorum is counted once, with the reason why it did not
// vote.
func TestCauses(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	c := causes{}
	c.add(&bench.RueidisError{Causes: []error{
		fmt.Errorf("a:1: %w", refused),
		fmt.Errorf("b:1: %w", &resp.Error{Message: "LOADING Redis is loading the dataset in memory"}),
		fmt.Errorf("c:1: %w", refused),
	}})
	require.Equal(t, causes{"connection refused": 2, "LOADING": 1}, c)

	c = causes{}
	c.add(errors.Join(redlock.ErrNoQuorum, &multiplex.UndecidedError{Nodes: []*multiplex.NodeError{
		{Err: errors.Join(multiplex.ErrDown, refused)},
		{Err: multiplex.ErrDown},
	}}))
	require.Equal(t, causes{"connection refused": 1, multiplex.ErrDown.Error(): 1}, c)
}

func TestCausesAreBounded(t *testing.T) {
	c := causes{}
	for i := range 10 * maxCauses {
		c.add(fmt.Errorf("%d %s", i, strings.Repeat("µ", 1000)))
	}
	require.LessOrEqual(t, len(c), maxCauses+1)
	require.EqualValues(t, 9*maxCauses, c["other"])
	for cause := range c {
		require.LessOrEqual(t, len(cause), maxCause)
		require.True(t, utf8.ValidString(cause), "a letter was cut in two")
	}
}

// A server's text is not written to a terminal unchanged.
func TestServersWordsArePrintable(t *testing.T) {
	c := causes{}
	c.add(&resp.Error{Message: "ERR \x1b]0;title\a no\u009b2J"})
	c.add(&resp.Error{Message: "NO\x1bAUTH needed"})
	c.add(&resp.Error{Message: strings.Repeat("X", 1000) + " y"})
	require.Equal(t, causes{"ERR ]0;title no2J": 1, "NOAUTH": 1, strings.Repeat("X", maxCause): 1}, c)
}

func TestHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h hold
	require.NoError(t, h.UnmarshalText([]byte("5ms")))
	require.Equal(t, 5*time.Millisecond, h.next(random))
	require.NoError(t, h.UnmarshalText([]byte("exp:5ms")))
	var sum time.Duration
	for range 10_000 {
		sum += h.next(random)
	}
	require.InEpsilon(t, 5*time.Millisecond, sum/10_000, 0.05)
	for _, bad := range []string{"", "5", "exp:", "-1ms", "exp:-1ms", "uniform:5ms"} {
		require.Error(t, h.UnmarshalText([]byte(bad)), bad)
	}
}
