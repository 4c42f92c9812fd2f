//go:build !unix

package credentials

import "os/exec"

const shell, shellFlag = "cmd", "/C"

func alone(*exec.Cmd) {}
