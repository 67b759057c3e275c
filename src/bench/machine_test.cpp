#include "bench/machine.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(CpuName, OfAarch64IsItsPart) {
  const char* neoverse =
      "processor\t: 0\nBogoMIPS\t: 2100.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n"
      "CPU part\t: 0xd40\nCPU revision\t: 1\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
  EXPECT_EQ(cpu_name_of(neoverse, "aarch64"), "Neoverse-V1");
  // Some kernels add a model's name that names no model.
  const char* two =
      "model name\t: ARMv8 Processor rev 0 (v8l)\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
      "CPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b";
  EXPECT_EQ(cpu_name_of(two, "aarch64"), "Cortex-A55 + Cortex-A76");
  EXPECT_EQ(cpu_name_of("CPU implementer\t: 0x61\nCPU part\t: 0x022\n", "aarch64"), "aarch64 part 0x61/0x022");
}

TEST(CpuName, OfOthersIsTheModels) {
  EXPECT_EQ(cpu_name_of("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: x\nmodel name\t: y\n", "unknown"),
            "Some CPU @ 2 GHz");
  EXPECT_EQ(cpu_name_of("processor\t: 0\nCPU architecture: 8\nmodel name\n", "unknown"), "unknown");
  EXPECT_EQ(cpu_name_of("", "aarch64"), "aarch64");
  EXPECT_FALSE(cpu_name().empty());
}

TEST(Reads, AreNamedBothAndTheHigherCounts) {
  EXPECT_EQ(reads_text({.ahead_gbs = 80.12, .plain_gbs = 55.6}),
            "reads 80.1 GB/s with lines asked for ahead, 55.6 plain");
  EXPECT_EQ((ReadSpeeds{.ahead_gbs = 80, .plain_gbs = 56}.most_gbs()), 80);
  EXPECT_EQ((ReadSpeeds{.ahead_gbs = 20, .plain_gbs = 21}.most_gbs()), 21);
}

}  // namespace
}  // namespace ingot
