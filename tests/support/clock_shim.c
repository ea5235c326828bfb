/*
 * A wall clock that a test sets.
 *
 * Preloaded into a server (LD_PRELOAD), it answers every question for the wall clock from the
 * 8-byte cell (Unix time in microseconds) at the head of the file named by RL_CLOCK. Monotonic
 * clocks stay real. It allocates nothing and takes no lock: the first question comes from the
 * allocator's own start.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic(const volatile _Atomic uint64_t *) cell;

/* Unix time in microseconds, or -1 where no clock file is given. */
static int64_t now_us(void) {
    const volatile _Atomic uint64_t *now = cell;
    if (now == NULL) {
        int saved = errno;
        const char *path = getenv("RL_CLOCK");
        int fd = path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        if (fd >= 0) {
            void *map = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
            syscall(SYS_close, fd);
            /* Two threads at once map it twice; both maps show the same file. */
            if (map != MAP_FAILED) cell = now = map;
        }
        errno = saved;
    }
    return now == NULL ? -1 : (int64_t)*now;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    int64_t us = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE ? now_us() : -1;
    if (us < 0) return (int)syscall(SYS_clock_gettime, id, out);
    out->tv_sec = us / 1000000;
    out->tv_nsec = us % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}
