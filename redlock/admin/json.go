package admin

import (
	"encoding/json"
	"time"

	"github.com/redmux/redmux/internal/errtext"
)

// The JSON forms of what is inspected: see those of package redlock.

// MarshalJSON returns the inspection with the names of docs/cli.md.
func (i Inspection) MarshalJSON() ([]byte, error) {
	type plain Inspection
	var free *int // where there is a semaphore
	if i.Permits > 0 {
		free = &i.FreePermits
	}
	return json.Marshal(struct {
		Resource    string  `json:"resource"`
		TTL         float64 `json:"ttl_ms,omitempty"`
		FreePermits *int    `json:"free_permits,omitempty"`
		plain
	}{errtext.Name(i.Resource), ttlMillis(i.TTL), free, plain(i)})
}

// MarshalJSON returns the participant with the names of docs/cli.md.
func (p Participant) MarshalJSON() ([]byte, error) {
	type plain Participant
	return json.Marshal(struct {
		TTL float64 `json:"ttl_ms"`
		plain
	}{ttlMillis(p.TTL), plain(p)})
}

// MarshalJSON returns the node's answer with the names of docs/cli.md.
func (n InspectedNode) MarshalJSON() ([]byte, error) {
	type plain InspectedNode
	return json.Marshal(struct {
		TTL float64 `json:"ttl_ms,omitempty"`
		Err string  `json:"error,omitempty"`
		plain
	}{ttlMillis(n.TTL), errtext.JSON(n.Err), plain(n)})
}

// MarshalJSON returns the lock with the names of docs/cli.md.
func (l ListedLock) MarshalJSON() ([]byte, error) {
	type plain Participant // without its method
	var number *int        // of a permit, or the place of a waiter
	if l.Kind == KindPermit || l.Kind == KindWaiter {
		number = &l.Number
	}
	return json.Marshal(struct {
		Resource string      `json:"resource"`
		Kind     ListedKind  `json:"kind"`
		State    ListedState `json:"state"`
		Number   *int        `json:"number,omitempty"`
		TTL      float64     `json:"ttl_ms"`
		plain
		Fence     uint64 `json:"fence,omitempty"`
		Resources int    `json:"resources,omitempty"`
	}{errtext.Name(l.Resource), l.Kind, l.State, number, ttlMillis(l.TTL), plain(l.Participant), l.Fence, l.Resources})
}

// MarshalJSON returns the node's part with the names of docs/cli.md.
func (n ListedNode) MarshalJSON() ([]byte, error) {
	type alias ListedNode
	return json.Marshal(struct {
		alias
		Err string `json:"error,omitempty"`
	}{alias(n), errtext.JSON(n.Err)})
}

// ttlMillis returns -1 for a key that never expires, as PTTL does.
func ttlMillis(d time.Duration) float64 {
	if d == NoExpiry {
		return -1
	}
	return float64(d) / float64(time.Millisecond)
}
