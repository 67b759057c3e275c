#include "serve/sandbox.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ingot {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArch = 0;
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// Calls that are allowed whatever their arguments. Those that a machine does not have are left out.
constexpr long kAllowed[] = {
    // memory and threads
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_mincore,
    SYS_futex,
    SYS_set_robust_list,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_membarrier,
    SYS_getcpu,
    SYS_exit,
    SYS_exit_group,
    SYS_restart_syscall,
#ifdef SYS_rseq
    SYS_rseq,
#endif
    // signals, time and facts
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrusage,
    SYS_times,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrandom,
    // files: reading, and writing what is open
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fcntl,
    SYS_ftruncate,
    SYS_getdents64,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_fadvise64,
    // connections that others made
    SYS_accept4,
    SYS_accept,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_shutdown,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_ppoll,
    SYS_pselect6,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
#ifdef __x86_64__
    SYS_epoll_wait,
    SYS_poll,
    SYS_select,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_time,
#endif
};

constexpr uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    jump_equal(kArch, 1, 0);
    give(kDeny);
    load(offsetof(seccomp_data, nr));
  }

  void allow(long call) { answer(call, SECCOMP_RET_ALLOW); }
  void answer(long call, uint32_t result) {
    jump_equal(static_cast<uint32_t>(call), 0, 1);
    give(result);
  }
  // Where none of `bits` is set in the argument's lower half.
  void allow_without(long call, int argument, uint32_t bits) {
    jump_equal(static_cast<uint32_t>(call), 0, 4);
    load(low_half(argument));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
    give(SECCOMP_RET_ALLOW);
    give(kDeny);
  }
  // Where all of `bits` is set.
  void allow_with(long call, int argument, uint32_t bits) {
    jump_equal(static_cast<uint32_t>(call), 0, 4);
    load(low_half(argument));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    give(SECCOMP_RET_ALLOW);
    give(kDeny);
  }
  // Where the argument's lower half is `value`.
  void allow_equal(long call, int argument, uint32_t value) {
    jump_equal(static_cast<uint32_t>(call), 0, 4);
    load(low_half(argument));
    jump_equal(value, 0, 1);
    give(SECCOMP_RET_ALLOW);
    load(offsetof(seccomp_data, nr));  // the next rule may be of the same call
  }
  // Where the whole argument is 0: a null pointer.
  void allow_null(long call, int argument) {
    jump_equal(static_cast<uint32_t>(call), 0, 6);
    load(low_half(argument));
    jump_equal(0, 0, 3);
    load(low_half(argument) + 4);
    jump_equal(0, 0, 1);
    give(SECCOMP_RET_ALLOW);
    give(kDeny);
  }

  bool install() {
    give(kDeny);
    const sock_fprog program{.len = static_cast<unsigned short>(code_.size()), .filter = code_.data()};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
  }

 private:
  static uint32_t low_half(int argument) {  // both machines are little-endian
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + sizeof(uint64_t) * static_cast<size_t>(argument));
  }
  void load(size_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))); }
  void jump_equal(uint32_t value, uint8_t yes, uint8_t no) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no));
  }
  void give(uint32_t result) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, result)); }

  std::vector<sock_filter> code_;
};

void add_rules(Filter& filter, const SandboxOptions& options) {
  for (const long call : kAllowed) filter.allow(call);
  constexpr uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  filter.allow_without(SYS_openat, 2, kWrites);
#ifdef SYS_open
  filter.allow_without(SYS_open, 1, kWrites);
#endif
  filter.allow_without(SYS_mmap, 2, PROT_EXEC);
  filter.allow_without(SYS_mprotect, 2, PROT_EXEC);
  filter.allow_with(SYS_clone, 0, CLONE_THREAD);
  // Its flags lie in memory, where no filter sees them; the library then falls back to clone.
  filter.answer(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  filter.allow_equal(SYS_tgkill, 0, static_cast<uint32_t>(getpid()));
  if (options.device) filter.allow(SYS_ioctl);
  for (const uint32_t request : {FIONBIO, FIONREAD, TCGETS}) filter.allow_equal(SYS_ioctl, 1, request);
  filter.allow_null(SYS_prlimit64, 2);
  if (options.unlink) {
    filter.allow(SYS_unlinkat);
#ifdef SYS_unlink
    filter.allow(SYS_unlink);
#endif
  }
}

}  // namespace

std::string enter_sandbox(const SandboxOptions& options) {
  if (kArch == 0) return "no list of system calls for this machine";
  if (kSanitized) return "a build with sanitizers needs more system calls";
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fmt::format("no_new_privs: {}", std::strerror(errno));
  Filter filter;
  add_rules(filter, options);
  if (!filter.install()) return fmt::format("seccomp: {}", std::strerror(errno));
  return {};
}

}  // namespace ingot
