package probe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
)

// fields encodes an answer of a sentinel about a server.
func fields(ip, port, run string) string {
	return string(resp.AppendCommand(nil, "ip", ip, "port", port, "runid", run, "flags", "slave,s_down", "quorum", "2", "other", "x"))
}

// Whatever seeds answer, LookAround returns, dials few addresses, and keeps
// nothing that could move a cursor.
func TestHostileSeeds(t *testing.T) {
	many := resp.AppendArray(nil, 1000)
	for i := range 1000 {
		many = append(many, fields(fmt.Sprintf("h%d", i), "1", "x")...)
	}
	for name, reply := range map[string]string{
		"many servers":  string(many),
		"no addresses":  "*4\r\n" + fields("a@b", "1", "x") + fields("a/b", "1", "x") + fields("\x1b[2J", "1", "\x1b[2J") + fields("a", "70000", "x"),
		"a server":      fields("h", "1", "\x1b[2J"),
		"an odd list":   "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
		"nulls":         "*-1\r\n",
		"nested nulls":  "*3\r\n*-1\r\n$-1\r\n*1\r\n*-1\r\n",
		"ranges":        "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$5\r\n\x1b[2Jx\r\n:-1\r\n$-1\r\n",
		"an error":      "-NOQUORUM \x1b[31m\r\n",
		"a long error":  "-ERR " + strings.Repeat("x", 4000) + "\r\n",
		"a number":      ":1\r\n",
		"a simple word": "+\x1b[2J\r\n",
	} {
		for _, master := range []string{"m", ""} {
			t.Run(name+" of "+master, func(t *testing.T) {
				node := redistest.NewNode(redistest.NodeConfig{})
				defer node.Close()
				network := redistest.NewNetwork()
				defer network.Close()
				node.Serve(network.Listen("node:6379"))
				node.Handle(func(_ int, args []string) ([]byte, bool) {
					return []byte(reply), args[0] == "SENTINEL" || args[0] == "CLUSTER"
				})
				p := New(conn.Endpoint{Seeds: &conn.Seeds{Addrs: []string{"node:6379"}, Master: master}, Failover: conn.Failover{Expected: true}}, "{x}:")
				p.dial = network.Dial
				a := p.LookAround(soon(t), &Facts{replicas: readReplicas("slave0:ip=\x1b[2J,port=1,state=online\r\nslave1:ip=,port=\r\n")})
				assert.Equal(t, name == "many servers" && master != "", a.More)
				assert.LessOrEqual(t, len(a.Announced), mostAnnounced)
				words := []string{a.Seeds[0].Master, a.Seeds[0].Quorum}
				for _, one := range a.Announced {
					assert.Error(t, one.Err, "nothing listens there")
					words = append(append(words, one.Addr, one.ID), one.Said...)
				}
				if a.Seeds[0].Err != nil {
					words = append(words, a.Seeds[0].Err.Error())
				}
				assert.Regexp(t, `^[ -~]*$`, strings.Join(words, " "))
				assert.LessOrEqual(t, len(a.Seeds[0].Watch), len(watched))
			})
		}
	}
}
