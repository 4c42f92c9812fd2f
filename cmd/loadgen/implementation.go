package main

import (
	"context"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// openSystem opens the named implementation on the given nodes. All get the same
// settings from the command line; what is not set there is each one's own default,
// since that is what its users get. Neither has a prefix of its own: resources
// are named with it, so that all lock the same keys.
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
			// On servers of our own nobody has ever locked anything; and those in
			// this process, which cannot say when they were started, never restart.
			cfg.NewDeployment = f.backend != "remote"
			if f.backend == "embedded" {
				for i := range cfg.Nodes {
					cfg.Nodes[i].Durable = true
				}
			}
		}
		c, err := redlock.New(context.Background(), cfg)
		if err != nil {
			return nil, usageError{err} // nodes that are down are no error, so this is about what was asked for
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
