package conn

import (
	"errors"
	"time"
)

// Failover tells whether other servers may take the place of a node's present
// one. The zero Failover is that of a lone master.
type Failover struct {
	// Expected is set for a node behind which the server may change.
	Expected bool
	// Bound is how long a former primary may go on accepting writes after
	// another was promoted. If zero, it is read from the server; where that
	// tells none, nothing bounds it. If negative, nothing bounds it.
	Bound time.Duration
}

// setFailover reads the parameter failover: auto, unknown, or a duration.
func setFailover(e *Endpoint, value string) error {
	e.Failover = Failover{Expected: true}
	switch value {
	case "auto":
		return nil
	case "unknown":
		e.Failover.Bound = -1
		return nil
	}
	bound, err := time.ParseDuration(value)
	if err != nil || bound <= 0 {
		return errors.New(`neither "auto" nor "unknown" nor a positive duration`)
	}
	e.Failover.Bound = bound
	return nil
}
