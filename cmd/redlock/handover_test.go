package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/redlock"
)

// tokenOf repeats a text to the length of a token.
func tokenOf(text string) redlock.Token {
	token, err := redlock.ParseToken(strings.Repeat(text, 27)[:26] + "A")
	if err != nil {
		panic(err)
	}
	return token
}

func TestHandover(t *testing.T) {
	for _, h := range []handover{
		{tokenOf("A"), 30 * time.Second, 0, clock.Moment{Wall: 1, Boot: 2}, "abc", ""},
		{tokenOf("A"), 30 * time.Second, 7, clock.Moment{Wall: 1, Boot: 2}, "abc", ""},
		{tokenOf("-_"), time.Millisecond, 0, clock.Moment{Wall: -1, Boot: 1 << 62}, "host.example.org", "web-1.example.org:17"},
		{tokenOf("-_"), time.Millisecond, 1<<53 - 1, clock.Moment{Wall: -1, Boot: 1 << 62}, "host.example.org", "x"},
		{tokenOf("z9"), time.Hour, 0, clock.Moment{Wall: 0, Boot: 0}, "", ""},
	} {
		got, err := parseHandover(h.reveal())
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.NotContains(t, h.reveal(), " ")
	}
	good := handover{tokenOf("z9"), time.Hour, 0, clock.Moment{Wall: 5, Boot: 6}, "x", ""}.reveal()
	fenced := handover{tokenOf("z9"), time.Hour, 7, clock.Moment{Wall: 5, Boot: 6}, "x", ""}.reveal()
	for _, bad := range []string{
		"", "redlock2", strings.Repeat(".", 6), "x" + good, strings.Replace(good, "redlock2", "redlock1", 1),
		strings.Replace(good, "z9", "z+", 1), strings.Replace(good, ".3600000.", ".0.", 1),
		strings.Replace(good, ".3600000.", ".-1.", 1), strings.Replace(good, ".3600000.", ".99999999999999999999.", 1),
		strings.Replace(good, ".3600000", ":.3600000", 1), strings.Replace(good, ".3600000", ":YSBi.3600000", 1), // "" and "a b"
		strings.Replace(good, ".3600000", ":+.3600000", 1),
		strings.Replace(good, ".5.", ".5s.", 1), strings.Replace(good, ".6.", "..", 1), "redlock2 " + good,
		strings.Replace(good, "redlock2", "redlock3", 1), strings.Replace(fenced, ".7.", ".0.", 1), strings.Replace(fenced, ".7.", ".-7.", 1),
		strings.Replace(fenced, ".7.", ".9007199254740992.", 1), strings.Replace(fenced, ".7.", ".", 1),
	} {
		_, err := parseHandover(bad)
		require.ErrorIs(t, err, errHandover, "%q", bad)
	}
}

// Formatting shows no token (R27).
func TestHandoverIsNotPrinted_R27(t *testing.T) {
	h := handover{tokenOf("abcd"), time.Hour, 0, clock.Moment{Wall: 5, Boot: 6}, "x", ""}
	for _, verb := range []string{"%v", "%+v", "%s", "%x"} {
		require.NotContains(t, strings.ToLower(fmt.Sprintf(verb, h)), "abcd", verb)
	}
	_, err := parseHandover(h.reveal() + "\n" + strings.Repeat("z", 10) + ".")
	if err != nil {
		require.NotContains(t, err.Error(), "abcd")
	}
}
