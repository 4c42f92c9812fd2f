package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/conn"
)

// valkeyNode is a master, asked by valkey-go, which began as a fork of rueidis.
type valkeyNode struct{ client valkey.Client }

var errNotAnAnswer = errors.New("peers: the reply cannot answer a SET")

// dialValkey connects with the options that are the fastest for rueidis, too
// (bench.RueidisTuned), and loads the script.
func dialValkey(e conn.Endpoint) (bench.Node, error) {
	o := valkey.ClientOption{
		InitAddress: []string{e.Addr}, TLSConfig: e.TLS, Username: e.Username, Password: e.Password, SelectDB: e.DB,
		Dialer: net.Dialer{Timeout: e.DialTimeout, KeepAlive: e.KeepAlive}, ForceSingleClient: true,
		DisableCache: true, PipelineMultiplex: -1, MaxFlushDelay: 100 * time.Microsecond,
	}
	if e.Network == "unix" {
		o.DialCtxFn = dialUnix
	}
	c, err := valkey.NewClient(o)
	if c == nil {
		return nil, err
	}
	c.Do(context.Background(), c.B().ScriptLoad().Script(bench.ReleaseScript).Build())
	return &valkeyNode{c}, nil
}

// dialUnix is what rueidis and valkey-go need for a unix socket.
func dialUnix(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return d.DialContext(ctx, "unix", path)
}

// Set implements bench.Node.
func (n *valkeyNode) Set(resource, token, ttl string) (bool, error) {
	cmd := n.client.B().Arbitrary("SET").Keys(resource).Args(token, "NX", "PX", ttl).Build()
	reply, err := n.client.Do(context.Background(), cmd).ToString()
	switch {
	case err == nil && reply == "OK":
		return true, nil
	case valkey.IsValkeyNil(err):
		return false, nil
	case err == nil:
		err = errNotAnAnswer
	}
	return false, err
}

// Delete implements bench.Node.
func (n *valkeyNode) Delete(resource, token string) (bool, error) {
	cmd := n.client.B().Arbitrary("EVALSHA", bench.ReleaseSHA, "1").Keys(resource).Args(token).Build()
	deleted, err := n.client.Do(context.Background(), cmd).AsInt64()
	if e, ok := valkey.IsValkeyErr(err); ok && e.IsNoScript() {
		cmd = n.client.B().Arbitrary("EVAL", bench.ReleaseScript, "1").Keys(resource).Args(token).Build()
		deleted, err = n.client.Do(context.Background(), cmd).AsInt64()
	}
	return deleted == 1, err
}

// Close implements bench.Node.
func (n *valkeyNode) Close() { n.client.Close() }
