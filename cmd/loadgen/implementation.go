package main

import (
	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// openSystem opens the named implementation on the given nodes.
func openSystem(f *flags, name string, urls []string) (system, error) {
	if name == "redlock" {
		c, err := redlock.New(redlock.Config{
			Nodes:       urls,
			Username:    f.User,
			Password:    f.password,
			NodeTimeout: f.NodeTimeout,
		})
		if err != nil {
			return nil, err
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
