#include "ops/activation/activation.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr ActivationKind kKinds[] = {ActivationKind::kNone, ActivationKind::kSilu, ActivationKind::kGelu,
                                     ActivationKind::kGeluTanh, ActivationKind::kRelu};

TEST(Activation, MatchesReference) {
  for (const ActivationKind kind : kKinds) {
    SCOPED_TRACE(activation_name(kind));
    check_unary(
        [=](Tensor x, Tensor out) {
          return Activation{x, out, kind};
        },
        // 1 + erf and 1 + tanh cancel for negative x: what is left of them is off by a few roundings of 1.
        [](Buffer& x) -> Tolerance {
          return [&x](int64_t r, int64_t c, double want) {
            return 4 * kEps * std::fabs(static_cast<double>(x.at(r, c))) + 6 * kEps * std::fabs(want);
          };
        });
  }
}

TEST(Activation, KnownValues) {
  Buffer x(1, 4), out(1, 4);
  const float values[] = {0.0f, 1.0f, -1.0f, 100.0f};
  const float want[][4] = {{0, 1, -1, 100},
                           {0, 0.73105858f, -0.26894142f, 100},
                           {0, 0.84134475f, -0.15865525f, 100},
                           {0, 0.84119199f, -0.15880801f, 100},
                           {0, 1, 0, 100}};
  for (int64_t i = 0; i < 4; ++i) x.at(0, i) = values[i];
  for (size_t k = 0; k < std::size(kKinds); ++k) {
    run_ref(Activation{x.tensor(), out.tensor(), kKinds[k]}, rows_batch(1));
    for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(out.at(0, i), want[k][i], 1e-7) << activation_name(kKinds[k]) << i;
    run_cpu(Activation{x.tensor(), out.tensor(), kKinds[k]}, rows_batch(1));
    for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(out.at(0, i), want[k][i], 4e-7) << activation_name(kKinds[k]) << i;
  }
}

TEST(Activation, ExtremesStayFinite) {
  for (const ActivationKind kind : kKinds) {
    Buffer x(1, 3), out(1, 3);
    const float values[] = {-1e4f, 1e4f, -1e-30f};
    for (int64_t i = 0; i < 3; ++i) x.at(0, i) = values[i];
    run_cpu(Activation{x.tensor(), out.tensor(), kind}, rows_batch(1));
    for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(out.at(0, i))) << activation_name(kind) << values[i];
    EXPECT_EQ(out.at(0, 1), 1e4f) << activation_name(kind);
  }
}

}  // namespace
}  // namespace ingot
