#include "ops/add/add.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(Add, MatchesReference) {
  check_binary([](Tensor a, Tensor b, Tensor out) { return Add{a, b, out}; }, [](Buffer&, Buffer&) { return exact(); });
}

}  // namespace
}  // namespace ingot
