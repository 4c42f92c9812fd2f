package supervise

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Strays are processes that a run must stop and that have left its process
// group. They are found in /proc by the mark in their environment. Only
// processes whose environment we may read are found: those of the same user
// that may be traced, and only where /proc is mounted. A process that has
// cleared or overwritten its environment is not found.
//
// While we look, processes fork, execute programs and end. So a hunt goes in
// rounds until nothing is left, and each round reads the list of processes bit
// by bit, upwards, as the numbers of new processes go. A chain of processes, each
// of which starts the next and ends, is thus met again and again. If it slips
// past a round, then by a process that was created meanwhile, so these are
// looked at next. They are also looked at first: a chain may leave thousands of
// zombies, and a round may take as long as a hunt where each gets little of a
// busy processor.
//
// A round among 500 processes takes some 7 ms on a busy machine with two cores,
// and two rounds that find nothing take 15 ms, once 43
// (BenchmarkRoundAmongStrangers). Of a TTL of 1 s, limits.go reserves 50 ms for
// that, half of them for the guard; of 10 s, ten times as much. So with TTLs of
// a second or less and many processes, strays may die a little late. The group
// never does.

const (
	mostEnviron = 1 << 20                // bytes of an environment that are read; the mark is a command's first setting
	mostRounds  = 500                    // of a hunt: a hundred times what is needed
	mostChases  = 100                    // before a round, and after it
	recent      = 256                    // numbers of processes at which a chain is looked for first
	huntTakes   = time.Second            // bounds a hunt; buryAll starts others while the validity lasts
	askTakes    = 100 * time.Millisecond // bounds the wait for a single round, which goes on without us
	roundPause  = time.Millisecond       // for a killed process to go, and a program to be executed
	quietRounds = 2                      // end a hunt if processes are created all the time: one may slip past a single round
)

// askStrays sends signals to the marked processes, to each once. Those in the
// groups have them already. It returns within the given time, since its caller
// must kill by then.
func askStrays(id string, groups []int, within time.Duration, signals ...syscall.Signal) {
	withPatience(min(askTakes, within), func(h *hunt) {
		h.ask(func(pid int) sight {
			if group, err := unix.Getpgid(pid); err != nil || slices.Contains(groups, group) {
				return innocent
			}
			return h.marked(pid, id)
		}, signals...)
	})
}

// ask finds all wanted processes before it sends the first signal: a process
// that is asked to end may start another to tidy up, which must not be asked
// to end itself.
func (h *hunt) ask(judge func(pid int) sight, signals ...syscall.Signal) {
	var asked []int
	h.eachProcess(func(pid int) (more bool) {
		if judge(pid) == wanted {
			asked = append(asked, pid)
		}
		return !h.late()
	})
	for _, pid := range asked {
		h.signal(pid, func() bool { return judge(pid) == wanted }, signals)
	}
}

// killStrays kills the marked processes until none is left or it has taken too
// long. It reports whether none is left.
func killStrays(id string) (gone bool) {
	none := false
	return withPatience(huntTakes, func(h *hunt) { none = h.kill(id) }) && none
}

// killGroupButUs kills the other processes of our own group one by one. It reads
// no environment, so nothing can delay it. Processes that fork meanwhile escape,
// but not from the signal to the group that follows.
func killGroupButUs() {
	us, group := os.Getpid(), unix.Getpgrp()
	h := newHunt()
	h.round(func(pid int) sight {
		if of, err := unix.Getpgid(pid); err != nil || of != group || pid == us {
			return innocent
		}
		return wanted
	}, syscall.SIGKILL)
}

// withPatience waits for a hunt, but not for ever: to read the environment of a
// process is to wait for a lock of its memory, which it may hold for as long as
// a disk does not answer. It reports whether the hunt has ended.
func withPatience(patience time.Duration, do func(*hunt)) (ended bool) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		do(newHunt())
	}()
	select {
	case <-over:
		return true
	case <-time.After(patience):
		return false
	}
}

// A sight is what a look at a process shows.
type sight int

const (
	innocent  sight = iota
	unsettled       // look again
	wanted
)

// A hunt looks at all processes, once or in rounds.
type hunt struct {
	deadline time.Time
	environ  []byte // a buffer, used for each process

	// Tests change these.
	proc   string
	open   func(pid, flags int) (int, error)
	newest func() int // newestProcess
}

func newHunt() *hunt {
	return &hunt{deadline: time.Now().Add(huntTakes), proc: "/proc", open: unix.PidfdOpen, newest: newestProcess}
}

func (h *hunt) late() bool { return time.Now().After(h.deadline) }

// kill reports whether no process was left.
func (h *hunt) kill(id string) (gone bool) {
	judge := func(pid int) sight { return h.marked(pid, id) }
	quiet := 0
	for range mostRounds {
		h.chase(max(1, h.newest()-recent), judge, syscall.SIGKILL)
		before := h.newest()
		found := !h.round(judge, syscall.SIGKILL)
		switch none, certain := h.chase(before, judge, syscall.SIGKILL); {
		case found || !none:
			quiet = 0
		case certain:
			return true
		default:
			quiet++
		}
		if quiet == quietRounds || h.late() {
			break
		}
		time.Sleep(roundPause)
	}
	return quiet >= quietRounds
}

// chase sends signals to the wanted processes that are newer than the one with
// the given number, and to those created meanwhile, until there are none. none
// reports that no process was wanted, and certain that all were looked at: unless
// the numbers have started again, are not known, or processes are created all the
// time.
func (h *hunt) chase(before int, judge func(pid int) sight, signals ...syscall.Signal) (none, certain bool) {
	none = true
	var pids []int
	for range mostChases {
		last := h.newest()
		if before <= 0 || last < before || h.late() {
			return none, false
		}
		if last == before && len(pids) == 0 {
			return none, true
		}
		if last == before {
			time.Sleep(roundPause) // for those that execute a program
		}
		for pid := before + 1; pid <= last; pid++ {
			pids = append(pids, pid)
		}
		before = last
		pids = slices.DeleteFunc(pids, func(pid int) bool {
			if unix.Access(h.proc+"/"+strconv.Itoa(pid), unix.F_OK) != nil {
				return true
			}
			seen := judge(pid)
			if seen == wanted {
				none = false
				h.signal(pid, func() bool { return judge(pid) == wanted }, signals)
			}
			return seen != unsettled
		})
	}
	return none, false
}

// round sends signals to all wanted processes, and reports whether there was
// certainly none.
func (h *hunt) round(judge func(pid int) sight, signals ...syscall.Signal) (quiet bool) {
	quiet = true
	h.eachProcess(func(pid int) (more bool) {
		switch judge(pid) {
		case wanted:
			quiet = false
			h.signal(pid, func() bool { return judge(pid) == wanted }, signals)
		case unsettled:
			quiet = false
		}
		return !h.late()
	})
	return quiet
}

// marked judges by the environment. An environment is also empty while a
// program is being executed, from when the old memory is gone until the new one
// is filled. Kernel threads and zombies have no program.
func (h *hunt) marked(pid int, id string) sight {
	dir := h.proc + "/" + strconv.Itoa(pid)
	for range 2 {
		environ, err := readSome(dir+"/environ", h.environ[:0])
		h.environ = environ
		switch {
		case err != nil && unix.Access(dir, unix.F_OK) != nil:
			return unsettled // it has just ended, and may have left a child with a number that we have passed
		case err != nil:
			return innocent // it is another user's, or has no memory (newer kernels)
		case carries(environ, id):
			return wanted
		case len(environ) > 0:
			return innocent
		}
		var link [1]byte
		if _, err := unix.Readlink(dir+"/exe", link[:]); err != nil {
			return innocent
		}
		if !h.executed(dir) {
			return unsettled
		}
		// The environment is there now if it has one.
	}
	return innocent
}

// executed reports whether a process has all that its program begins with. The
// kernel fills in first the arguments, then the environment, which took up to 20
// ms after the arguments if it was large and the machine busy, and then where
// the code is. Kernels in user space may never tell where that is, not even for
// ourselves; then the arguments must do.
func (h *hunt) executed(dir string) bool {
	if h.knowsCode(dir) {
		return true
	}
	if h.knowsCode(h.proc + "/self") {
		return false
	}
	arguments, _ := readSome(dir+"/cmdline", h.environ[:0])
	return len(arguments) > 0
}

// knowsCode reports whether /proc says where the code of a process ends: field
// 27 of its stat, proc_pid_stat(5). Field 2 is the program's name, which may
// contain spaces and brackets.
func (h *hunt) knowsCode(dir string) bool {
	stat, _ := readSome(dir+"/stat", h.environ[:0])
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const codeEnd = 27 - 3 // the first one after the name is field 3, the state
	return len(fields) > codeEnd && string(fields[codeEnd]) != "0"
}

// signal sends signals to a process, and never to another one that has got its
// number since: a pidfd always means the same process, and still is asked once
// we have it.
func (h *hunt) signal(pid int, still func() bool, signals []syscall.Signal) {
	fd, err := h.open(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if !still() {
		return
	}
	for _, number := range signals {
		if err == nil {
			sent := unix.PidfdSendSignal(fd, number, nil, 0)
			if sent != unix.ENOSYS && sent != unix.EPERM {
				continue
			}
		}
		// Before Linux 5.3, and in sandboxes without these calls, the number may
		// pass to another process at this moment.
		_ = unix.Kill(pid, number)
	}
}

// eachProcess visits the processes in the order of their numbers, each as soon
// as it is listed. Package os would list hundreds before it returns the first.
func (h *hunt) eachProcess(visit func(pid int) (more bool)) {
	proc, err := unix.Open(h.proc, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(proc)
	buffer := make([]byte, anyEntry)
	var names []string
	for {
		n, err := unix.ReadDirent(proc, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names[:0])
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			buffer = buffer[:oneProcess] // only processes follow
			if !visit(pid) {
				return
			}
		}
	}
}

// newestProcess returns the number of the newest process or thread, or 0 if
// /proc does not say: the last field of loadavg, proc_loadavg(5).
func newestProcess() int {
	text, _ := readSome("/proc/loadavg", nil)
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, ' ')+1:])))
	return pid
}

const (
	anyEntry   = 288 // bytes for a directory entry with any name
	oneProcess = 32  // bytes for one whose name is a number
)

// readSome reads at most mostEnviron bytes of a file of /proc into a buffer.
func readSome(path string, into []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return into, err
	}
	defer unix.Close(fd)
	for len(into) < mostEnviron {
		if len(into) == cap(into) {
			into = append(into, make([]byte, max(4096, len(into)))...)[:len(into)]
		}
		n, err := unix.Read(fd, into[len(into):min(cap(into), mostEnviron)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return into, err
		case n <= 0:
			return into, nil
		default:
			into = into[:len(into)+n]
		}
	}
	return into, nil
}
