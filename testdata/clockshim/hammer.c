/*
 * hammer looks at its clocks as fast as it can for as many seconds of its own steady clock as its argument says, and fails
 * when one of them says less than before. The test of the clock shim runs it while rates change.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int64_t look(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	int64_t seconds = argc > 1 ? atoll(argv[1]) : 1;
	int64_t begun = look(CLOCK_MONOTONIC), steady = begun, wall = look(CLOCK_REALTIME);
	long looks = 0, back = 0;
	int64_t worst = 0;
	while (steady - begun < seconds * 1000000000LL) {
		int64_t s = look(CLOCK_MONOTONIC), w = look(CLOCK_REALTIME);
		struct timeval t;
		gettimeofday(&t, NULL);
		int64_t us = t.tv_sec * 1000000LL + t.tv_usec;
		int64_t less = steady - s > wall - w ? steady - s : wall - w;
		if (us < w / 1000 && w / 1000 - us > less / 1000)
			less = w - us * 1000;
		if (less > 0)
			back++;
		if (less > worst)
			worst = less;
		steady = s;
		wall = w;
		looks += 3;
	}
	printf("%ld looks, %ld steps back, the longest of %lld ns\n", looks, back, (long long)worst);
	return back > 0;
}
