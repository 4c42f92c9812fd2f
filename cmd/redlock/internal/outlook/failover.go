package outlook

import (
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/internal/pure"
)

// Bound returns what a server's settings say of how long it goes on accepting
// writes as a former primary, or 0.
func Bound(f *probe.Facts) time.Duration {
	needed, _ := f.Config.Number("min-replicas-to-write")
	lag, _ := f.Config.Number("min-replicas-max-lag")
	present, known := f.Info.Number("connected_slaves")
	if !known || f.Server.History == "" {
		return 0
	}
	return pure.BoundByReplicas(int(present), int(needed), time.Duration(lag)*time.Second)
}

// Alone returns how long after a promotion clients expect grants of the former
// primary, and 0 for a lone master. It is what the URL says, or what the server
// tells; a seal without a bound outranks the latter.
func Alone(f *probe.Facts) time.Duration {
	if !f.Failover.Expected {
		return 0
	}
	bound := max(0, f.Failover.Bound)
	if sealed := f.Seal; f.Failover.Bound == 0 && (sealed.State != probe.SealThere || !sealed.Failover.Expected || sealed.Failover.Bound > 0) {
		bound = Bound(f)
	}
	return pure.Failover{Expected: true, Bound: bound}.Alone(pure.DefaultDriftFactor)
}

// needs returns how long a server must have been watched, and how long by each
// client itself: see pure.Trust.
func (o *Outlook) needs(f *probe.Facts) (need, own time.Duration) {
	if o.need == 0 || !f.Failover.Expected {
		return o.need, 0
	}
	alone := Alone(f)
	if need = o.need + alone; alone == 0 || f.Server.Mode == "cluster" {
		return need, need
	}
	return need, alone
}
