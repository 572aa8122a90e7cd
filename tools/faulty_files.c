/* Preloaded (LD_PRELOAD) into runs by fault_storm.py and tests: makes files below $FAULTY_FOLDER fail while $FAULTY_TRIGGER exists.
 * The trigger file says how, in one word and a number:
 *   enospc 0   writes, and opening for writing, fail with ENOSPC
 *   eio 0      the same and fsync and rename, with EIO
 *   slow MS    each write takes MS milliseconds longer
 *   stall 0    each write waits until the trigger is gone
 *   slowread MS   opening a file for reading takes MS milliseconds longer
 *   noread E   looking at a path, listing it and opening it for reading fail with the error number E: 5 is EIO, 116 ESTALE
 *   nolock MS  flock fails with ENOLCK, and each write takes MS milliseconds longer: whoever does not wait begins meanwhile
 *   nothread N each process can start N threads, then pthread_create fails with EAGAIN
 *   clock S    the wall clock of this process is S seconds off, from then on
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long clock_offset_s;

/* The trigger's word in `word` and its number; 0 where there is no trigger. Only system calls: this runs inside libc's. */
static int trigger(char word[16], long *number) {
  const char *path = getenv("FAULTY_TRIGGER");
  if (path == NULL) return 0;
  const int saved = errno;
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  char text[64] = "";
  int found = 0;
  if (fd >= 0) {
    const long count = syscall(SYS_read, fd, text, sizeof text - 1);
    found = count > 0 && sscanf(text, "%15s %ld", word, number) == 2;
    syscall(SYS_close, fd);
  }
  errno = saved;
  return found;
}

static int is_below(const char *path) {
  const char *folder = getenv("FAULTY_FOLDER");
  return folder != NULL && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file_below(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* Delays, and returns the error that the call is to end with, or 0. */
static int fault(int hits_fsync_and_rename) {
  char word[16];
  long number;
  if (!trigger(word, &number)) return 0;
  if (strcmp(word, "eio") == 0) return EIO;
  if (hits_fsync_and_rename) return 0;
  if (strcmp(word, "enospc") == 0) return ENOSPC;
  if (strcmp(word, "slow") == 0 || strcmp(word, "nolock") == 0) sleep_ms(number);
  while (strcmp(word, "stall") == 0 && trigger(word, &number)) sleep_ms(20);
  return 0;
}

/* The error that reading a path is to end with, or 0. */
static int reading_fault(const char *path) {
  char word[16];
  long number;
  if (!is_below(path) || !trigger(word, &number) || strcmp(word, "noread") != 0) return 0;
  return (int)number;
}

static int read_fails(const char *path) {
  const int error = reading_fault(path);
  if (error != 0) errno = error;
  return error;
}

static void delay_reading(const char *path) {
  char word[16];
  long number;
  if (is_below(path) && trigger(word, &number) && strcmp(word, "slowread") == 0) sleep_ms(number);
}

static int look(const char *path, struct stat *info, int flags) {
  return read_fails(path) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, flags);
}
int stat(const char *path, struct stat *info) { return look(path, info, 0); }
int lstat(const char *path, struct stat *info) { return look(path, info, AT_SYMLINK_NOFOLLOW); }
int stat64(const char *path, struct stat64 *info) { return look(path, (struct stat *)info, 0); }
int lstat64(const char *path, struct stat64 *info) { return look(path, (struct stat *)info, AT_SYMLINK_NOFOLLOW); }

DIR *opendir(const char *path) {
  typedef DIR *(*opener)(const char *);
  static _Atomic(opener) original;
  opener call = atomic_load(&original);
  if (call == NULL) atomic_store(&original, call = (opener)dlsym(RTLD_NEXT, "opendir"));
  return read_fails(path) ? NULL : call(path);
}

#define FAIL_IF(condition, is_sync)                    \
  do {                                                 \
    const int error = (condition) ? fault(is_sync) : 0; \
    if (error != 0) {                                  \
      errno = error;                                   \
      return -1;                                       \
    }                                                  \
  } while (0)

ssize_t write(int fd, const void *bytes, size_t count) {
  FAIL_IF(is_file_below(fd), 0);
  return syscall(SYS_write, fd, bytes, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
  FAIL_IF(is_file_below(fd), 0);
  return syscall(SYS_pwrite64, fd, bytes, count, offset);
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return pwrite64(fd, bytes, count, offset); }

int fsync(int fd) {
  FAIL_IF(is_file_below(fd), 1);
  return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
  FAIL_IF(is_below(to), 1);
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  const int is_reading = (flags & O_ACCMODE) == O_RDONLY;
  if (is_reading && read_fails(path)) return -1;
  if (is_reading) delay_reading(path);
  FAIL_IF(!is_reading && is_below(path), 0);
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE_OF(flags, mode)                     \
  mode_t mode = 0;                               \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {       \
    va_list more;                                \
    va_start(more, flags);                       \
    mode = va_arg(more, mode_t);                 \
    va_end(more);                                \
  }

int open64(const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(folder, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(folder, path, flags, mode);
}

int flock(int fd, int operation) {
  char word[16];
  long number;
  if (is_file_below(fd) && trigger(word, &number) && strcmp(word, "nolock") == 0) {
    errno = ENOLCK;
    return -1;
  }
  return (int)syscall(SYS_flock, fd, operation);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  typedef int (*creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  static _Atomic(creator) original;
  static atomic_long num_started;
  creator call = atomic_load(&original);
  if (call == NULL) atomic_store(&original, call = (creator)dlsym(RTLD_NEXT, "pthread_create"));
  char word[16];
  long number;
  if (trigger(word, &number) && strcmp(word, "nothread") == 0 && atomic_fetch_add(&num_started, 1) >= number) return EAGAIN;
  return call(thread, attributes, body, argument);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result != 0 || clock != CLOCK_REALTIME) return result;
  char word[16];
  long number;
  if (trigger(word, &number) && strcmp(word, "clock") == 0) atomic_store(&clock_offset_s, number);
  now->tv_sec += atomic_load(&clock_offset_s);
  return 0;
}

/* Absolute times of the wall clock were computed from the clock above; the kernel that waits for them has the true one. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  typedef int (*timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  static _Atomic(timedwait) original;
  timedwait call = atomic_load(&original);
  if (call == NULL) atomic_store(&original, call = (timedwait)dlsym(RTLD_NEXT, "pthread_cond_timedwait"));
  const long first_wall_clock_s = 1000000000; /* in 2001: steady clocks count from the start of the machine */
  struct timespec true_until = *until;
  if (until->tv_sec > first_wall_clock_s) true_until.tv_sec -= atomic_load(&clock_offset_s);
  return call(condition, mutex, &true_until);
}
