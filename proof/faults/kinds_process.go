package faults

import (
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// processKinds are what can befall a client.
func processKinds() []*Kind {
	kinds := []*Kind{
		{Name: "client-kill-9", About: "kill -9 of a client, then another takes its place",
			weight: 1, least: 5 * ms, most: 100 * ms, inject: killClient},
		{Name: "client-stop", About: "SIGSTOP of a client, within its validities",
			weight: 6, least: 5 * ms, most: 200 * ms, inject: stopClient},
		{Name: "client-stop-long", About: "SIGSTOP of a client past its validities",
			weight: 1, least: pastValidity, inject: stopClient},
	}
	for _, k := range kinds {
		k.Scope = OfProcess
	}
	return kinds
}

// pastValidity stands for a little more than MaxTTL, which only the run knows.
const pastValidity time.Duration = 1

func stopClient(t *target) (func() error, error) {
	p := t.processes.at(t.slot)
	if err := redistest.StopProcess(p.cmd.Process); err != nil {
		return nil, err
	}
	return func() error { return redistest.ContinueProcess(p.cmd.Process) }, nil
}

func killClient(t *target) (func() error, error) {
	p := t.processes.at(t.slot)
	t.processes.expectDeath(p)
	if err := p.cmd.Process.Kill(); err != nil {
		return nil, err
	}
	<-p.gone
	return func() error { return t.processes.replace(t.slot) }, nil
}
