package pure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecord(t *testing.T) {
	for _, r := range []Record{
		{Run: "a"}, {Run: NoRun, Floor: NoFloor}, {Run: "a", Floor: 1, Period: 2, Cur: 3, Prev: 4},
		{Run: strings.Repeat("f", 40), Floor: LastNumber, Period: LastNumber, Cur: LastNumber, Prev: LastNumber},
	} {
		got, err := ParseRecord(r.String())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	good := Record{Run: "a", Floor: 1, Period: 2, Cur: 3, Prev: 4}.String()
	for _, bad := range []string{
		"", " ", good + " ", " " + good, good + "x", good[:len(good)-1], strings.Replace(good, "1 run", "2 run", 1),
		strings.Replace(good, "floor=1", "floor=", 1), strings.Replace(good, "floor=1", "floor=-1", 1), strings.Replace(good, "cur=3", "cur=+3", 1),
		strings.Replace(good, "cur=3", "cur=9007199254740992", 1), strings.Replace(good, "run_id=a", "run_id=", 1),
		strings.Replace(good, "run_id=a", "run_id=a b", 1), strings.Replace(good, "cur=3 prev=4", "prev=4 cur=3", 1),
	} {
		_, err := ParseRecord(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestRecordHigh(t *testing.T) {
	for want, r := range map[int64]Record{
		0: {Floor: NoFloor}, 7: {Floor: 7, Cur: 3, Prev: 4}, 8: {Floor: NoFloor, Cur: 8, Prev: 4}, 9: {Floor: 3, Cur: 4, Prev: 9},
	} {
		require.Equal(t, want, r.High())
	}
}
