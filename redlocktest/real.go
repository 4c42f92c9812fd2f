package redlocktest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/redmux/redmux/internal/redistest"
)

// beginReal starts server processes, each behind a proxy.
func (d *Deployment) beginReal(nodes int) error {
	servers, err := redistest.StartN(nodes, redistest.Options{Password: d.settings.password})
	if err != nil {
		return err
	}
	for _, s := range servers {
		d.ends = append(d.ends, s.Close)
	}
	for _, s := range servers {
		proxy, err := redistest.NewProxy(s.UnixURL())
		if err != nil {
			return err
		}
		d.ends = append(d.ends, proxy.Close)
		// The proxy's URL would contain the server's password, which belongs in
		// Config.
		d.nodes = append(d.nodes, &Node{
			url: "redis://" + proxy.Addr(), link: proxy.Link, server: &process{server: s, proxy: proxy},
		})
	}
	return nil
}

type process struct {
	server *redistest.Server
	proxy  *redistest.Proxy
	paused bool
}

func (p *process) stop() error {
	p.paused = false
	p.proxy.Refuse(true)
	return p.server.Kill()
}

func (p *process) start() error { return p.server.Restart() }

func (p *process) refuse(on bool) { p.proxy.Refuse(on) }

func (p *process) pause() error {
	p.paused = true
	return p.server.Stop()
}

func (p *process) proceed() error {
	p.paused = false
	return p.server.Continue()
}

// keys asks the server directly, past the proxy.
func (p *process) keys() ([]string, error) {
	if p.paused {
		return nil, errors.New("it is paused, and cannot answer")
	}
	reply, err := p.server.Do("KEYS", "*")
	if err != nil {
		return nil, err
	}
	found, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("KEYS answered %T", reply)
	}
	keys := make([]string, 0, len(found))
	for _, key := range found {
		if text, ok := key.(string); ok {
			keys = append(keys, text)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
