#include "bench/op_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "quant/format.h"

namespace ingot {
namespace {

std::set<std::string> ops_of(const OpCases& cases) {
  std::set<std::string> names;
  for (const OpCase& c : cases) names.insert(c.op);
  return names;
}

std::set<std::string> formats_of(const OpCases& cases) {
  std::set<std::string> names;
  for (const OpCase& c : cases) names.insert(c.format);
  return names;
}

TEST(BenchOps, LinearHasEveryFormatAndAttentionEveryCache) {
  std::set<std::string> all;
#define X(NAME) all.emplace(format_name(Format::k##NAME));
  INGOT_FORMATS(X)
#undef X
  EXPECT_EQ(formats_of(op_cases({"linear"})), all);
  EXPECT_EQ(formats_of(op_cases({"attention"})), (std::set<std::string>{"bf16", "f16", "f32", "fp8", "q8_0"}));
}

TEST(BenchOps, NamesSelectOperatorsAndFormats) {
  const OpCases all = op_cases({});
  EXPECT_TRUE(ops_of(all).contains("glu"));
  EXPECT_EQ(ops_of(op_cases({"rope", "glu"})), (std::set<std::string>{"glu", "rope"}));
  const OpCases q8 = op_cases({"q8_0"});
  EXPECT_EQ(ops_of(q8), (std::set<std::string>{"attention", "linear"}));
  EXPECT_EQ(formats_of(q8), std::set<std::string>{"q8_0"});
  const OpCases some = op_cases({"int4", "linear", "rope"});
  EXPECT_EQ(ops_of(some), (std::set<std::string>{"linear", "rope"}));
  EXPECT_EQ(formats_of(some), (std::set<std::string>{"", "int4"}));
  EXPECT_THROW(op_cases({"nonsense"}), Error);
  EXPECT_THROW(op_cases({"attention", "int4"}), Error);  // no cache is int4
}

// Each case counts its products against the multiplier that makes them, and the bytes of its own format.
TEST(BenchOps, CountsByFormat) {
  const auto of = [](const char* op, const char* format) { return op_cases({op, format}).front(); };
  EXPECT_EQ(of("linear", "q4_k").by, Multiplies::kInt8);
  EXPECT_EQ(of("linear", "int8").by, Multiplies::kInt8);
  EXPECT_EQ(of("linear", "bf16").by, Multiplies::kBf16);
  EXPECT_EQ(of("linear", "f32").by, Multiplies::kF32);
  EXPECT_EQ(of("attention", "f16").by, Multiplies::kF32);
  EXPECT_GT(of("linear", "q5_0").bytes, of("linear", "q4_0").bytes);
  EXPECT_GT(of("attention", "f16").bytes, of("attention", "q8_0").bytes);
}

}  // namespace
}  // namespace ingot
