package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// counted is what perf stat says: the number of calls, and the time.
var counted = regexp.MustCompile(`(?s)(\d+) +raw_syscalls:sys_enter.*?([\d.]+) seconds time elapsed`)

// countSyscalls counts the system calls that all threads of a process begin
// within about d, and returns the exact time. It needs perf, and root or
// CAP_PERFMON. perf counts in the kernel, at some tens of nanoseconds a call; a
// tracer that stops the process in each call would change how commands batch.
func countSyscalls(ctx context.Context, pid int, d time.Duration) (n int64, took time.Duration, err error) {
	perf := exec.CommandContext(ctx, "perf", "stat", "-e", "raw_syscalls:sys_enter",
		"-p", strconv.Itoa(pid), "--", "sleep", fmt.Sprint(d.Seconds()))
	perf.Env = append(perf.Environ(), "LC_ALL=C") // no separators in numbers
	var out bytes.Buffer
	perf.Stderr = &out
	if err := perf.Run(); err != nil {
		return 0, 0, fmt.Errorf("perf stat: %w: %s", err, strings.TrimSpace(out.String()))
	}
	found := counted.FindStringSubmatch(out.String())
	if found == nil {
		return 0, 0, fmt.Errorf("perf stat: no count in %q", out.String())
	}
	if n, err = strconv.ParseInt(found[1], 10, 64); err != nil {
		return 0, 0, err
	}
	took, err = time.ParseDuration(found[2] + "s")
	return n, took, err
}
