package conn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func decodeOne(t testing.TB, wire string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	_, err := r.Fill(strings.NewReader(wire))
	require.NoError(t, err)
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	return v
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

const (
	idA, idB  = "a3c6e8f0a3c6e8f0a3c6e8f0a3c6e8f0a3c6e8f0", "b3c6e8f0a3c6e8f0a3c6e8f0a3c6e8f0a3c6e8f0"
	zeros     = "0000000000000000000000000000000000000000"
	aReplica  = "slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=1\r\n"
	ofMaster  = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:1\r\n"
	inHistory = "master_replid:" + idA + "\r\nmaster_replid2:" + zeros + "\r\nmaster_repl_offset:14\r\nsecond_repl_offset:-1\r\n"
)

func TestStanding(t *testing.T) {
	fresh := Standing{Master: true, Same: true, Replicas: 2, Fresh: 1}
	old := fresh
	old.Fresh = 0
	other := fresh
	other.Same = false
	for name, c := range map[string]struct {
		history, info string
		want          Standing
	}{
		"as it was":        {idA, ofMaster + aReplica + inHistory, fresh},
		"promoted, before": {idA + ":" + idB + ":100", strings.NewReplacer(zeros, idB, ":-1", ":100").Replace(ofMaster + aReplica + inHistory), fresh},
		"promoted since":   {idA, strings.NewReplacer(zeros, idB, ":-1", ":100").Replace(ofMaster + aReplica + inHistory), other},
		"another offset":   {idA + ":" + idB + ":100", strings.NewReplacer(zeros, idB, ":-1", ":101").Replace(ofMaster + aReplica + inHistory), other},
		"another history":  {idB, ofMaster + aReplica + inHistory, other},
		"a longer one":     {idA + "x", ofMaster + aReplica + inHistory, other},
		"no history now":   {idA, ofMaster + aReplica, other},
		"none, ever":       {"", ofMaster + aReplica, fresh},
		"one suddenly":     {"", ofMaster + aReplica + inHistory, other},
		"far behind":       {idA, ofMaster + strings.Replace(aReplica, "lag=1", "lag=3", 1) + inHistory, old},
		"not online":       {idA, ofMaster + strings.Replace(aReplica, "online", "wait_bgsave", 1) + inHistory, old},
		"no lag":           {idA, ofMaster + strings.Replace(aReplica, ",lag=1", "", 1) + inHistory, old},
		"a strange lag":    {idA, ofMaster + strings.Replace(aReplica, "lag=1", "lag=-1", 1) + inHistory, old},
		"a huge lag":       {idA, ofMaster + strings.Replace(aReplica, "lag=1", "lag=99999999999999999999", 1) + inHistory, old},
		"a replica":        {idA, strings.Replace(ofMaster, "master", "slave", 1) + aReplica + inHistory, Standing{Same: true, Replicas: 2, Fresh: 1}},
		"nothing":          {idA, "", Standing{}},
	} {
		s := Server{History: c.history}
		for _, kind := range []string{"$", "="} {
			wire := bulk(c.info)
			if kind == "=" {
				wire = fmt.Sprintf("=%d\r\ntxt:%s\r\n", len(c.info)+4, c.info)
			}
			got, ok := s.Standing(decodeOne(t, wire), 2*time.Second)
			require.True(t, ok)
			assert.Equal(t, c.want, got, name)
		}
	}
	for _, wire := range []string{"+OK\r\n", "$-1\r\n", ":1\r\n", "-ERR\r\n", "*0\r\n"} {
		_, ok := new(Server).Standing(decodeOne(t, wire), 0)
		assert.False(t, ok, wire)
	}
}

// It is asked behind every batch.
func TestStandingAllocatesNothing(t *testing.T) {
	s, v := Server{History: idA}, decodeOne(t, bulk(ofMaster+aReplica+inHistory))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = s.Standing(v, time.Second) }))
}

func TestMinReplicas(t *testing.T) {
	all := bulk("min-replicas-to-write") + bulk("2") + bulk("min-replicas-max-lag") + bulk("10")
	for wire, want := range map[string][2]int{
		"%2\r\n" + all: {2, 10},
		"*4\r\n" + all: {2, 10},
		"*2\r\n" + bulk("min-replicas-to-write") + bulk("1"):  {1, 0},
		"*2\r\n" + bulk("min-replicas-to-write") + bulk("-1"): {},
		"*2\r\n" + bulk("min-replicas-to-write") + bulk("x"):  {},
		"*0\r\n": {}, "*-1\r\n": {}, "_\r\n": {}, "+OK\r\n": {}, "-NOPERM no\r\n": {}, "*1\r\n" + bulk("x"): {},
	} {
		needed, lag := MinReplicas(decodeOne(t, wire))
		assert.Equal(t, want, [2]int{needed, int(lag / time.Second)}, wire)
	}
}
