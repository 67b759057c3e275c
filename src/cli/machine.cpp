#include "cli/machine.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <numeric>
#include <vector>

#include "ops/kernels.h"
#include "ops/linear/multiplier.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

// GOP/s of a loop of products on every thread, the best of five passes of some milliseconds.
double measure_products(ThreadPool& pool, double (*products)(int64_t rounds)) {
  constexpr int64_t kRounds = 200'000;
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    std::vector<double> done(static_cast<size_t>(pool.threads()));
    const auto start = std::chrono::steady_clock::now();
    pool.run(pool.threads(), [&](int64_t i, int) { done[static_cast<size_t>(i)] = products(kRounds); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, std::accumulate(done.begin(), done.end(), 0.0) / seconds / 1e9);
  }
  return best;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
#if defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

double measure_read_gbs(ThreadPool& pool) {
  constexpr int64_t kBytes = int64_t{1} << 30;  // well beyond the 300 MiB of last-level cache of large server CPUs
  constexpr int64_t kPieces = 64;
  const Memory memory = Memory::huge(kBytes);
  auto* words = reinterpret_cast<uint64_t*>(memory.data());
  constexpr int64_t kWords = kBytes / 8 / kPieces;
  pool.run(kPieces, [&](int64_t piece, int) { std::fill_n(words + piece * kWords, kWords, 1); });
  double best = 0;
  std::atomic<uint64_t> sum{0};
  for (int pass = 0; pass < 5; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(kPieces, [&](int64_t piece, int) {
      sum += 1 + cpu::kernels().read(memory.data() + piece * kBytes / kPieces, kBytes / kPieces);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(kBytes) / seconds / 1e9);
  }
  return sum.load() == 0 ? 0 : best;
}

Ceilings measure_ceilings(ThreadPool& pool) {
  return {.read_gbs = measure_read_gbs(pool),
          .int8_gops = measure_products(pool, cpu::multiplier().int8),
          .f32_gflops = measure_products(pool, cpu::multiplier().f32),
          .bf16_gflops = measure_products(pool, cpu::multiplier().bf16)};
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace ingot
