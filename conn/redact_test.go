package conn

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// No exported type shows a password, or a key of the prelude, when it is
// printed, whatever the verb and wherever the value is. A new type needs a
// specimen here.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const user, password, key = "al1ce", "hunter2hunter2", "s3cret:key"
	network := redistest.NewNetwork()
	defer network.Close()
	node := redistest.NewNode(redistest.NodeConfig{User: user, Password: password})
	defer node.Close()
	node.Serve(network.Listen("node:6379"))
	config := Config{
		Endpoint: Endpoint{Addr: "node:6379", Username: user, Password: password}, NetDial: network.Dial, Conceal: key,
	}
	c, err := Dial(t.Context(), config)
	require.NoError(t, err)
	defer c.Close()
	wrong := config
	wrong.Password = "wr0ng" + password
	_, refused := Dial(t.Context(), wrong)
	var step *StepError
	require.ErrorAs(t, refused, &step)
	dialed := config
	dialed.NetDial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") }
	_, failed := Dial(t.Context(), dialed)
	var e *Error
	require.ErrorAs(t, failed, &e)
	config.Prelude = []Step{{Command: []byte(key)}}

	specimens := map[string][]redistest.Specimen{
		"Conn":   {{Value: c}},
		"Config": {{Value: config, Open: true}, {Value: &config, Open: true}}, "Endpoint": {{Value: config.Endpoint, Open: true}},
		"Step":  {{Value: config.Prelude[0], Open: true}},
		"Error": {{Value: e}, {Value: refused}}, "StepError": {{Value: step}}, "PeerError": {{Value: &PeerError{Err: errTest}}},
		"Class": {{Value: step.Class}}, "Outlook": {{Value: Passing}}, "Server": {{Value: c.Server()}}, "Event": {{Value: Event{}}}, "TLSFiles": {{Value: TLSFiles{}}}, "Poller": {{Value: &Poller{}}},
	}
	for _, name := range redistest.ExportedTypes(t, ".") {
		require.NotEmpty(t, specimens[name], "%s needs a specimen", name)
	}
	for _, all := range specimens {
		for _, s := range all {
			s.ShowsNone(t, user, password, key)
		}
	}
}
