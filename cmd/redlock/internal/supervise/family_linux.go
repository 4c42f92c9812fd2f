package supervise

import (
	"bytes"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process whose parent ends becomes a child of the next process above that
// adopts orphans (prctl(2), PR_SET_CHILD_SUBREAPER). The guard does, so whatever
// the command starts stays a descendant of the guard, however it leaves. The
// wrapper does too, for when the guard has ended. /proc tells the parents.
//
// A look at all processes is not of one moment: meanwhile they fork and end, and
// one whose parent has just ended seems to be no descendant. So looks follow each
// other until no child is left. The guard learns that from wait(2), and cannot be
// wrong.
//
// A look among 500 processes takes some 7 ms on a busy machine with two cores. Of
// a TTL of 1 s, limits.go reserves 50 ms for what is done then. So with TTLs of a
// second or less and many processes, strays may die a little late. The group
// never does, if the wrapper lives.

const (
	huntTakes = time.Second      // bounds a hunt; the wrapper starts others
	huntPause = time.Millisecond // for a killed process to go
	quiet     = 2                // looks that find nothing end a hunt
)

// dieWithUs has the kernel kill the command when the guard dies.
func dieWithUs(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGKILL }

// ignores reports whether this process ignores a signal. Package os/signal does
// not know of those that stop a process and were ignored before it began.
func ignores(number syscall.Signal) bool {
	status, _ := os.ReadFile("/proc/self/status")
	_, mask, _ := bytes.Cut(status, []byte("\nSigIgn:"))
	mask, _, _ = bytes.Cut(mask, []byte("\n"))
	ignored, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
	return err == nil && ignored>>(number-1)&1 == 1
}

// adoptOrphans reports whether orphans become children of this process.
func adoptOrphans() bool {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil || os.Getpid() == 1
}

// adopts is whether this process, a wrapper, adopts orphans.
var adopts bool

// AdoptOrphans has orphans become children of this process, and takes in their
// ends from now on: otherwise they would stay as zombies until no process can be
// started. The main function calls it, before all else but GuardMain.
//
// As process 1 of a container, a wrapper has orphans anyway, of all that is
// started in the container.
func AdoptOrphans() {
	if adopts = adoptOrphans(); !adopts {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() { // until the process ends
		for range ended {
			own.reapAll()
			time.Sleep(reapPause)
		}
	}()
}

const reapPause = 20 * time.Millisecond // between looks at all processes, however many end

// own are the children that this process has started, and waits for elsewhere.
// wait(2) for any child would take their ends too. So orphans are asked for by
// their numbers.
var own offspring

type offspring struct {
	mu   sync.Mutex // guards the following
	pids []int
}

// start calls a function that starts a child. There is no moment in which the
// child may end and is not known.
func (o *offspring) start(do func() (pid int, err error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	pid, err := do()
	if err == nil {
		o.pids = append(o.pids, pid)
	}
	return err
}

// forget is called when the end of a child was taken in.
func (o *offspring) forget(pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pids = slices.DeleteFunc(o.pids, func(p int) bool { return p == pid })
}

// reapAll takes in the ends of all children that have ended, except these. Only
// where the kernel does not list them does it look at all processes.
func (o *offspring) reapAll() {
	pids := kernelChildren()
	if len(pids) == 0 {
		pids = children()
	}
	for _, pid := range pids {
		o.reap(pid)
	}
}

// reap takes in the end of a child if it has ended and is not one of these.
func (o *offspring) reap(pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.pids, pid) {
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
}

// wait waits for a change of any child's state: all are the command's. The end of
// the command is first seen and then taken in, with the mutex held.
func (w *ward) wait(int) (pid int, status syscall.WaitStatus, err error) {
	err = unix.EINTR
	for err == unix.EINTR {
		if err = unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); err == nil {
			pid, status, err = w.reap()
		}
	}
	return pid, status, err
}

func (w *ward) reap() (pid int, status syscall.WaitStatus, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pid, err = syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
	if pid == w.pid && !status.Stopped() {
		w.pid = 0 // another process may get its number
	}
	return pid, status, err
}

// killAdopted kills all descendants until none is left, or it has taken too
// long. Without /proc none is found, and the group that is killed next is all
// that is known.
func (w *ward) killAdopted() {
	if _, ok := look(os.Getpid()); !ok {
		return
	}
	caught := true
	for late := time.Now().Add(mostHunts * huntTakes); time.Now().Before(late); {
		w.mu.Lock()
		if caught { // see killOrphans
			signalAll(descendants(os.Getpid(), nil), syscall.SIGKILL)
		}
		caught = chase(nil, []int{w.pid})
		w.mu.Unlock()
		select {
		case <-w.alone:
			return
		case <-time.After(huntPause):
		}
	}
}

// chase kills the children of this process until none is left, without a look at
// all processes. Of a chain of processes, each of which starts the next and ends,
// the one that lives becomes our child. A killed one that has not got a processor
// yet hides its own child until then, so the chase goes on until all are dead. It
// takes in the ends of all but some, since a chain leaves thousands. Nothing else
// may take them in meanwhile: the caller has the mutex for that. It reports
// whether none is left.
func chase(except, waitedFor []int) bool {
	dying := make(map[int]bool) // false: it belongs to another user
	calm := 0                   // rounds without one that is dying
	for late := time.Now().Add(chaseTakes); calm < chaseCalm && time.Now().Before(late); calm++ {
		for _, pid := range kernelChildren() {
			killable, known := dying[pid]
			switch {
			case slices.Contains(except, pid):
				continue
			case !known:
				killable = syscall.Kill(pid, syscall.SIGKILL) == nil
				dying[pid] = killable
			case !slices.Contains(waitedFor, pid):
				if ended, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); ended == pid {
					delete(dying, pid) // another process may get its number
				}
			case killable:
				p, lives := look(pid)
				killable = lives && !p.dead
			}
			if killable {
				calm = 0
			}
		}
		time.Sleep(chasePause)
	}
	return calm == chaseCalm
}

const (
	chaseTakes = huntTakes / 2
	chaseCalm  = 3
	chasePause = 50 * time.Microsecond // in which the killed can die
)

// kernelChildren returns the children of this process as the kernel lists them
// (proc_pid_task_children(5)): none where it does not.
func kernelChildren() (pids []int) {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		list, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		for number := range bytes.FieldsSeq(list) {
			if pid, err := strconv.Atoi(string(number)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// killOrphans kills all descendants of this process except those of the given
// children. It reports whether none is left.
func killOrphans(except []int) (gone bool) {
	if !adopts {
		return true
	}
	none := 0
	caught := true
	for late := time.Now().Add(huntTakes); time.Now().Before(late); {
		var found []process
		if caught { // a look at all takes long, which serves those that fork
			found = descendants(os.Getpid(), except)
			signalAll(found, syscall.SIGKILL)
		}
		own.mu.Lock() // so that no number is another process's meanwhile
		caught = chase(except, own.pids)
		own.mu.Unlock()
		own.reapAll()
		if unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
			return true
		}
		if none++; len(found) > 0 || !caught {
			none = 0
		}
		if none == quiet {
			return true
		}
		time.Sleep(huntPause)
	}
	return false
}

// askStrays sends signals to the descendants of the guard that are in none of the
// groups, to each once: those in the groups have them already, and some programs
// take a second one for impatience. It looks twice before it sends the first: a
// process may lose its parent while it looks, and one that is asked to end may
// start another to tidy up, which must not be asked to end itself. It returns
// within the given time, since its caller must kill by then.
func askStrays(guard int, groups []int, within time.Duration, signals ...syscall.Signal) {
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		strays := descendants(guard, nil)
		for _, p := range descendants(guard, nil) {
			if !slices.ContainsFunc(strays, func(q process) bool { return q.pid == p.pid }) {
				strays = append(strays, p)
			}
		}
		signalAll(slices.DeleteFunc(strays, func(p process) bool { return slices.Contains(groups, p.group) }), signals...)
	}()
	select {
	case <-asked:
	case <-time.After(min(askTakes, within)):
	}
}

const askTakes = 100 * time.Millisecond // goes on without the wrapper after that

// A process is what /proc said of one.
type process struct {
	pid, parent, group int
	started            string // in ticks since the machine was started
	dead               bool   // a zombie
}

// look returns what /proc says of a process: proc_pid_stat(5). Field 2 is the
// program's name, which may contain spaces and brackets.
func look(pid int) (p process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	return parseStat(pid, stat)
}

func parseStat(pid int, stat []byte) (p process, ok bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, parent, group, started = 0, 4 - 3, 5 - 3, 22 - 3 // the first one after the name is field 3
	if len(fields) <= started {
		return p, false
	}
	p = process{pid: pid, started: string(fields[started]), dead: bytes.Contains([]byte("ZXx"), fields[state])}
	p.parent, _ = strconv.Atoi(string(fields[parent]))
	p.group, _ = strconv.Atoi(string(fields[group]))
	return p, true
}

// processes returns all processes. The newest are looked at first: of a chain of
// processes, each of which starts the next and ends, they still live.
func processes() (all []process) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range slices.Backward(names) {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := look(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// children returns the children of this process.
func children() (pids []int) {
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// adopted reports whether a process lives and is a child of this one.
func adopted(pid int) bool {
	p, ok := look(pid)
	return ok && !p.dead && p.parent == os.Getpid()
}

// descendants returns the living descendants of a process, without certain ones
// and theirs.
func descendants(root int, except []int) (found []process) {
	of := make(map[int][]process)
	for _, p := range processes() {
		if !slices.Contains(except, p.pid) {
			of[p.parent] = append(of[p.parent], p)
		}
	}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range of[queue[0]] {
			queue = append(queue, p.pid)
			if !p.dead {
				found = append(found, p)
			}
		}
		delete(of, queue[0]) // numbers that were reused while we looked make no circle
	}
	return found
}

func signalAll(all []process, signals ...syscall.Signal) {
	for _, p := range all {
		p.signal(unix.PidfdOpen, signals)
	}
}

// signal sends signals to a process, and never to another one that has got its
// number since: a pidfd always means the same process, and /proc is asked once
// more when we have it.
func (p process) signal(open func(pid, flags int) (int, error), signals []syscall.Signal) {
	fd, err := open(p.pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, ok := look(p.pid); !ok || now.started != p.started {
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
		_ = unix.Kill(p.pid, number)
	}
}
