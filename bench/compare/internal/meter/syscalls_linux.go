package meter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CountSyscalls counts the system calls that all threads of a running process begin within d, also those of threads that
// are started meanwhile. Then, for another d, it counts by name those calls that a client of sockets makes often, and all the
// others together as "other". It needs root, or CAP_PERFMON and a readable tracefs.
//
// The kernel counts at its own tracepoints, in the way of perf stat: a call costs the process some tens of nanoseconds more,
// and a switch of threads a little for each counter. That is why the sum has a time of its own, with one counter per thread,
// and why byName, which adds up to n only where the process does the same all the time, is for looking at. What either costs
// here is what BenchmarkDisturbance in the tests says. strace counts, too, but stops the process twice in each call; at its
// speed other batches gather, and the result would be that of another program.
//
// Counting begins within milliseconds. Taking the counters down again makes the kernel wait for all its processors, which
// may take longer than d. A thread that is started while the counters are being put up may be missed, so let the process get
// into its stride first.
func CountSyscalls(pid int, d time.Duration) (n int64, byName map[string]int64, err error) {
	sum, err := count(pid, d, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("meter: %w", err)
	}
	byName, err = count(pid, d, named)
	if err != nil {
		return 0, nil, fmt.Errorf("meter: %w", err)
	}
	n, byName["other"] = sum[all], byName[all]
	delete(byName, all)
	for _, name := range named {
		byName["other"] -= byName[name]
	}
	// The counters are switched one after the other, so that those by name may be ahead by a few calls.
	byName["other"] = max(0, byName["other"])
	return n, byName, nil
}

// count counts all calls, and those of the given names, for the time d.
func count(pid int, d time.Duration, names []string) (map[string]int64, error) {
	c, err := newCounters(pid, names)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.switchAll(unix.PERF_EVENT_IOC_ENABLE); err != nil {
		return nil, err
	}
	// The switches of a few threads take some microseconds each, which is nothing beside d.
	time.Sleep(d)
	if err := c.switchAll(unix.PERF_EVENT_IOC_DISABLE); err != nil {
		return nil, err
	}
	return c.read()
}

// counters are the kernel's counters of one process: one for each thread and event. Those of a thread count for the threads
// that it starts, too.
type counters struct {
	events []event
	opened []counter
}

// event is a tracepoint: that of all system calls, whose name is all, or that of one.
type event struct {
	name string
	id   uint64
}

type counter struct {
	fd    int
	event int // index
}

// all names the tracepoint of all system calls, which no name of a call can be.
const all = ""

// named are the calls that are counted by name: what Go's netpoller, the clients here and redis-server live on. Each makes a
// switch of threads a little dearer, so that not all of the kernel's three hundred are.
var named = []string{
	"read", "write", "readv", "writev", "recvfrom", "sendto", "recvmsg", "sendmsg",
	"epoll_wait", "epoll_pwait", "epoll_ctl", "poll", "ppoll", "futex", "nanosleep", "sched_yield", "tgkill", "rt_sigreturn",
}

// newCounters puts up counters that do not count yet.
func newCounters(pid int, names []string) (*counters, error) {
	c := &counters{}
	var err error
	if c.events, err = findEvents(names); err != nil {
		return nil, err
	}
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return nil, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := c.open(tid); err != nil {
			c.close()
			return nil, err
		}
	}
	if len(c.opened) == 0 {
		return nil, fmt.Errorf("process %d has ended", pid)
	}
	return c, nil
}

// findEvents asks tracefs for the numbers of the tracepoints. Calls that this processor's kernel does not have are left out.
func findEvents(names []string) ([]event, error) {
	root, err := tracefs()
	if err != nil {
		return nil, err
	}
	id, err := eventID(root, "raw_syscalls/sys_enter")
	if err != nil {
		return nil, err
	}
	events := []event{{all, id}}
	for _, name := range names {
		id, err := eventID(root, "syscalls/sys_enter_"+name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		events = append(events, event{name, id})
	}
	return events, nil
}

// tracefs is where the tracepoints are listed: on old systems below debugfs.
func tracefs() (string, error) {
	var failed error
	for _, root := range []string{"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"} {
		_, err := os.Stat(filepath.Join(root, "raw_syscalls"))
		if err == nil {
			return root, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("system calls are counted as root, with tracefs (mount -t tracefs tracefs /sys/kernel/tracing): %w", failed)
}

// eventID is the number of a tracepoint, which is another one on every kernel.
func eventID(root, name string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(root, name, "id"))
	if err != nil {
		return 0, fmt.Errorf("number of a tracepoint: %w", err)
	}
	return strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
}

// open puts up a thread's counters. A thread that has ended meanwhile has none.
func (c *counters) open(tid int) error {
	for i, e := range c.events {
		// Without a sampling period the kernel only counts. The bit of inheritance is what counts threads that begin later,
		// whose counts it adds to those of the thread that started them.
		attr := unix.PerfEventAttr{
			Type:   unix.PERF_TYPE_TRACEPOINT,
			Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Config: e.id,
			Bits:   unix.PerfBitDisabled | unix.PerfBitInherit,
		}
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		switch {
		case errors.Is(err, unix.ESRCH):
			return nil
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			return fmt.Errorf("system calls are counted as root, or with CAP_PERFMON: %w", os.NewSyscallError("perf_event_open", err))
		case err != nil:
			return os.NewSyscallError("perf_event_open", err)
		}
		c.opened = append(c.opened, counter{fd, i})
	}
	return nil
}

// switchAll lets all count, or no longer.
func (c *counters) switchAll(request uint) error {
	for _, o := range c.opened {
		if err := unix.IoctlSetInt(o.fd, request, 0); err != nil {
			return os.NewSyscallError("ioctl", err)
		}
	}
	return nil
}

// read adds up the threads' counts.
func (c *counters) read() (map[string]int64, error) {
	sums := make(map[string]int64)
	var value [8]byte
	for _, o := range c.opened {
		if _, err := unix.Read(o.fd, value[:]); err != nil {
			return nil, os.NewSyscallError("read", err)
		}
		if n := int64(binary.NativeEndian.Uint64(value[:])); n > 0 {
			sums[c.events[o.event].name] += n
		}
	}
	return sums, nil
}

// close takes the counters down, and with the last one of an event its tracepoint.
func (c *counters) close() {
	for _, o := range c.opened {
		_ = unix.Close(o.fd)
	}
}
