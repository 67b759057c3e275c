#include "serve/process_facts.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace ingot {

namespace {

// A moment of this program's start, close enough to the kernel's: it is taken when the program is loaded.
const double kStart = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

int64_t count_fds() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  if (!directory) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(directory.get())) count += entry->d_name[0] != '.';
  return count - 1;  // the directory's own
}

void read_memory(ProcessFacts& facts) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "re"), std::fclose);
  long long size = 0, resident = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &size, &resident) != 2) return;
  const int64_t page = sysconf(_SC_PAGESIZE);
  facts.virtual_bytes = page * size;
  facts.resident_bytes = page * resident;
}

void read_threads(ProcessFacts& facts) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/status", "re"), std::fclose);
  if (!file) return;
  char line[256];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    long long threads = 0;
    if (std::sscanf(line, "Threads: %lld", &threads) == 1) facts.threads = threads;
  }
}

}  // namespace

ProcessFacts process_facts() {
  ProcessFacts facts;
  read_memory(facts);
  read_threads(facts);
  facts.open_fds = count_fds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.max_fds = static_cast<int64_t>(limit.rlim_cur);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    facts.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  facts.start_seconds = kStart;
  return facts;
}

}  // namespace ingot
