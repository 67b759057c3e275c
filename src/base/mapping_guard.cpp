#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace ingot {
namespace {

// The handler may use nothing but plain atomics: a fixed table, no lock. 4,096 files are more than any model has parts;
// mappings beyond them are simply not guarded.
struct Range {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
};
std::array<Range, 4096> ranges;
std::atomic<bool> damaged{false};
uintptr_t page_size = 0;

bool guarded(uintptr_t address) {
  for (const Range& range : ranges) {
    const uintptr_t begin = range.begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin && address < range.end.load(std::memory_order_acquire)) return true;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (guarded(address)) {
    damaged.store(true, std::memory_order_relaxed);
    void* page = reinterpret_cast<void*>(address / page_size * page_size);
    if (mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) return;
  }
  // Not ours: the read is repeated without a handler and ends the process as it would have.
  ::signal(signal, SIG_DFL);
}

void install() {
  page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void guard_mapping(const void* begin, size_t bytes) {
  static std::once_flag once;
  std::call_once(once, install);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  // The last page of a file is mapped whole.
  const uintptr_t end = (address + bytes + page_size - 1) / page_size * page_size;
  for (Range& range : ranges) {
    uintptr_t free = 0;
    // Reserved by a begin that no address reaches, until the end is written.
    if (!range.begin.compare_exchange_strong(free, UINTPTR_MAX)) continue;
    range.end.store(end, std::memory_order_release);
    range.begin.store(address, std::memory_order_release);
    return;
  }
}

void unguard_mapping(const void* begin) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  for (Range& range : ranges) {
    if (range.begin.load(std::memory_order_acquire) == address) {
      range.begin.store(0, std::memory_order_release);
      return;
    }
  }
}

bool mapping_damaged() { return damaged.load(std::memory_order_relaxed); }

}  // namespace ingot
