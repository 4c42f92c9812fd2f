package supervise

import "os"

// The guard starts the command and is its parent. It kills the command when the
// wrapper cannot.
//
// The wrapper writes lines to the guard's standard input: the moments until
// which the command may live, and one with the command to start. The end of that
// input means that the wrapper is gone. The guard writes one byte to its standard
// output when it is ready, and then a line for each report. The end of that
// output means that the guard is gone. The command's standard input and output
// are open in the guard under the numbers that are its arguments.

// guardArgument, followed by two numbers of files, makes this program a guard. It
// is not a command, since it is not for users.
const guardArgument = "__guard"

// startOrder begins the line that is followed by an order to start a command, as
// so many bytes of JSON.
const startOrder = "start "

// mostOrder bounds an order to start a command: several times what Linux allows
// as arguments and environment.
const mostOrder = 32 << 20

// An order is a command to start. Its texts are bytes: JSON has no others.
type order struct {
	Path      []byte
	Args, Env [][]byte
}

// A report is a word with a number, which the guard writes as a line.
type report struct {
	word   string
	number int
}

// The words of reports.
const (
	wordStarted = "started" // the command's pid
	wordFailed  = "failed"  // the error number of the attempt to start it
	wordStopped = "stopped" // the signal that stopped it
	wordEnded   = "ended"   // its exit code, as a shell has it
)

// GuardMain is the main function of the guard. It returns at once if this
// process was not started as one, and otherwise never. A program that calls
// StartGuard calls GuardMain first in its main function.
func GuardMain() {
	if len(os.Args) != 4 || os.Args[1] != guardArgument {
		return
	}
	beGuard(os.Args[2], os.Args[3])
	os.Exit(codeFailed)
}

// codeFailed is the exit code of a guard that could not work.
const codeFailed = 1
