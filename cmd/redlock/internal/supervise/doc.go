// Package supervise runs a command under a lock that renews itself, and makes
// sure that the command is dead before the lock's validity ends. It is the part
// of redlock run that deals with processes.
//
// # Processes
//
// There are four kinds. The wrapper is the process that calls this package: it
// holds the lock, renews it, and decides. It starts the guard, a second process
// of the same program (see [GuardMain]). The guard starts the command, and
// reports what becomes of it. Strays are processes that the command started and
// that have left its process group.
//
//	wrapper ── guard ── command ── its children
//	             └───── strays whose parents have ended
//
// The guard leads a process group, in which the command is: the group exists, and
// is guarded, before the command is in it. The wrapper reaps the guard, so the
// group's number is not reused while the wrapper needs it. The wrapper is not in
// the group. The guard is, and ends with it when the group gets KILL; it catches
// the other signals.
//
// # How a command is stopped
//
// The wrapper reads the clocks at least every 250 ms and compares the validity
// that is left with its limits (see limits): first it sends TERM, and CONT in
// case the command is stopped, to the group and the strays; later KILL. Each is
// early enough for the command to be dead when the validity ends. The same
// happens, with other deadlines, when the lock is definitely lost and when the
// command exceeds [Command.MaxHold]. When a command that was being stopped has
// ended, everything that it left is killed. A command that ends by itself keeps
// what it left in the background.
//
// If the wrapper dies or is stopped, the guard kills the group and the strays:
// at once when the wrapper is gone, and shortly before the end of the validity
// that it was last told of when the wrapper is silent. If the guard is stopped
// as well, it kills when it is continued. If the guard dies, the wrapper kills
// what is left of the run; on Linux, the kernel kills the command at once.
//
// # Signals
//
// The wrapper forwards INT, TERM, HUP, QUIT, USR1, USR2, WINCH and CONT to the
// group; the caller asks for the first three, and hands in the channel. On a
// terminal, the command's group is put in the foreground, and a command that
// Ctrl-Z stops takes the wrapper with it, as job control expects. After CONT,
// the clocks are read before the command is continued.
//
// # Strays
//
// A command that leads a group of its own, as under timeout(1) or setsid(1),
// takes what it starts there; that group is signaled too. On Linux, the guard
// adopts what loses its parent (PR_SET_CHILD_SUBREAPER), so all that the command
// starts stays below the guard, or below the wrapper when the guard has ended:
// /proc says which processes these are. Only those of other users may not be
// killed.
//
// # Orphans
//
// The guard takes in the ends of orphans, and so does the wrapper, as process 1
// of a container must.
//
// # Platforms
//
// Linux has all of the above. Other unix systems have the guard and the groups,
// but do not find strays, and nothing ends the command if the wrapper and the
// guard are both killed. Elsewhere there are no process groups and no signals:
// [StartGuard] returns an error, so nothing runs under a lock.
package supervise
