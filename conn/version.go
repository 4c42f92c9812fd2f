package conn

import (
	"runtime/debug"
	"sync"
)

// libVersion is the version of this module in the running program, which CLIENT
// LIST shows from Redis 7.2 on.
var libVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devVersion
	}
	return versionIn(info)
})

// devVersion stands for a version that is no release and has no name.
const devVersion = "dev"

// versionIn returns the version of this module: that of a dependency, or of the
// program itself.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != "github.com/redmux/redmux" {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return devVersion
}
