#include "ladder/sort/sort.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

void check_sort(int64_t n, const std::function<uint32_t()>& key) {
  Buffer keys(1, n, kFixedRows), out(1, n, kFixedRows);
  keys.fill([&] { return std::bit_cast<float>(key()); });
  check_steps(Sort{.keys = keys.tensor(), .out = out.tensor()}, {.bits = true});
}
uint32_t any_bits(Random& random) {
  return static_cast<uint32_t>(random.below(1 << 16)) << 16 | static_cast<uint32_t>(random.below(1 << 16));
}

TEST(SortLadder, EveryStep) {
  Random random(1);
  for (const int64_t n : {0, 1, 31, 8191, 36001}) {
    SCOPED_TRACE(n);
    check_sort(n, [&] { return any_bits(random); });
  }
}

TEST(SortLadder, EqualKeysAndTheLargest) {
  Random random(2);
  check_sort(9001, [] { return 0x12345678u; });
  check_sort(9001, [] { return 0xffffffffu; });
  check_sort(9001, [&] { return random.below(3) == 0 ? 0xffffffffu : static_cast<uint32_t>(random.below(5)) << 24; });
  uint32_t next = 0;
  check_sort(9001, [&] { return --next; });
}

}  // namespace
}  // namespace ingot
