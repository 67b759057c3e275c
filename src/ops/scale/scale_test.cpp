#include "ops/scale/scale.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(Scale, MatchesReference) {
  for (const float factor : {0.0f, 1.0f, -0.37f, 22.627417f}) {
    check_unary([=](Tensor x, Tensor out) { return Scale{x, out, factor}; }, [](Buffer&) { return exact(); });
  }
}

}  // namespace
}  // namespace ingot
