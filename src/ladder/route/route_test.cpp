#include "ladder/route/route.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

void check_route(int64_t n, int count, const std::function<uint32_t()>& expert) {
  SCOPED_TRACE(testing::Message() << n << " places of " << count << " experts");
  Buffer experts(1, n, kFixedRows), place(1, n, kFixedRows), first(1, count + 1, kFixedRows);
  experts.fill([&] { return std::bit_cast<float>(expert()); });
  check_steps(Route{.experts = experts.tensor(), .place = place.tensor(), .first = first.tensor(), .count = count},
              {.bits = true});
}

TEST(RouteLadder, EveryStep) {
  Random random(1);
  const auto any = [&](int count) { return [&random, count] { return static_cast<uint32_t>(random.below(count)); }; };
  for (const int64_t n : {0, 1, 31, 8191}) check_route(n, 128, any(128));
  for (const int count : {1, 256}) check_route(9001, count, any(count));
  check_route(131072, 128, any(128));
  check_route(131073, 60, any(60));
}

TEST(RouteLadder, OneExpertForAllAndExpertsWithoutPlaces) {
  check_route(9001, 128, [] { return 77u; });
  check_route(9001, 128, [] { return 127u; });
  uint32_t i = 0;
  check_route(9001, 128, [&] { return i++ % 3 * 50; });
}

}  // namespace
}  // namespace ingot
