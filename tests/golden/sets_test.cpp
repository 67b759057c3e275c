// Which set of kernels the goldens of this process run on. tools/run_tests.py runs all of them once for each set that
// the CPU has (INGOT_ISA), and asks this test for the names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "matmul/cpu/kernels.h"

namespace ingot {
namespace {

TEST(Sets, TheOneAskedForRuns) {
  const std::span<const cpu::Kernels* const> all = cpu::available_kernels();
  ASSERT_FALSE(all.empty());
  for (const cpu::Kernels* set : all) fmt::print("set {}\n", set->name);
  const char* wanted = std::getenv("INGOT_ISA");
  const std::string_view name = wanted == nullptr || *wanted == '\0' ? all.front()->name : wanted;
  EXPECT_EQ(cpu::kernels().name, name);
  EXPECT_EQ(std::ranges::count(all, name, [](const cpu::Kernels* set) { return std::string_view(set->name); }), 1);
}

}  // namespace
}  // namespace ingot
