//go:build !linux

package redistest

import "os/exec"

// Only Linux can be asked to end a child with its parent.
func dieWithParent(*exec.Cmd) {}
