package bench

import "fmt"

// Variants are the names of the baselines, in the order in which they are
// usually shown: return at the quorum, wait for all, and the best tuning found.
var Variants = []string{"rueidis", "rueidis-all", "rueidis-tuned"}

// Variant sets what the named baseline differs in.
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
