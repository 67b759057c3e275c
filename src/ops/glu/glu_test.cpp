#include "ops/glu/glu.h"

#include "ops/activation/activation.h"
#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr ActivationKind kKinds[] = {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh,
                                     ActivationKind::kRelu, ActivationKind::kSigmoid};

TEST(Glu, MatchesReference) {
  for (const ActivationKind kind : kKinds) {
    SCOPED_TRACE(activation_name(kind));
    check_binary(
        [=](Tensor gate, Tensor up, Tensor out) {
          return Glu{gate, up, out, kind};
        },
        [](Buffer& gate, Buffer& up) -> Tolerance {
          return [&](int64_t r, int64_t c, double want) {
            const double product = static_cast<double>(gate.at(r, c)) * up.at(r, c);
            return 4 * kEps * std::fabs(product) + 8 * kEps * std::fabs(want);
          };
        });
  }
}

TEST(Glu, ClampedSwiglu) {
  check_binary(
      [=](Tensor gate, Tensor up, Tensor out) {
        return Glu{gate, up, out, ActivationKind::kClampedSwiglu};
      },
      [](Buffer&, Buffer&) { return relative(16, 1e-6); });
  Buffer gate(1, 3), up(1, 3), out(1, 3);
  const float gates[] = {100, -3, 2}, ups[] = {100, -100, 0.5f};
  for (int64_t c = 0; c < 3; ++c) gate.at(0, c) = gates[c], up.at(0, c) = ups[c];
  run_cpu(Glu{gate.tensor(), up.tensor(), out.tensor(), ActivationKind::kClampedSwiglu}, rows_batch(1));
  EXPECT_NEAR(out.at(0, 0), 7 / (1 + std::exp(-1.702 * 7)) * 8, 1e-4);
  EXPECT_NEAR(out.at(0, 1), -3 / (1 + std::exp(1.702 * 3)) * -6, 1e-5);
  EXPECT_NEAR(out.at(0, 2), 2 / (1 + std::exp(-1.702 * 2)) * 1.5, 1e-5);
}

TEST(Glu, OneGateForAllColumnsOfARow) {
  Random random(2);
  Buffer gate(5, 1), up(5, 70), out(5, 70);
  gate.fill_outliers(random);
  up.fill_outliers(random);
  const Glu op{gate.tensor(), up.tensor(), out.tensor(), ActivationKind::kSigmoid};
  expect_cpu_matches_ref(op, rows_batch(5), {&out}, relative(8, 1e-30));
}

TEST(Glu, IsActivationThenProduct) {
  Random random(1);
  Buffer gate(3, 777), up(3, 777), out(3, 777), activated(3, 777);
  gate.fill_outliers(random);
  up.fill_outliers(random);
  for (const ActivationKind kind : kKinds) {
    run_cpu(Glu{gate.tensor(), up.tensor(), out.tensor(), kind}, rows_batch(3));
    run_cpu(Activation{gate.tensor(), activated.tensor(), kind}, rows_batch(3));
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 777; ++c) ASSERT_EQ(out.at(r, c), activated.at(r, c) * up.at(r, c));
  }
}

}  // namespace
}  // namespace ingot
