/* The clock of one process, set by another. The file has two numbers: what is added to the clock, in seconds, and
   at what it stands still, in microseconds, if that is not 0. Then come pairs of numbers, up to the end of the file: a
   database of PostgreSQL, and at what its clock stands still. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *set_by;
static size_t numbers;

/* The database that a process of PostgreSQL works for, or 0. Other programs have none. */
extern unsigned int MyDatabaseId __attribute__((weak));

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_SET_BY");
    int file = path ? open(path, O_RDONLY) : -1;
    struct stat about;
    if (file < 0 || fstat(file, &about)) return;
    void *there = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (there == MAP_FAILED) return;
    set_by = there;
    numbers = (size_t)about.st_size / sizeof(int64_t);
}

static time_t more(void) { return set_by ? (time_t)set_by[0] : 0; }

static int64_t stopped_us(void) {
    if (!set_by) return 0;
    if (&MyDatabaseId && MyDatabaseId)
        for (size_t at = 2; at + 1 < numbers; at += 2)
            if (set_by[at] == MyDatabaseId) return set_by[at + 1];
    return set_by[1];
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return (int)failed;
    int64_t us = stopped_us();
    if (us) {
        now->tv_sec = us / 1000000;
        now->tv_nsec = us % 1000000 * 1000;
    }
    now->tv_sec += more();
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    if (!failed && now) {
        now->tv_sec = precise.tv_sec;
        now->tv_usec = precise.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
