package compare

import (
	"context"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// openOurs opens this module's client with a configuration that lacks the
// masters only. They are the caller's own, so it opens the deployment too.
func openOurs(config redlock.Config) func(urls []string) (Pairer, error) {
	return func(urls []string) (Pairer, error) {
		config := config
		config.Nodes = redlock.Nodes(urls...)
		if _, err := admin.Init(context.Background(), config); err != nil {
			return nil, err
		}
		c, err := redlock.New(context.Background(), config)
		if err != nil {
			return nil, err
		}
		return pairer[redlock.Lock]{c}, nil
	}
}

// openRueidis opens a baseline of package bench.
func openRueidis(variant string) func(urls []string) (Pairer, error) {
	return func(urls []string) (Pairer, error) {
		config, err := bench.RueidisConfig{Nodes: urls}.Variant(variant)
		if err != nil {
			return nil, err
		}
		l, err := bench.OpenRueidis(config)
		if err != nil {
			return nil, err
		}
		return pairer[bench.RueidisLease]{l}, nil
	}
}
