#include "ops/glu/glu.h"

#include "ops/activation/activation.h"
#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr ActivationKind kKinds[] = {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh,
                                     ActivationKind::kRelu};

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
