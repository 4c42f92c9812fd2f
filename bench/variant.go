package bench

import "fmt"

// Variants are the names of the baselines, in the order in which they are
// usually shown: return at the quorum, wait for all nodes, and the best tuning
// found.
var Variants = []string{"rueidis", "rueidis-all", "rueidis-tuned"}

// Variant applies the options of the named baseline.
func (cfg RueidisConfig) Variant(name string) (RueidisConfig, error) {
	switch name {
	case "rueidis":
	case "rueidis-all":
		cfg.WaitAll = true
	case "rueidis-tuned":
		cfg.Tune = RueidisTuned
	default:
		return cfg, fmt.Errorf("bench: no baseline is called %q", name)
	}
	return cfg, nil
}
