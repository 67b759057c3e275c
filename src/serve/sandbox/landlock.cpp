#include "serve/sandbox/landlock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace ingot {

namespace {

// Of the first version, that every kernel with Landlock has.
constexpr uint64_t kWrites = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                             LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                             LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

class Descriptor {
 public:
  explicit Descriptor(long fd) : fd_(static_cast<int>(fd)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::string problem() { return fmt::format("landlock: {}", std::strerror(errno)); }

}  // namespace

std::string write_only_beneath(const std::vector<std::string>& folders) {
  landlock_ruleset_attr rules{};
  rules.handled_access_fs = kWrites;
  const Descriptor set(syscall(SYS_landlock_create_ruleset, &rules, sizeof rules.handled_access_fs, 0));
  if (set.get() < 0) return problem();
  for (const std::string& folder : folders) {
    const Descriptor beneath(::open(folder.c_str(), O_PATH | O_CLOEXEC));
    if (beneath.get() < 0) continue;
    landlock_path_beneath_attr rule{};
    rule.allowed_access = kWrites;
    rule.parent_fd = beneath.get();
    if (syscall(SYS_landlock_add_rule, set.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) return problem();
  }
  if (syscall(SYS_landlock_restrict_self, set.get(), 0) != 0) return problem();
  return {};
}

}  // namespace ingot
