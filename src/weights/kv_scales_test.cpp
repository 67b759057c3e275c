#include "weights/kv_scales.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "files/gguf/gguf_writer.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Gguf parsed(const GgufWriter& writer, std::string& bytes) {
  bytes = writer.header();
  return Gguf::parse(std::as_bytes(std::span(bytes)));
}

// With one of its keys changed.
struct Keys {
  std::string format = "int8";
  std::vector<uint32_t> heads = {2, 0, 1};
  std::vector<float> k = {1, 2, 3}, v = {4, 5, 6};
  std::vector<int32_t> keep = {2};

  std::optional<KvScales> read() const {
    GgufWriter writer;
    writer.set("ingot.kv.format", format);
    writer.set_array("ingot.kv.heads", std::span<const uint32_t>(heads));
    writer.set_array("ingot.kv.k_scale", std::span<const float>(k));
    writer.set_array("ingot.kv.v_scale", std::span<const float>(v));
    writer.set_array("ingot.kv.keep", std::span<const int32_t>(keep));
    std::string bytes;
    return KvScales::read(parsed(writer, bytes));
  }
};

TEST(KvScales, AreReadAsTheyWereWritten) {
  const std::optional<KvScales> read = Keys().read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->format, DType::kInt8);
  ASSERT_EQ(read->layers.size(), 3u);
  EXPECT_EQ(read->layers[0].v, (std::vector<float>{4, 5}));
  EXPECT_TRUE(read->layers[1].k.empty());
  EXPECT_EQ(read->kept(), std::vector<int>{2});
  GgufWriter writer;
  read->write(writer);
  std::string bytes;
  const std::optional<KvScales> again = KvScales::read(parsed(writer, bytes));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->format, read->format);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again->layers[i].k, read->layers[i].k);
    EXPECT_EQ(again->layers[i].v, read->layers[i].v);
    EXPECT_EQ(again->layers[i].keep, read->layers[i].keep);
  }
}

TEST(KvScales, RefuseWhatIsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(error_of([] { Keys{.k = {1, 2}}.read(); }), "");
  EXPECT_NE(error_of([] { Keys{.v = {1, 2, 3, 4}}.read(); }), "");
  EXPECT_NE(error_of([] { Keys{.heads = {4000000000u, 1}}.read(); }), "");
  EXPECT_NE(error_of([&] { Keys{.k = {1, nan, 3}}.read(); }).find("positive number"), std::string::npos);
  EXPECT_NE(error_of([] { Keys{.v = {1, 0, 3}}.read(); }).find("'ingot.kv.v_scale' is 0"), std::string::npos);
  EXPECT_NE(error_of([] { Keys{.k = {-1, 2, 3}}.read(); }), "");
  EXPECT_NE(error_of([] { Keys{.format = "q2"}.read(); }), "");
  EXPECT_NE(error_of([] { Keys{.keep = {3}}.read(); }), "");
  EXPECT_EQ(error_of([] { Keys().read(); }), "");
}

TEST(KvScales, OfKeysOrValuesAloneAreNotWritten) {
  for (const KvScales::Layer& layer : {KvScales::Layer{.k = {}, .v = {1, 2}}, KvScales::Layer{.k = {1}, .v = {}},
                                       KvScales::Layer{.k = {1, 2, 3}, .v = {1, 2}}}) {
    KvScales scales;
    scales.layers = {{.k = {1, 1}, .v = {1, 1}}, layer};
    GgufWriter writer;
    EXPECT_NE(error_of([&] { scales.write(writer); }).find("layer 1 has"), std::string::npos);
  }
}

TEST(KvScales, FitOtherCodesAndHeads) {
  KvScales scales;
  scales.format = DType::kFp8;
  scales.layers = {{.k = {2}, .v = {4}}, {.k = {1, 2}, .v = {3, 4}, .keep = true}};
  const KvScales fitted = scales.fitted(DType::kInt8, 4);
  const KvScales::Layer* first = fitted.find(0, 3);
  ASSERT_NE(first, nullptr);
  EXPECT_FLOAT_EQ(first->k[2], 2 * 448.0f / 127);
  EXPECT_NE(fitted.find(1, 2), nullptr);
  EXPECT_NE(error_of([&] { fitted.find(1, 3); }).find("3 KV heads, 2 scales"), std::string::npos);
  EXPECT_EQ(fitted.find(2, 2), nullptr);
  // A cache with scales of its own knows the layers alone.
  const KvScales own = scales.fitted(DType::kQ8_0, 4);
  EXPECT_EQ(own.find(0, 3), nullptr);
  EXPECT_TRUE(own.find(1, 3)->keep);
}

// Keys with one scale beside values with one for each head, and the other way round.
TEST(KvScales, TakeOneScaleBesideSeveral) {
  KvScales scales;
  scales.format = DType::kInt8;
  scales.layers = {{.k = {2}, .v = {3, 4}}, {.k = {5, 6}, .v = {7}}};
  const KvScales fitted = scales.fitted(DType::kInt8, 8);
  ASSERT_NE(fitted.find(0, 2), nullptr);
  EXPECT_FLOAT_EQ(fitted.find(0, 2)->k[1], 2);
  EXPECT_FLOAT_EQ(fitted.find(0, 2)->v[1], 4);
  EXPECT_FLOAT_EQ(fitted.find(1, 2)->v[1], 7);
  EXPECT_NE(error_of([&] { fitted.find(0, 3); }), "");
  GgufWriter writer;
  scales.write(writer);
  std::string bytes;
  const std::optional<KvScales> again = KvScales::read(parsed(writer, bytes));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->layers[0].k, (std::vector<float>{2, 2}));
  EXPECT_EQ(again->layers[1].v, (std::vector<float>{7, 7}));
}

TEST(KvScales, AreKnownByTheirNames) {
  for (const char* name : {"model.layers.3.self_attn.k_scale", "model.layers.3.self_attn.attn.v_scale",
                           "model.layers.3.self_attn.k_proj.k_scale", "model.layers.3.self_attn.v_proj.output_scale",
                           "model.layers.3.self_attn.kv_scale", "model.layers.3.self_attn.q_scale"}) {
    EXPECT_TRUE(is_kv_scale(name)) << name;
    EXPECT_EQ(layer_number(name), 3) << name;
  }
  EXPECT_FALSE(is_kv_scale("model.layers.3.self_attn.k_proj.weight_scale"));
  EXPECT_FALSE(is_kv_scale("model.layers.3.self_attn.k_proj.input_scale"));
  EXPECT_EQ(layer_number("model.norm"), -1);
  EXPECT_EQ(layer_number("h.12"), 12);
}

}  // namespace
}  // namespace ingot
