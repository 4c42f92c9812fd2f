package peers

import (
	"context"

	goredislib "github.com/redis/go-redis/v9"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/conn"
)

// goredisOptions turns an endpoint into options, which are go-redis' defaults
// except for those of with.
func goredisOptions(e conn.Endpoint, with goredislib.Options) *goredislib.Options {
	with.Network, with.Addr, with.TLSConfig = e.Network, e.Addr, e.TLS
	with.Username, with.Password, with.DB = e.Username, e.Password, e.DB
	return &with
}

// goredisNode is a master, asked by go-redis' blocking automatic pipelining.
type goredisNode struct {
	client *goredislib.Client
	pipe   *goredislib.AutoPipeliner
}

// goredisClients returns a client for each master, which dials when it is used.
// Unless with says otherwise, pools, timeouts and retries are the defaults of
// go-redis. They include a read timeout of five seconds, for which a stopped
// master blocks a caller that waits for it.
func goredisClients(s load.Settings, with goredislib.Options) (clients []*goredislib.Client, err error) {
	all, err := endpoints(s)
	for _, e := range all {
		clients = append(clients, goredislib.NewClient(goredisOptions(e, with)))
	}
	return clients, err
}

// dialGoredis connects to a master with go-redis' blocking automatic
// pipelining, for bench.RueidisConfig.Dial. Its options are the defaults of
// that face, which were the fastest.
func dialGoredis(e conn.Endpoint) (bench.Node, error) {
	client := goredislib.NewClient(goredisOptions(e, goredislib.Options{}))
	pipe, err := client.AutoPipelineWithOptions(goredislib.DefaultBlockingAutoPipelineOptions())
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	client.ScriptLoad(context.Background(), bench.ReleaseScript) // a master that is down is no error
	return &goredisNode{client, pipe}, nil
}

// setCommand and deleteCommand are what all ways of go-redis send. A BoolCmd
// takes the null of SET NX and the integer of the script as what they mean.
func setCommand(resource, token, ttl string) *goredislib.BoolCmd {
	return goredislib.NewBoolCmd(context.Background(), "set", resource, token, "px", ttl, "nx")
}

func deleteCommand(resource, token string) *goredislib.BoolCmd {
	return goredislib.NewBoolCmd(context.Background(), "evalsha", bench.ReleaseSHA, 1, resource, token)
}

// scriptCommand is deleteCommand for a master that lost the script.
func scriptCommand(resource, token string) *goredislib.BoolCmd {
	return goredislib.NewBoolCmd(context.Background(), "eval", bench.ReleaseScript, 1, resource, token)
}

func lostScript(err error) bool { return err != nil && goredislib.HasErrorPrefix(err, "NOSCRIPT") }

// Set implements bench.Node.
func (n *goredisNode) Set(resource, token, ttl string) (bool, error) {
	return n.ask(setCommand(resource, token, ttl))
}

// Delete implements bench.Node.
func (n *goredisNode) Delete(resource, token string) (bool, error) {
	deleted, err := n.ask(deleteCommand(resource, token))
	if lostScript(err) {
		return n.ask(scriptCommand(resource, token))
	}
	return deleted, err
}

func (n *goredisNode) ask(cmd *goredislib.BoolCmd) (bool, error) {
	_ = n.pipe.Process(context.Background(), cmd) // the command has the error
	return cmd.Result()
}

// Close implements bench.Node.
func (n *goredisNode) Close() {
	_ = n.pipe.Close()
	_ = n.client.Close()
}
