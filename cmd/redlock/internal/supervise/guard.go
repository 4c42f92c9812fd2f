package supervise

import "os"

// The guard kills the command when the wrapper cannot. It ignores every signal
// that can be ignored, since the group that it leads gets many.
//
// The wrapper writes lines to the guard's standard input: the moments until
// which the command may live, and one with the command's pid. The end of that
// input means that the wrapper is gone. The guard writes one byte to its
// standard output when it is ready; the end of that output means that the guard
// is gone. The id of the run, which is its argument, finds the strays (mark.go).

// guardArgument, followed by the id of a run, makes this program a guard. It is
// not a command, since it is not for users.
const guardArgument = "__guard"

// guardedCommand begins the line with the command's pid.
const guardedCommand = "command "

// GuardMain is the main function of the guard. It returns at once if this
// process was not started as one, and otherwise never. A program that calls
// StartGuard calls GuardMain first in its main function.
func GuardMain() {
	if len(os.Args) != 3 || os.Args[1] != guardArgument {
		return
	}
	beGuard(os.Args[2])
	os.Exit(codeFailed)
}

// codeFailed is the exit code of a guard that could not work, and of a command
// whose own is unknown.
const codeFailed = 1
