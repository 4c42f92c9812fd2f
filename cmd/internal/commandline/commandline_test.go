package commandline

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// bytes are no UTF-8, and need care in JSON.
const bytes = "caf\xe9 \xff\xfe\x80<&>\u2028\\u0041"

type line struct {
	Text     string   `short:"t" env:"COMMANDLINE_TEST_TEXT"`
	Pointer  *string  ``
	Texts    []string `sep:"none"`
	Resource string   `arg:"" optional:""`
	Command  []string `arg:"" optional:"" passthrough:""`
}

func parse(t *testing.T, args ...string) (line, *kong.Context, error) {
	t.Helper()
	var l line
	parser, err := kong.New(&l, Bytes())
	require.NoError(t, err)
	parsed, err := parser.Parse(args)
	return l, parsed, err
}

func TestEveryTextIsTakenByteForByte(t *testing.T) {
	t.Setenv("COMMANDLINE_TEST_TEXT", bytes)
	l, _, err := parse(t, "--pointer="+bytes, "--texts", bytes, "--texts="+bytes, bytes, "--", bytes, "-"+bytes)
	require.NoError(t, err)
	text := bytes
	require.Equal(t, line{bytes, &text, []string{bytes, bytes}, bytes, []string{"--", bytes, "-" + bytes}}, l)
	l, _, err = parse(t, "-t"+bytes)
	require.NoError(t, err)
	require.Equal(t, bytes, l.Text)
}

// A flag is no value of the flag before it.
func TestAFlagIsNoText(t *testing.T) {
	for _, args := range [][]string{{"--text", "--", "r"}, {"--texts", "--pointer", "r"}, {"--text"}} {
		_, _, err := parse(t, args...)
		require.Error(t, err, args)
	}
}

func TestSplitURLsTakesBytesAndSeesWhatIsMissing(t *testing.T) {
	want := []string{"redis://a", "redis://:\xe9@b", "unix:///c,d"}
	for _, list := range []string{
		"redis://a,redis://:\xe9@b,unix:///c\\,d", "redis://a, redis://:\xe9@b, unix:///c\\,d", "redis://a redis://:\xe9@b unix:///c\\,d",
		"\n  redis://a,\r\n  redis://:\xe9@b\n\tunix:///c\\,d,\n",
	} {
		urls, err := SplitURLs(list)
		require.NoError(t, err)
		require.Equal(t, want, urls, "%q", list)
	}
	urls, err := SplitURLs("redis+sentinel://a:1,b,[::1]:2/m,Redis+Cluster://c,d,unix:/e,redis://f,unix:///g")
	require.NoError(t, err)
	require.Equal(t, []string{"redis+sentinel://a:1,b,[::1]:2/m", "Redis+Cluster://c,d", "unix:/e", "redis://f", "unix:///g"}, urls)
	urls, err = SplitURLs("redis://a", "redis://:\xe9@b unix:///c\\,d")
	require.NoError(t, err)
	require.Equal(t, want, urls)
	for list, want := range map[string][]string{" , \n": nil, "": nil, `a\b\\,c\`: {`a\b\\`, `c\`}, "a,\n": {"a"}} {
		urls, err := SplitURLs(list)
		require.NoError(t, err)
		require.Equal(t, want, urls, "%q", list)
	}
	for _, list := range []string{"a,,b", "a, ,b", "a,\n,b", "a,b,,", "a,", ",b", " ,a", "a, "} {
		_, err := SplitURLs(list)
		require.ErrorContains(t, err, "between two commas", "%q", list)
	}
}

// An empty text on the command line is a variable that is not set; in the
// environment it is no setting.
func TestEmptyTextsAreRefusedOnTheCommandLineOnly(t *testing.T) {
	t.Setenv("COMMANDLINE_TEST_TEXT", "")
	for _, args := range [][]string{{"--text="}, {"--text", ""}, {"-t", " "}, {"--texts="}, {"--texts=", "--texts=a"}, {"--pointer="}} {
		_, parsed, err := parse(t, args...)
		require.NoError(t, err)
		require.ErrorContains(t, Empty(parsed), "is empty", args)
	}
	for _, args := range [][]string{nil, {"--text=a", "--texts=b", "--pointer=c"}, {"r", "--", ""}} {
		_, parsed, err := parse(t, args...)
		require.NoError(t, err)
		require.NoError(t, Empty(parsed), args)
	}
}
