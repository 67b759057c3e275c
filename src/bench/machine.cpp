#include "bench/machine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <numeric>
#include <vector>

#include "bench/multiplier.h"
#include "matmul/cpu/kernels.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

// GOP/s of a loop of products on every thread, the best of twenty passes of 0.2 to 5 ms: five gave 125 instead of 166
// GFLOP/s once, on a machine whose host takes the cores away at times.
double measure_products(ThreadPool& pool, double (*products)(int64_t rounds)) {
  constexpr int64_t kRounds = 200'000;
  double best = 0;
  for (int pass = 0; pass < 20; ++pass) {
    std::vector<double> done(static_cast<size_t>(pool.threads()));
    const auto start = std::chrono::steady_clock::now();
    pool.run(pool.threads(), [&](int64_t i, int) { done[static_cast<size_t>(i)] = products(kRounds); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, std::accumulate(done.begin(), done.end(), 0.0) / seconds / 1e9);
  }
  return best;
}

// Of "CPU part\t: 0xd40" what follows the colon.
std::string_view value_of(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  line.remove_prefix(colon + 1);
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
  return line;
}

// An AArch64 core by the implementer and part of its MIDR, as /proc/cpuinfo prints them.
std::string part_name(std::string_view implementer, std::string_view part) {
  struct Part {
    std::string_view implementer, part, name;
  };
  static constexpr Part kParts[] = {
      {"0x41", "0xd03", "Cortex-A53"},   {"0x41", "0xd04", "Cortex-A35"},  {"0x41", "0xd05", "Cortex-A55"},
      {"0x41", "0xd07", "Cortex-A57"},   {"0x41", "0xd08", "Cortex-A72"},  {"0x41", "0xd09", "Cortex-A73"},
      {"0x41", "0xd0a", "Cortex-A75"},   {"0x41", "0xd0b", "Cortex-A76"},  {"0x41", "0xd0c", "Neoverse-N1"},
      {"0x41", "0xd0d", "Cortex-A77"},   {"0x41", "0xd40", "Neoverse-V1"}, {"0x41", "0xd41", "Cortex-A78"},
      {"0x41", "0xd42", "Cortex-A78AE"}, {"0x41", "0xd44", "Cortex-X1"},   {"0x41", "0xd46", "Cortex-A510"},
      {"0x41", "0xd47", "Cortex-A710"},  {"0x41", "0xd48", "Cortex-X2"},   {"0x41", "0xd49", "Neoverse-N2"},
      {"0x41", "0xd4d", "Cortex-A715"},  {"0x41", "0xd4e", "Cortex-X3"},   {"0x41", "0xd4f", "Neoverse-V2"},
      {"0x41", "0xd80", "Cortex-A520"},  {"0x41", "0xd81", "Cortex-A720"}, {"0x41", "0xd82", "Cortex-X4"},
      {"0x41", "0xd84", "Neoverse-V3"},  {"0x41", "0xd8e", "Neoverse-N3"}, {"0x46", "0x001", "A64FX"},
      {"0xc0", "0xac3", "Ampere-1"},     {"0xc0", "0xac4", "Ampere-1a"},
  };
  for (const Part& p : kParts) {
    if (p.implementer == implementer && p.part == part) return std::string(p.name);
  }
  return fmt::format("aarch64 part {}/{}", implementer, part);
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
#if defined(__aarch64__)
  return cpu_name_of(text, "aarch64");
#else
  return cpu_name_of(text, "unknown");
#endif
}

std::string cpu_name_of(std::string_view cpuinfo, std::string_view otherwise) {
  std::string_view model, implementer;
  std::vector<std::string> parts;
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(cpuinfo.size(), line.size() + 1));
    const std::string_view value = value_of(line);
    if (line.starts_with("model name") && model.empty()) model = value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (!line.starts_with("CPU part")) continue;
    const std::string name = part_name(implementer, value);
    if (std::ranges::find(parts, name) == parts.end()) parts.push_back(name);
  }
  if (!parts.empty()) return fmt::format("{}", fmt::join(parts, " + "));
  return std::string(model.empty() ? otherwise : model);
}

ReadSpeeds measure_reads(ThreadPool& pool) {
  constexpr int64_t kBytes = int64_t{1} << 30;  // well beyond the 300 MiB of last-level cache of large server CPUs
  constexpr int64_t kPieces = 64;
  const Memory memory = Memory::huge(kBytes);
  auto* words = reinterpret_cast<uint64_t*>(memory.data());
  constexpr int64_t kWords = kBytes / 8 / kPieces;
  pool.run(kPieces, [&](int64_t piece, int) { std::fill_n(words + piece * kWords, kWords, 1); });
  std::atomic<uint64_t> sum{0};
  const auto gbs = [&](uint64_t (*read)(const std::byte* from, int64_t bytes)) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(kPieces,
             [&](int64_t piece, int) { sum += 1 + read(memory.data() + piece * kBytes / kPieces, kBytes / kPieces); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(kBytes) / seconds / 1e9;
  };
  ReadSpeeds best;
  for (int pass = 0; pass < 5; ++pass) {  // in turn: what else runs on the machine meets both
    best.ahead_gbs = std::max(best.ahead_gbs, gbs(cpu::kernels().read_ahead));
    best.plain_gbs = std::max(best.plain_gbs, gbs(cpu::kernels().read_plain));
  }
  return sum.load() == 0 ? ReadSpeeds{} : best;
}

std::string reads_text(const ReadSpeeds& reads) {
  return fmt::format("reads {:.1f} GB/s with lines asked for ahead, {:.1f} plain", reads.ahead_gbs, reads.plain_gbs);
}

Ceilings measure_ceilings(ThreadPool& pool) {
  return {.reads = measure_reads(pool),
          .int8_gops = measure_products(pool, cpu::multiplier().int8),
          .f32_gflops = measure_products(pool, cpu::multiplier().f32),
          .bf16_gflops = measure_products(pool, cpu::multiplier().bf16)};
}

}  // namespace ingot
