package main

import (
	"context"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// openSystem opens the named implementation on the given nodes. All get the
// same settings from the command line; other settings are each implementation's
// defaults, since users get these. None has a prefix of its own: the prefix is
// part of the resources, so that all lock the same keys.
func openSystem(f *flags, name string, urls []string) (system, error) {
	if name == "redlock" || name == "redlock-portable" {
		cfg := redlock.Config{
			Portable:    name == "redlock-portable",
			Nodes:       redlock.Nodes(urls...),
			Username:    f.User,
			Password:    f.password,
			NodeTimeout: f.NodeTimeout,
			MaxTTL:      f.MaxTTL,
		}
		if f.MaxTTL > 0 {
			// Servers of our own have never had locks. And in-process servers,
			// which cannot tell when they were started, never restart.
			cfg.NewDeployment = f.backend != "remote"
			if f.backend == "embedded" {
				for i := range cfg.Nodes {
					cfg.Nodes[i].Durable = true
				}
			}
		}
		c, err := redlock.New(context.Background(), cfg)
		if err != nil {
			return nil, usageError{err} // unreachable nodes are no error, so the flags are wrong
		}
		return driver[redlock.Lock]{c}, nil
	}
	cfg, err := f.rueidisConfig(urls).Variant(name)
	if err != nil {
		return nil, err
	}
	l, err := bench.OpenRueidis(cfg)
	if err != nil {
		return nil, err
	}
	return driver[bench.RueidisLease]{l}, nil
}

func (f *flags) rueidisConfig(urls []string) bench.RueidisConfig {
	return bench.RueidisConfig{
		Nodes:       urls,
		Username:    f.User,
		Password:    f.password,
		NodeTimeout: f.NodeTimeout,
	}
}
