/*
 * clockshim gives one process clocks of its own: LD_PRELOADed into a redis-server or valkey-server, it answers clock_gettime,
 * gettimeofday and time from the machine's CLOCK_MONOTONIC and what another process says. Tests thus make a node's clock
 * run fast or slow, and step, while it serves (the drift of R4, and what it does not cover).
 *
 *     cc -shared -fPIC -O2 -o clockshim.so clockshim.c
 *     REDMUX_CLOCK=/path/of/a/file LD_PRELOAD=./clockshim.so redis-server …
 *
 * What it changes, and what not:
 *
 *   - All clocks that tell time run at one rate, and never turn back by themselves. Those of the time of day also step when
 *     they are told to; those that only ever go on (MONOTONIC, BOOTTIME) do not, as on a machine whose clock is set. When
 *     the machine's own clock is set meanwhile, the process does not see it. Clocks of CPU time are left alone.
 *   - Waits stay real: epoll_wait, nanosleep, the interval timer. A server whose clock runs at twice the rate wakes for its
 *     timers by real time and finds them overdue; one at half the rate wakes too early, and waits again. Servers
 *     take the expiry of keys from the time of day (gettimeofday), not from timers, so that a PTTL is exact.
 *   - A server that reads its monotonic clock from the CPU's counter ("monotonic_clock:X86 TSC" in its INFO) has only its
 *     time of day changed.
 *
 * Nothing here allocates, locks or blocks, so that it may be called from a signal handler and before main. The file is two
 * counters and two rules, see struct rules; internal/redistest/clock.go is the other end of it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

/*
 * A rule says how far the process's clocks are ahead of the machine's CLOCK_MONOTONIC from a moment on: by so much at that
 * moment, and for each second after it by rate nanoseconds more. All are nanoseconds, the moment of that clock too.
 */
struct rule {
	int64_t from;
	int64_t steady; /* at that moment, clocks that only go on */
	int64_t wall;   /* at that moment, clocks of the time of day */
	int64_t rate;
};

/*
 * rules is the file. Rule number n is in slot n % 2, and done is the number of the newest, so one of the two is never being
 * written. The writer raises begun, fills the slot of the rule before the newest, and raises done. The new rule begins a
 * little later, so that it continues the old one exactly, whenever a reader notices it. The writer then waits for that
 * moment, so that no reader needs the rule that is overwritten next.
 */
struct rules {
	uint64_t begun;
	uint64_t done;
	struct rule slots[2];
};

static const struct rules *shared; /* NULL until the constructor ran: the machine's clocks */

/* machine_clock is the C library's clock_gettime, which as a rule needs no system call; NULL until the constructor ran. */
static int (*machine_clock)(clockid_t, struct timespec *);

static int machine(clockid_t id, struct timespec *t)
{
	if (machine_clock != NULL)
		return machine_clock(id, t);
	return (int)syscall(SYS_clock_gettime, id, t);
}

static int64_t load(const int64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

static struct rule copy(const struct rule *r)
{
	return (struct rule){load(&r->from), load(&r->steady), load(&r->wall), load(&r->rate)};
}

/*
 * current returns the rule in force, and the time by which it was chosen. A reader that was stopped on its way starts again.
 * If it was stopped before it read the clock, a newer rule may have begun since, which it does not know, and its time would
 * be ahead of what that rule says next. If it was stopped before it read the rule, the rule may be half overwritten. A rule
 * is published before it begins: if none was published until after the clock was read, none can have begun by then.
 */
static struct rule current(int64_t *now)
{
	for (;;) {
		uint64_t done = __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
		struct timespec t;
		machine(CLOCK_MONOTONIC, &t);
		*now = t.tv_sec * SECOND + t.tv_nsec;
		struct rule r = copy(&shared->slots[done % 2]);
		uint64_t bearable = done + 1; /* the writer of the next rule does not touch the newest */
		if (*now < r.from && done > 0) {
			r = copy(&shared->slots[(done - 1) % 2]);
			bearable = done;
		}
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&shared->begun, __ATOMIC_RELAXED) <= bearable &&
		    __atomic_load_n(&shared->done, __ATOMIC_RELAXED) == done)
			return r;
	}
}

/*
 * clock_gettime looks at one clock of the machine, and once: of two looks, the second may come much later on a busy machine,
 * and a time that is put together from both could turn back.
 */
int clock_gettime(clockid_t id, struct timespec *t)
{
	int wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI;
	int steady = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME;
	if (shared == NULL || !(wall || steady))
		return machine(id, t);
	int64_t now;
	struct rule r = current(&now);
	/* The product may exceed 64 bits; a double holds it to the nanosecond for as long as a test can last. */
	now += (wall ? r.wall : r.steady) + (int64_t)((double)(now - r.from) * (double)r.rate / SECOND);
	t->tv_sec = now / SECOND;
	t->tv_nsec = now % SECOND;
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;
	if (zone != NULL)
		memset(zone, 0, sizeof(struct timezone));
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *seconds)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (seconds != NULL)
		*seconds = now.tv_sec;
	return now.tv_sec;
}

/*
 * A server that was to have clocks of its own and has not would make every test of them pass, so it ends here instead.
 */
static void refuse(const char *why)
{
	ssize_t ignored = write(STDERR_FILENO, why, strlen(why));
	(void)ignored;
	_exit(99);
}

__attribute__((constructor)) static void begin(void)
{
	machine_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	const char *path = getenv("REDMUX_CLOCK");
	if (path == NULL)
		refuse("clockshim: REDMUX_CLOCK names no file\n");
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || lseek(file, 0, SEEK_END) < (off_t)sizeof(struct rules))
		refuse("clockshim: the file that REDMUX_CLOCK names cannot be read, or is too short\n");
	void *at = mmap(NULL, sizeof(struct rules), PROT_READ, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		refuse("clockshim: mmap failed\n");
	close(file);
	shared = at;
}
