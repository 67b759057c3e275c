// Loaded before a program (LD_PRELOAD), it makes chosen allocations and calls of the system fail. The test and the
// program share the numbers below through a file: calls are counted from the beginning of main() on, and those with
// numbers in [from, to) fail.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
  int64_t allocations, allocation_from, allocation_to, allocations_failed;
  int64_t calls, call_from, call_to, calls_failed;
  int64_t kind;  // an errno, or kShort
};
enum { kShort = -1 };

static struct control* shared;
static int started;

static int due(int64_t* count, int64_t* from, int64_t* to, int64_t* failed) {
  if (!started || !shared) return 0;
  const int64_t n = __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
  if (n < __atomic_load_n(from, __ATOMIC_RELAXED) || n >= __atomic_load_n(to, __ATOMIC_RELAXED)) return 0;
  __atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
  return 1;
}

static int no_memory(void) {
  if (!shared || !due(&shared->allocations, &shared->allocation_from, &shared->allocation_to, &shared->allocations_failed)) {
    return 0;
  }
  errno = ENOMEM;
  return 1;
}

// Descriptors of the kernel's own counters, whose reads and writes know no such failure.
static unsigned char internal[1024];
static int remember(int fd) {
  if (fd >= 0 && fd < (int)sizeof(internal)) internal[fd] = 1;
  return fd;
}
int eventfd(unsigned int count, int flags) { return remember((int)syscall(SYS_eventfd2, count, flags)); }
int timerfd_create(int clock, int flags) { return remember((int)syscall(SYS_timerfd_create, clock, flags)); }

// 0: as always; -1: fails with errno set; 1: less than was asked for.
static int trouble(int fd) {
  if (fd >= 0 && fd < (int)sizeof(internal) && internal[fd]) return 0;
  if (!shared || !due(&shared->calls, &shared->call_from, &shared->call_to, &shared->calls_failed)) return 0;
  if (shared->kind == kShort) return 1;
  errno = (int)shared->kind;
  return -1;
}

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) { return no_memory() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return no_memory() ? NULL : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return no_memory() ? NULL : __libc_realloc(old, size); }
void* memalign(size_t align, size_t size) { return no_memory() ? NULL : __libc_memalign(align, size); }
void* aligned_alloc(size_t align, size_t size) { return no_memory() ? NULL : __libc_memalign(align, size); }
int posix_memalign(void** out, size_t align, size_t size) {
  if (no_memory()) return ENOMEM;
  *out = __libc_memalign(align, size);
  return *out ? 0 : ENOMEM;
}

static size_t less(size_t size, int how) { return how == 1 && size > 1 ? size / 2 : size; }

#define GUARDED(type)            \
  const int how = trouble(fd);   \
  if (how < 0) return (type)(-1)

ssize_t read(int fd, void* to, size_t size) {
  GUARDED(ssize_t);
  return syscall(SYS_read, fd, to, less(size, how));
}
ssize_t write(int fd, const void* from, size_t size) {
  GUARDED(ssize_t);
  return syscall(SYS_write, fd, from, less(size, how));
}
ssize_t pread(int fd, void* to, size_t size, off_t at) {
  GUARDED(ssize_t);
  return syscall(SYS_pread64, fd, to, less(size, how), at);
}
ssize_t pread64(int fd, void* to, size_t size, off64_t at) {
  GUARDED(ssize_t);
  return syscall(SYS_pread64, fd, to, less(size, how), at);
}
ssize_t readv(int fd, const struct iovec* parts, int n) {
  GUARDED(ssize_t);
  return syscall(SYS_readv, fd, parts, how == 1 ? 1 : n);
}
ssize_t writev(int fd, const struct iovec* parts, int n) {
  GUARDED(ssize_t);
  return syscall(SYS_writev, fd, parts, how == 1 ? 1 : n);
}
ssize_t recv(int fd, void* to, size_t size, int flags) {
  GUARDED(ssize_t);
  return syscall(SYS_recvfrom, fd, to, less(size, how), flags, NULL, NULL);
}
ssize_t send(int fd, const void* from, size_t size, int flags) {
  GUARDED(ssize_t);
  return syscall(SYS_sendto, fd, from, less(size, how), flags, NULL, 0);
}

// One part of the message, and half of that.
static ssize_t message(long call, int fd, const struct msghdr* given, int flags, int how) {
  struct msghdr copy = *given;
  struct iovec part;
  if (how == 1 && given->msg_iovlen > 0) {
    part = given->msg_iov[0];
    part.iov_len = less(part.iov_len, how);
    copy.msg_iov = &part;
    copy.msg_iovlen = 1;
  }
  return syscall(call, fd, &copy, flags);
}
ssize_t recvmsg(int fd, struct msghdr* given, int flags) {
  GUARDED(ssize_t);
  return message(SYS_recvmsg, fd, given, flags, how);
}
ssize_t sendmsg(int fd, const struct msghdr* given, int flags) {
  GUARDED(ssize_t);
  return message(SYS_sendmsg, fd, given, flags, how);
}

// Opening a file and mapping it know no interruption and nothing partial.
static int refused(void) {
  if (!shared || shared->kind == kShort || shared->kind == EINTR) return 0;
  return trouble(-1) != 0;
}
static int open_at(int folder, const char* path, int flags, mode_t mode) {
  return refused() ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}
static mode_t mode_of(int flags, va_list more) { return (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; }

#define OPEN(name, folder, ...)                         \
  int name(__VA_ARGS__, int flags, ...) {               \
    va_list more;                                       \
    va_start(more, flags);                              \
    const mode_t mode = mode_of(flags, more);           \
    va_end(more);                                       \
    return open_at(folder, path, flags, mode);          \
  }
OPEN(open, AT_FDCWD, const char* path)
OPEN(open64, AT_FDCWD, const char* path)
OPEN(openat, folder, int folder, const char* path)
OPEN(openat64, folder, int folder, const char* path)

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  // Memory without a file is an allocation.
  if (fd < 0 ? no_memory() : refused()) return MAP_FAILED;
  return (void*)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) {
  return mmap(at, size, protection, flags, fd, offset);
}

static int (*real_main)(int, char**, char**);

static int counted_main(int argc, char** argv, char** env) {
  const char* path = getenv("INGOT_INJECT");
  const int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
  if (fd >= 0) {
    void* at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) shared = at;
    close(fd);
  }
  started = 1;
  const int status = real_main(argc, argv, env);
  started = 0;  // what other libraries do at the end is not ours
  return status;
}

int __libc_start_main(int (*entry)(int, char**, char**), int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*loader)(void), void* stack) {
  real_main = entry;
  int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  *(void**)&real = dlsym(RTLD_NEXT, "__libc_start_main");
  return real(counted_main, argc, argv, init, fini, loader, stack);
}
