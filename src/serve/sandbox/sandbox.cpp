#include "serve/sandbox/sandbox.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "serve/sandbox/landlock.h"
#include "serve/sandbox/seccomp_filter.h"

namespace ingot {

namespace {

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

// What loading a model needs besides: threads go to their cores, and the second filter is installed.
constexpr long kAllowedWhileLoading[] = {
    SYS_sched_setaffinity, SYS_seccomp, SYS_statfs, SYS_fstatfs, SYS_get_mempolicy,
#ifdef __x86_64__
    SYS_arch_prctl,  // asks for the tiles of AMX
#endif
};

// What no library of a device has a reason to do while a model is loaded. Where files may be written Landlock says.
constexpr long kDeniedWhileLoading[] = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_personality,
    SYS_open_by_handle_at,
    SYS_unlinkat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mknodat,
    SYS_fchmodat,
    SYS_fchownat,
    SYS_truncate,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_pidfd_getfd,
    SYS_pidfd_open,
    SYS_setuid,
    SYS_setgid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_capset,
#ifdef __x86_64__
    SYS_fork,
    SYS_vfork,
    SYS_unlink,
    SYS_link,
    SYS_symlink,
    SYS_mknod,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
#endif
};

void add_threads(SeccompFilter& filter) {
  filter.allow_with(SYS_clone, 0, CLONE_THREAD);
  // Its flags lie in memory, where no filter sees them; the library then falls back to clone.
  filter.answer(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  filter.allow_equal(SYS_tgkill, 0, static_cast<uint32_t>(getpid()));
  filter.answer(SYS_tgkill, kDeny);
}

void add_unlink(SeccompFilter& filter) {
  filter.allow(SYS_unlinkat);
#ifdef SYS_unlink
  filter.allow(SYS_unlink);
#endif
}

void add_rules(SeccompFilter& filter) {
  for (const long call : kAllowed) filter.allow(call);
  constexpr uint32_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  filter.allow_without(SYS_openat, 2, kWriting);
#ifdef SYS_open
  filter.allow_without(SYS_open, 1, kWriting);
#endif
  filter.allow_without(SYS_mmap, 2, PROT_EXEC);
  filter.allow_without(SYS_mprotect, 2, PROT_EXEC);
  add_threads(filter);
  for (const uint32_t request : {FIONBIO, FIONREAD, TCGETS}) filter.allow_equal(SYS_ioctl, 1, request);
  filter.allow_null(SYS_prlimit64, 2);
}

std::string no_new_rights() {
  if (kArch == 0) return "no list of system calls for this machine";
  if (kSanitized) return "a build with sanitizers needs more system calls";
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fmt::format("no_new_privs: {}", std::strerror(errno));
  return {};
}

std::string installed(SeccompFilter& filter) {
  return filter.install() ? std::string() : fmt::format("seccomp: {}", std::strerror(errno));
}

}  // namespace

std::string enter_loading_sandbox(const SandboxOptions& options) {
  if (std::string why = no_new_rights(); !why.empty()) return why;
  if (!options.device) {
    SeccompFilter filter(kDeny);
    if (options.unlink) add_unlink(filter);
    for (const long call : kAllowedWhileLoading) filter.allow(call);
    filter.allow_equal(SYS_prctl, 0, PR_SET_NO_NEW_PRIVS);
    add_rules(filter);
    return installed(filter);
  }
  if (std::string why = write_only_beneath(options.writable); !why.empty()) return why;
  SeccompFilter filter(SECCOMP_RET_ALLOW);
  if (options.unlink) add_unlink(filter);
  for (const long call : kDeniedWhileLoading) filter.answer(call, kDeny);
  filter.answer(SYS_openat2, SECCOMP_RET_ERRNO | ENOSYS);
  add_threads(filter);
  return installed(filter);
}

std::string enter_sandbox(const SandboxOptions& options) {
  if (std::string why = no_new_rights(); !why.empty()) return why;
  SeccompFilter filter(kDeny);
  if (options.device) filter.allow(SYS_ioctl);
  if (options.unlink) add_unlink(filter);
  add_rules(filter);
  return installed(filter);
}

}  // namespace ingot
