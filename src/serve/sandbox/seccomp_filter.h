// A seccomp filter, rule by rule. The first rule that fits a call decides.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot {

#if defined(__x86_64__)
inline constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
inline constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
inline constexpr uint32_t kArch = 0;
#endif

inline constexpr uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;

class SeccompFilter {
 public:
  // `otherwise`: what becomes of a call that no rule names. Calls of another machine's numbers are refused.
  explicit SeccompFilter(uint32_t otherwise) : otherwise_(otherwise) {
    load(offsetof(seccomp_data, arch));
    jump_equal(kArch, 1, 0);
    give(kDeny);
    load(offsetof(seccomp_data, nr));
#ifdef __x86_64__
    constexpr uint32_t kX32 = 0x40000000;  // the same calls by other numbers
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
    give(kDeny);
#endif
  }

  void allow(long call) { answer(call, SECCOMP_RET_ALLOW); }
  void answer(long call, uint32_t result) {
    jump_equal(static_cast<uint32_t>(call), 0, 1);
    give(result);
  }
  // Where none of `bits` is set in the argument's lower half.
  void allow_without(long call, int argument, uint32_t bits) { allow_by_bits(call, argument, bits, 1, 0); }
  // Where one of `bits` is set.
  void allow_with(long call, int argument, uint32_t bits) { allow_by_bits(call, argument, bits, 0, 1); }
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

  // On all threads, for good. REQUIRES: no_new_privs.
  bool install() {
    give(otherwise_);
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
  void allow_by_bits(long call, int argument, uint32_t bits, uint8_t skip_if_set, uint8_t skip_if_not) {
    jump_equal(static_cast<uint32_t>(call), 0, 4);
    load(low_half(argument));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, skip_if_set, skip_if_not));
    give(SECCOMP_RET_ALLOW);
    give(kDeny);
  }
  void give(uint32_t result) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, result)); }

  const uint32_t otherwise_;
  std::vector<sock_filter> code_;
};

}  // namespace ingot
