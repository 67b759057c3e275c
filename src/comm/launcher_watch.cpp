#include "comm/launcher_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <thread>

namespace ingot {

// PR_SET_PDEATHSIG would say it too, but when the thread ends that forked this process: Open MPI starts many ranks by
// threads that end before them.
LauncherWatch& LauncherWatch::start() {
  static LauncherWatch& watch = *new LauncherWatch;  // its thread ends with the process
  const auto parent = static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0));
  if (parent >= 0) std::thread([parent] { watch.run(parent); }).detach();
  return watch;
}

void LauncherWatch::add_shared_memory() {
  const std::lock_guard lock(mutex_);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find("/dev/shm/");
    if (at != std::string::npos && !line.ends_with(" (deleted)")) files_.push_back(line.substr(at));
  }
}

void LauncherWatch::run(int parent) {
  pollfd end{.fd = parent, .events = POLLIN, .revents = 0};
  while (::ppoll(&end, 1, nullptr, nullptr) < 0 && errno == EINTR) {
  }
  if (end.revents == 0) return;
  const std::lock_guard lock(mutex_);
  for (const std::string& file : files_) ::unlink(file.c_str());
  _exit(1);  // nobody reads a line any more
}

}  // namespace ingot
