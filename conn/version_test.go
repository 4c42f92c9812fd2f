package conn

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The servers are told which release of this module a program has.
func TestVersionOfTheModule(t *testing.T) {
	const ours = "github.com/redmux/redmux"
	other := debug.Module{Path: "example.com/service", Version: "v9.0.0"}
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3": {Main: other, Deps: []*debug.Module{{Path: ours + "/cmd", Version: "v0.1.0"}, {Path: ours, Version: "v1.2.3"}}},
		"v1.2.4": {Main: other, Deps: []*debug.Module{{Path: ours, Version: "v1.2.3", Replace: &debug.Module{Path: "fork", Version: "v1.2.4"}}}},
		"v1.2.5": {Main: debug.Module{Path: ours, Version: "v1.2.5"}},
		"dev":    {Main: debug.Module{Path: ours, Version: "(devel)"}, Deps: []*debug.Module{{Path: "github.com/a/b", Version: "v1.0.0"}}},
	} {
		assert.Equal(t, want, versionIn(&info))
	}
	assert.Equal(t, "dev", versionIn(&debug.BuildInfo{Deps: []*debug.Module{{Path: ours, Version: "v1.2.3", Replace: &debug.Module{Path: "../redmux"}}}}))
}
