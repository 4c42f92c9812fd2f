package redlock

import (
	"encoding/json"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
)

// The JSON forms of what a client reports. Their names contain the unit, and
// are those that the tools use (docs/cli.md). Programs read them: fields are
// added, never renamed. An error becomes its text, since errors have no fields.
// What is not UTF-8 is shown as \xNN, so that no two resources look the same.

// MarshalJSON returns the status with the names of docs/cli.md.
func (s NodeStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Addr           string               `json:"addr"`
		State          string               `json:"state"`
		Product        string               `json:"product,omitempty"`
		Version        string               `json:"version,omitempty"`
		Debts          int                  `json:"debts"`
		Connects       int                  `json:"connects"`
		ReplyTime      float64              `json:"reply_time_us"`
		Polled         bool                 `json:"polled"`
		Counts         multiplex.NodeCounts `json:"counts"`
		Err            string               `json:"error,omitempty"`
		Quarantined    bool                 `json:"quarantined"`
		QuarantineLeft float64              `json:"quarantine_left_s,omitempty"`
		QuarantineWhy  string               `json:"quarantine_why,omitempty"`
		Sealed         bool                 `json:"sealed"`
		Deployment     string               `json:"deployment,omitempty"`
		Of             int                  `json:"deployment_nodes,omitempty"`
		Opening        string               `json:"opening,omitempty"`
		Started        *time.Time           `json:"started,omitempty"`
		Warnings       []string             `json:"warnings,omitempty"`
	}{
		s.Addr, s.State, s.Product, s.Version, s.Debts, s.Connects, micros(s.ReplyTime), s.Polled, s.Counts,
		textOf(s.Err), s.Quarantined, s.QuarantineLeft.Seconds(), s.QuarantineWhy, s.Sealed,
		s.Deployment, s.DeploymentNodes, s.Opening, timeOf(s.Started), s.Warnings,
	})
}

// timeOf returns nil for a time that is not known.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// MarshalJSON returns the change with the names of docs/cli.md.
func (c NodeChange) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Node     int       `json:"node"`
		Addr     string    `json:"addr"`
		State    string    `json:"state"`
		Cause    string    `json:"cause,omitempty"`
		Err      string    `json:"error,omitempty"`
		At       time.Time `json:"at"`
		Warnings []string  `json:"warnings,omitempty"`
		Dropped  uint64    `json:"dropped,omitempty"`
	}{c.Node, c.Addr, c.State, c.Cause, textOf(c.Err), c.At, c.Warnings, c.Dropped})
}

// MarshalJSON returns the numbers with the names of docs/cli.md.
func (s Stats) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Attempts    CallCounts `json:"attempts"`
		Extensions  CallCounts `json:"extensions"`
		Releases    CallCounts `json:"releases"`
		HandedOver  uint64     `json:"handed_over"`
		Renumbered  uint64     `json:"renumbered"`
		Holds       int        `json:"holds"`
		Lost        uint64     `json:"lost"`
		Waits       Histogram  `json:"waits"`
		QuorumTime  float64    `json:"quorum_time_us"`
		Quorum      Histogram  `json:"quorum"`
		ReleaseForm string     `json:"release_form"`
		Polling     bool       `json:"polling"`
	}{
		s.Attempts, s.Extensions, s.Releases, s.HandedOver, s.Renumbered,
		s.Holds, s.Lost, s.Waits, micros(s.QuorumTime), s.Quorum, s.ReleaseForm, s.Polling,
	})
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// textOf returns the text of an error without the name of the package that made
// it.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return errtext.Name(errtext.Text(err))
}
