package main

import (
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's chart is that of the figures beside it.
func TestChartIsDrawnFromTheFigures(t *testing.T) {
	rows, err := os.Open("../results.csv")
	require.NoError(t, err)
	defer rows.Close()
	var drawn strings.Builder
	require.NoError(t, draw(&drawn, rows))
	is, err := os.ReadFile("../../docs/throughput.svg")
	require.NoError(t, err)
	require.Equal(t, drawn.String(), string(is), "go run ./bench/chart <bench/results.csv >docs/throughput.svg")
	for d := xml.NewDecoder(strings.NewReader(drawn.String())); err == nil; _, err = d.Token() {
	}
	require.ErrorIs(t, err, io.EOF)
}

func TestGroups(t *testing.T) {
	groups, err := read(strings.NewReader("case,network,fault,n,impl,clients,pairs_per_s\n" +
		"peers,tcp,,5,redlock,16,300\npeers,tcp,,5,redlock,16,100\npeers,tcp,,5,redlock,16,200\npeers,tcp,,5,redlock-portable,16,190\npeers,tcp,,5,rueidis,16,90\npeers,tcp,,5,redsync,16,20.4\npeers,tcp,,5,redlock,1,9\npeers,tcp,,5,redsync,1,8\npeers,tcp,one stopped,5,redlock,1,8\npeers,tls,,5,redlock,1,8\npeers,tcp,,3,redlock,1,8\nhotkey,tcp,,5,redlock,1,8\n"))
	require.NoError(t, err)
	require.Equal(t, []group{
		{callers: 1, ours: 9, best: 8, redsync: 8, peer: "redsync"},
		{callers: 16, ours: 200, best: 90, redsync: 20.4, peer: "rueidis"},
	}, groups)
	_, err = read(strings.NewReader("impl,clients\nredlock,1\n"))
	require.ErrorContains(t, err, "a column is missing: case")
	_, err = read(strings.NewReader(""))
	require.Error(t, err)
}

func TestTick(t *testing.T) {
	for highest, step := range map[float64]float64{7: 1, 8: 2, 14: 2, 36: 10, 132062: 20000} {
		require.InDelta(t, step, tick(highest), 1e-9, "%v", highest)
	}
	require.Equal(t, "1,234,567", thousands(1234567))
	require.Equal(t, "999", thousands(999))
}
