#include "weights/rope_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "files/json.h"

namespace ingot {
namespace {

RopeKind kind_of(const std::string& name) {
  if (name == "linear") return RopeKind::kLinear;
  if (name == "dynamic") return RopeKind::kDynamic;
  if (name == "yarn") return RopeKind::kYarn;
  if (name == "llama3") return RopeKind::kLlama3;
  if (name == "longrope") return RopeKind::kLongrope;
  EXPECT_EQ(name, "default");
  return RopeKind::kDefault;
}

std::vector<float> floats(const JsonObject& object, const char* key) {
  std::vector<float> result;
  if (const JsonArray* array = find_array(object, key)) {
    for (const Json& v : *array) result.push_back(v.to_number<float>());
  }
  return result;
}

RopeSpec spec_of(const JsonObject& test) {
  const JsonObject& json = *find_object(test, "spec");
  RopeSpec spec;
  spec.kind = kind_of(get_string(test, "kind"));
  spec.theta = get_float(json, "theta", spec.theta);
  spec.head_dim = static_cast<int>(get_int(json, "head_dim"));
  spec.partial = get_float(json, "partial", 1);
  spec.factor = get_float(json, "factor", 1);
  spec.original_context = static_cast<int>(get_int(json, "original_context", 0));
  spec.max_context = static_cast<int>(get_int(json, "max_context", 2048));
  spec.beta_fast = get_float(json, "beta_fast", 32);
  spec.beta_slow = get_float(json, "beta_slow", 1);
  if (find(json, "attention_factor")) spec.attention_factor = get_float(json, "attention_factor");
  if (find(json, "mscale")) spec.mscale = get_float(json, "mscale");
  if (find(json, "mscale_all_dim")) spec.mscale_all_dim = get_float(json, "mscale_all_dim");
  spec.truncate = get_bool(json, "truncate", true);
  spec.low_freq_factor = get_float(json, "low_freq_factor", 1);
  spec.high_freq_factor = get_float(json, "high_freq_factor", 4);
  spec.short_factor = floats(json, "short_factor");
  spec.long_factor = floats(json, "long_factor");
  return spec;
}

TEST(RopeScaling, MatchesTheReferenceVectors) {
  const Json file = read_json_file(INGOT_SOURCE_DIR "/tests/data/rope/vectors.json");
  ASSERT_GE(file.as_array().size(), 28u);
  for (const Json& item : file.as_array()) {
    const JsonObject& test = item.as_object();
    const RopeSpec spec = spec_of(test);
    const int context = static_cast<int>(get_int(test, "context"));
    SCOPED_TRACE(get_string(test, "kind") + " at context " + std::to_string(context));
    const RopeFrequencies got = rope_frequencies(spec, context);
    const std::vector<float> want = floats(test, "inv_freq");
    ASSERT_EQ(got.inv_freq.size(), want.size());
    // A power and at most six float32 operations after it.
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got.inv_freq[i], want[i], 4e-7 * want[i]) << "pair " << i;
    EXPECT_FLOAT_EQ(got.magnitude, static_cast<float>(get_float(test, "magnitude")));
  }
}

RopeSpec plain() {
  RopeSpec spec;
  spec.head_dim = 64;
  spec.max_context = 2048;
  return spec;
}

TEST(RopeScaling, FrequencyFactorsDivide) {
  RopeSpec spec = plain();
  const RopeFrequencies base = rope_frequencies(spec, 100);
  for (int i = 0; i < 32; ++i) spec.freq_factors.push_back(1.0f + static_cast<float>(i));
  const RopeFrequencies divided = rope_frequencies(spec, 100);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(divided.inv_freq[i], base.inv_freq[i] / spec.freq_factors[i]);
}

TEST(RopeScaling, RotaryDimForgivesARoundedShare) {
  for (int head = 2; head <= 1024; ++head) {
    for (int rotary = 2; rotary <= head; rotary += 2) {
      RopeSpec spec;
      spec.head_dim = head;
      spec.partial = static_cast<double>(rotary) / head;
      ASSERT_EQ(spec.rotary_dim(), rotary) << "of " << head;
    }
  }
}

TEST(RopeScaling, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    RopeSpec spec = plain();
    change(spec);
    EXPECT_THROW(rope_frequencies(spec, 4096), Error);
  };
  refused([](RopeSpec& s) { s.head_dim = 0; });
  refused([](RopeSpec& s) { s.head_dim = 3; });
  refused([](RopeSpec& s) { s.partial = 1.5; });
  refused([](RopeSpec& s) { s.theta = 0; });
  refused([](RopeSpec& s) { s.theta = std::numeric_limits<double>::quiet_NaN(); });
  refused([](RopeSpec& s) { s.factor = -1; });
  refused([](RopeSpec& s) { s.freq_factors = {1, 2}; });
  refused([](RopeSpec& s) { s.freq_factors.assign(32, 0.0f); });
  refused([](RopeSpec& s) { s.kind = RopeKind::kLongrope; });
  refused([](RopeSpec& s) {
    s.kind = RopeKind::kDynamic;
    s.max_context = 0;
  });
  refused([](RopeSpec& s) {
    s.kind = RopeKind::kYarn;
    s.max_context = 0;
  });
  refused([](RopeSpec& s) {
    s.kind = RopeKind::kYarn;
    s.theta = 1;
  });
  refused([](RopeSpec& s) {
    s.kind = RopeKind::kYarn;
    s.attention_factor = std::numeric_limits<double>::infinity();
  });
  refused([](RopeSpec& s) {
    s.kind = RopeKind::kLlama3;
    s.high_freq_factor = 0;
  });
}

}  // namespace
}  // namespace ingot
