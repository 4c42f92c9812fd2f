package main

// The guard is a second process of this program, which kills the command's process group when nobody else does: when the first
// one dies, however that is, or when it is stopped until the lock's validity is nearly over. It leads the group, so that the
// group is there, and guarded, before the command is in it. It ignores what it can of the signals that the group gets.
//
// Over its standard input come lines with the times until which the group may live, and one with the command's pid: a command
// that makes itself the leader of another group, as timeout(1) does, takes what it starts there, and that group is killed, too.
// The end of the input is the end of who wrote them. A byte on its standard output says that it is ready, and the end of that
// that it is no more. What else has left the group it finds by the run's id (mark.go), which is its argument.
//
// Where the whole group is stopped with SIGSTOP, the guard is, too; it does its duty when the group goes on.

// guardArgument, and a run's id behind it, make this program a guard. It is no command, since nobody calls it.
const guardArgument = "__guard"

// guardOf tells of which run a process with such arguments is the guard, if it is one.
func guardOf(args []string) (id string, ok bool) {
	if len(args) != 3 || args[1] != guardArgument {
		return "", false
	}
	return args[2], true
}

// guardedCommand begins the line with the command's pid.
const guardedCommand = "command "
