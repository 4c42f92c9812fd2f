package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// work is what the callers of a run had to do, from the command line. Runs with
// different work cannot be compared. An absent field had its default.
type work struct {
	Keys        int      `json:"keys,omitempty"`      // 0: each caller has its own resource
	Dist        string   `json:"dist,omitempty"`      // among the keys
	Kind        string   `json:"kind,omitempty"`      // of the locks
	Network     string   `json:"network,omitempty"`   // to servers that were started, if not unix sockets
	Instances   int      `json:"instances,omitempty"` // clients that divided the callers, if several
	TTL         string   `json:"ttl"`
	Hold        string   `json:"hold"`
	Wait        string   `json:"wait,omitempty"`
	NodeTimeout string   `json:"node_timeout,omitempty"`
	MaxTTL      string   `json:"max_ttl,omitempty"`
	CancelAfter string   `json:"cancel_after,omitempty"`
	Faults      []string `json:"faults,omitempty"` // that were asked for
}

func (f *flags) work() *work {
	w := &work{
		TTL: f.TTL.String(), Hold: f.Hold.String(), Wait: given(f.Wait),
		NodeTimeout: given(f.NodeTimeout), MaxTTL: given(f.MaxTTL), CancelAfter: given(f.CancelAfter),
	}
	if f.Keys > 0 {
		w.Keys, w.Dist = f.Keys, f.Dist.String()
	}
	if f.Network != "unix" {
		w.Network = f.Network
	}
	if f.Instances > 1 {
		w.Instances = f.Instances
	}
	if f.Kind != (kind{}) {
		w.Kind = f.Kind.String()
	}
	for _, a := range f.Fault {
		w.Faults = append(w.Faults, a.String())
	}
	return w
}

// given returns "" for a time of 0.
func given(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// instances returns "" for one.
func instances(n int) string {
	if n <= 1 {
		return ""
	}
	return strconv.Itoa(n)
}

// String is for users who want to know why two runs differ.
func (w *work) String() string {
	s := fmt.Sprintf("TTL %s, hold %s", w.TTL, w.Hold)
	if w.Keys > 0 {
		s += fmt.Sprintf(", %s %s", count(w.Keys, "key"), w.Dist)
	}
	for _, part := range []struct{ name, value string }{
		{"kind", w.Kind}, {"over", w.Network}, {"clients", instances(w.Instances)}, {"wait", w.Wait}, {"node timeout", w.NodeTimeout}, {"max TTL", w.MaxTTL}, {"cancelled after", w.CancelAfter},
		{"faults", strings.Join(w.Faults, " ")},
	} {
		if part.value != "" {
			s += ", " + part.name + " " + part.value
		}
	}
	return s
}
