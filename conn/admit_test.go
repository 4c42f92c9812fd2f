package conn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R22: a replica refuses the commands of the prelude. The error says that the
// node is a replica, once the node has introduced itself, in both versions of
// the protocol. The prelude of an admitted node is checked as usual.
func TestAdmitComesBeforeThePrelude_R22(t *testing.T) {
	objection := errors.New("not a master")
	masters := func(s *Server) error {
		if s.Role != "master" || s.RunID == "" || s.EvictionPolicy == "" {
			return objection
		}
		return nil
	}
	replica := text3("# Replication\r\nrole:slave\r\n")
	writes := []Step{{Command: resp.AppendCommand(nil, "DEL", "k")}}
	for _, c := range []struct {
		name    string
		cfg     Config
		answers map[string]string
		want    error // the error that Admit returns
		step    bool  // a command of the handshake was refused
	}{
		{"replica", Config{Prelude: writes}, map[string]string{"INFO replication": replica, "DEL": "-READONLY no\r\n"}, objection, false},
		{"replica in RESP2", Config{Prelude: writes, Endpoint: Endpoint{Protocol: 2}},
			map[string]string{"INFO replication": replica, "DEL": "-READONLY no\r\n"}, objection, false},
		{"replica without a prelude", Config{}, map[string]string{"INFO replication": replica}, objection, false},
		{"master", Config{Prelude: writes}, map[string]string{"DEL": ":0\r\n"}, nil, false},
		{"master that refuses", Config{Prelude: writes}, map[string]string{"DEL": "-NOPERM no\r\n"}, nil, true},
		{"password wrong", Config{Prelude: writes}, map[string]string{"HELLO": "-WRONGPASS no\r\n"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers}
				c.cfg.Addr, c.cfg.NetDial, c.cfg.Admit = "node.test:6379", s.dial, masters
				conn, err := Dial(context.Background(), c.cfg)
				if c.want == nil && !c.step {
					require.NoError(t, err)
					require.NoError(t, conn.Close())
					return
				}
				require.Error(t, err)
				var step *StepError
				assert.Equal(t, c.step, errors.As(err, &step), "%v", err)
				assert.Equal(t, c.want != nil, errors.Is(err, objection), "%v", err)
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, "handshake", e.Op)
			})
		})
	}
}
