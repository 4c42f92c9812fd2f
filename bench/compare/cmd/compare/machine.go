package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
)

// describeMachine returns what is known of this machine. Some fields are empty
// on systems other than Linux.
func describeMachine() report.Machine {
	m := report.Machine{
		System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU:    field("/proc/cpuinfo", "model name"),
		Go:     runtime.Version(),
		CPUs:   runtime.NumCPU(),
		Procs:  runtime.GOMAXPROCS(0),
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "kernel " + strings.TrimSpace(string(kernel))
	}
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err == nil {
		m.Memory = fmt.Sprintf("%.1f GiB of memory", float64(kilobytes)/(1<<20))
	}
	return m
}

// commit names the commit of the tree, with a "+" if files differ from it. It
// is empty if git does not know.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(head))
	if changes, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		name += "+"
	}
	return name
}

// field is the first value of that name in a file of lines "name: value".
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, found := strings.Cut(lines.Text(), ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ownModule stands in the tree around this one, which is all the version that
// it has here.
const ownModule = "github.com/redmux/redmux"

// versions are those of the servers, of Go and of every module that makes a
// peer what it is, as they are in this program.
func versions(servers string) []report.Version {
	all := []report.Version{{Name: "servers", Version: servers}, {Name: "Go", Version: runtime.Version()}}
	// The build has the versions that were linked, which may differ from those
	// in go.mod.
	built, _ := debug.ReadBuildInfo()
	seen := map[string]bool{}
	for _, p := range compare.Peers {
		for _, path := range p.Modules {
			if !seen[path] {
				all = append(all, report.Version{Name: path, Version: moduleVersion(built, path)})
			}
			seen[path] = true
		}
	}
	return all
}

func moduleVersion(built *debug.BuildInfo, path string) string {
	if built == nil {
		return "not known here"
	}
	i := slices.IndexFunc(built.Deps, func(m *debug.Module) bool { return m.Path == path })
	switch {
	case i < 0:
		return "not known here"
	case built.Deps[i].Replace == nil:
		return built.Deps[i].Version
	case path == ownModule:
		return "of the tree that this file lies in"
	}
	return fmt.Sprintf("%s (go.mod puts it in place of %s)", built.Deps[i].Replace.Version, built.Deps[i].Version)
}
