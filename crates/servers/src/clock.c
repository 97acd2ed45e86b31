/* The clock of one process, set by another: what is in the file is added to it, in seconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *set_by;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_SET_BY");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *there = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (there != MAP_FAILED) set_by = there;
}

static time_t more(void) { return set_by ? (time_t)*set_by : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += more();
    return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    long failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed && now) now->tv_sec += more();
    return (int)failed;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
