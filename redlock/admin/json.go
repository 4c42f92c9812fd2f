package admin

import (
	"encoding/json"
	"time"

	"github.com/redmux/redmux/internal/errtext"
)

// The JSON forms of what is inspected: see those of package redlock.

// MarshalJSON returns the inspection with the names of docs/cli.md.
func (i Inspection) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Resource    string          `json:"resource"`
		State       LockState       `json:"state"`
		Holder      string          `json:"holder,omitempty"`
		Owner       string          `json:"owner,omitempty"`
		Fence       uint64          `json:"fence,omitempty"`
		TTL         float64         `json:"ttl_ms,omitempty"`
		Agree       int             `json:"agree"`
		Readers     []Participant   `json:"readers,omitempty"`
		WriterWaits bool            `json:"writer_waits,omitempty"`
		Permits     int             `json:"permits,omitempty"`
		FreePermits *int            `json:"free_permits,omitempty"`
		PermitsHeld []Participant   `json:"permits_held,omitempty"`
		Queue       []Participant   `json:"queue,omitempty"`
		Cut         bool            `json:"cut,omitempty"`
		Nodes       []InspectedNode `json:"nodes"`
	}{
		errtext.Name(i.Resource), i.State, i.Holder, i.Owner, i.Fence, ttlMillis(i.TTL), i.Agree, i.Readers, i.WriterWaits,
		i.Permits, i.freeOf(), i.PermitsHeld, i.Queue, i.Cut, i.Nodes,
	})
}

// freeOf returns nil where there is no semaphore.
func (i *Inspection) freeOf() *int {
	if i.Permits == 0 {
		return nil
	}
	return &i.FreePermits
}

// MarshalJSON returns the participant with the names of docs/cli.md.
func (p Participant) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Number int     `json:"number"`
		Holder string  `json:"holder"`
		Owner  string  `json:"owner,omitempty"`
		TTL    float64 `json:"ttl_ms"`
		Nodes  []int   `json:"nodes"`
	}{p.Number, p.Holder, p.Owner, ttlMillis(p.TTL), p.Nodes})
}

// MarshalJSON returns the node's answer with the names of docs/cli.md.
func (n InspectedNode) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Addr    string  `json:"addr"`
		Holder  string  `json:"holder,omitempty"`
		Owner   string  `json:"owner,omitempty"`
		Fence   uint64  `json:"fence,omitempty"`
		Foreign bool    `json:"foreign,omitempty"`
		TTL     float64 `json:"ttl_ms,omitempty"`
		Permits int     `json:"permits,omitempty"`
		Err     string  `json:"error,omitempty"`
	}{n.Addr, n.Holder, n.Owner, n.Fence, n.Foreign, ttlMillis(n.TTL), n.Permits, textOf(n.Err)})
}

// ttlMillis returns -1 for a key that never expires, as PTTL does.
func ttlMillis(d time.Duration) float64 {
	if d == NoExpiry {
		return -1
	}
	return float64(d) / float64(time.Millisecond)
}

// textOf returns the text of an error without the name of the package that made
// it.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return errtext.Name(errtext.Text(err))
}
