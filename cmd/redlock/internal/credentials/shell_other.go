//go:build !unix

package credentials

import (
	"os"
	"os/exec"
)

const shell, shellFlag = "cmd", "/C"

func alone(*exec.Cmd) {}

// forOthers returns nothing: such rights are not known here.
func forOthers(os.FileMode) os.FileMode { return 0 }
