// Ends this process once the one that started it has ended: a launcher that is killed tells nobody, and its ranks would
// wait for each other and keep a port, cores and memory.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace ingot {

class LauncherWatch {
 public:
  // The process's only one; it watches until that ends. Watches nobody where the parent is not seen from here (it is in
  // another PID namespace).
  static LauncherWatch& start();

  // The files of /dev/shm that this process has mapped now will be removed as well, as the launcher would have done.
  void add_shared_memory();

  LauncherWatch(const LauncherWatch&) = delete;
  LauncherWatch& operator=(const LauncherWatch&) = delete;

 private:
  LauncherWatch() = default;
  void run(int parent);

  std::mutex mutex_;
  std::vector<std::string> files_;  // guarded by mutex_
};

}  // namespace ingot
