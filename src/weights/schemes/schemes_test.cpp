// Modules as other tools store them, made by hand: which format they become, the values, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <optional>

#include "base/error.h"
#include "files/json.h"
#include "quant/fields.h"
#include "weights/schemes/scheme.h"
#include "weights/weights.h"

namespace ingot {
namespace {

class StoredParts : public WeightSource {
 public:
  template <class T>
  StoredParts& add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
                   const std::vector<T>& values) {
    auto& bytes = memory_.emplace_back(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const std::optional<Format> format = format_by_name(dtype);
    StoredWeight weight;
    weight.name = name;
    weight.shape = std::move(shape);
    weight.data = bytes.data();
    weight.bytes = !format;
    weight.dtype = dtype;
    if (format) weight.format = *format;
    weights_[name] = weight;
    return *this;
  }
  const StoredWeight* find(const std::string& name, const std::vector<int64_t>&) override {
    const auto it = weights_.find(name);
    return it == weights_.end() ? nullptr : &it->second;
  }
  bool has(const std::string& name) const override { return weights_.contains(name); }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, weight] : weights_) all.push_back(name);
    return all;
  }

 private:
  std::map<std::string, StoredWeight> weights_;
  std::list<std::vector<std::byte>> memory_;
};

struct Gptq {
  int bits = 4;
  int64_t rows = 8, cols = 256, group = 128;
  bool symmetric = true, act_order = false;
  float scale = 0.25f;

  int64_t groups() const { return cols / group; }
  uint32_t code(int64_t n, int64_t k) const { return static_cast<uint32_t>(n * 7 + k * 3) & ((1u << bits) - 1); }
  uint32_t zero(int64_t n, int64_t g) const {
    return symmetric ? 1u << (bits - 1) : static_cast<uint32_t>(n + 2 * g) % 15 + 1;
  }
  float scale_of(int64_t n, int64_t g) const { return scale * static_cast<float>(1 + (n + g) % 3); }
  int64_t group_of(int64_t k) const { return act_order ? k % groups() : k / group; }

  std::unique_ptr<StoredParts> source() const {
    const int64_t each = 32 / bits;
    std::vector<uint32_t> codes(static_cast<size_t>(cols / each * rows)),
        zeros(static_cast<size_t>(groups() * rows / each));
    std::vector<float> scales(static_cast<size_t>(groups() * rows));
    std::vector<int32_t> g_idx(static_cast<size_t>(cols));
    for (int64_t k = 0; k < cols; ++k) {
      g_idx[static_cast<size_t>(k)] = static_cast<int32_t>(group_of(k));
      for (int64_t n = 0; n < rows; ++n)
        codes[static_cast<size_t>(k / each * rows + n)] |= code(n, k) << k % each * bits;
    }
    for (int64_t g = 0; g < groups(); ++g) {
      for (int64_t n = 0; n < rows; ++n) {
        zeros[static_cast<size_t>((g * rows + n) / each)] |= (zero(n, g) - 1) << n % each * bits;
        scales[static_cast<size_t>(g * rows + n)] = scale_of(n, g);
      }
    }
    auto source = std::make_unique<StoredParts>();
    source->add("m.qweight", "I32", {cols / each, rows}, codes)
        .add("m.qzeros", "I32", {groups(), rows / each}, zeros)
        .add("m.scales", "F32", {groups(), rows}, scales)
        .add("m.g_idx", "I32", {cols}, g_idx);
    return source;
  }
};

JsonObject settings(const std::string& method) {
  JsonObject result;
  result["quant_method"] = method;
  return result;
}

Weight take(std::unique_ptr<Weights>& weights, std::unique_ptr<StoredParts> parts, int64_t rows, int64_t cols,
            const std::string& method = "gptq") {
  weights = std::make_unique<Weights>(with_schemes(std::move(parts), settings(method)));
  Weight weight = weights->take("m.weight", rows, cols);
  weights->finish();
  return weight;
}

std::string refusal(std::unique_ptr<StoredParts> parts, int64_t rows, int64_t cols,
                    const std::string& method = "gptq") {
  std::unique_ptr<Weights> weights;
  try {
    take(weights, std::move(parts), rows, cols, method);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_values(const Gptq& gptq, Format format, float near = 0) {
  SCOPED_TRACE(format_name(format));
  std::unique_ptr<Weights> weights;
  const Weight weight = take(weights, gptq.source(), gptq.rows, gptq.cols);
  ASSERT_EQ(format_name(weight.format), format_name(format));
  std::vector<float> row(static_cast<size_t>(gptq.cols));
  for (int64_t n = 0; n < gptq.rows; ++n) {
    weight.decode_row(n, row.data());
    for (int64_t k = 0; k < gptq.cols; ++k) {
      const int64_t g = gptq.group_of(k);
      const float code = static_cast<float>(gptq.code(n, k)) - static_cast<float>(gptq.zero(n, g));
      ASSERT_NEAR(row[static_cast<size_t>(k)], gptq.scale_of(n, g) * code, near) << n << ", " << k;
    }
  }
}

TEST(Schemes, GroupsBecomeTheFormatThatHoldsThem) {
  expect_values({}, Format::kINT4);
  expect_values({.group = 256}, Format::kINT4);
  expect_values({.group = 64}, Format::kQ4_0);
  expect_values({.group = 32}, Format::kQ4_0);
  expect_values({.symmetric = false}, Format::kINT4_ASYM);
  expect_values({.group = 64, .symmetric = false}, Format::kQ5_0);
  expect_values({.group = 32, .symmetric = false}, Format::kQ5_0);
  expect_values({.bits = 8}, Format::kQ8_0);
  expect_values({.bits = 8, .group = 256}, Format::kINT8);
}

TEST(Schemes, WhatNoFormatHoldsIsKeptAsFloats) {
  expect_values({.act_order = true}, Format::kF16);              // powers of two: nothing to round
  expect_values({.scale = 1 / 3.0f}, Format::kF16, 4e-3f);       // not exact in f16
  expect_values({.group = 16}, Format::kF16);                    // less than a block of ours
  expect_values({.scale = 0x1p-30f}, Format::kF32);              // below f16
  expect_values({.bits = 8, .symmetric = false}, Format::kF16);  // nine bits
  expect_values({.cols = 264, .group = 264}, Format::kF16);      // no whole number of blocks
}

TEST(Schemes, DamagedModulesAreRefusedByName) {
  const Gptq gptq;
  const auto with = [&](const std::function<void(StoredParts&)>& change) {
    auto source = gptq.source();
    change(*source);
    return refusal(std::move(source), gptq.rows, gptq.cols);
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' has no '" << part << "'";
  };
  EXPECT_EQ(with([](StoredParts&) {}), "");
  has(with([](StoredParts& s) {
        s.add("m.qweight", "I32", {31, 8}, std::vector<int32_t>(31 * 8));
      }),
      "256 columns, not 248");
  has(with([](StoredParts& s) { s.add("m.qweight", "F32", {32, 8}, std::vector<float>(32 * 8)); }), "m.qweight");
  has(with([](StoredParts& s) { s.add("m.qzeros", "I32", {2, 3}, std::vector<int32_t>(6)); }), "neither 4 nor 8");
  has(with([](StoredParts& s) { s.add("m.qzeros", "I32", {2}, std::vector<int32_t>(2)); }), "dimensions");
  has(with([](StoredParts& s) { s.add("m.scales", "F32", {1, 8}, std::vector<float>(8)); }), "8 scales");
  has(with([](StoredParts& s) { s.add("m.scales", "F32", {2, 8}, std::vector<float>(16, NAN)); }), "not finite");
  has(with([](StoredParts& s) { s.add("m.g_idx", "I32", {256}, std::vector<int32_t>(256, 2)); }), "group 2 of 2");
  has(with([](StoredParts& s) { s.add("m.g_idx", "I32", {256}, std::vector<int32_t>(256, -1)); }), "group -1");
  has(with([](StoredParts& s) { s.add("m.g_idx", "I32", {8}, std::vector<int32_t>(8)); }), "8 columns");
  has(with([](StoredParts& s) { s.add("other.table", "I32", {8}, std::vector<int32_t>(8)); }), "not supported");
  has(refusal(gptq.source(), 8, 128), "expected [8, 128]");

  StoredParts none;
  none.add("m.qweight", "I32", {32, 8}, std::vector<int32_t>(32 * 8));
  has(refusal(std::make_unique<StoredParts>(std::move(none)), 8, 256), "'m.qzeros' is missing");
}

constexpr uint8_t kNvfp4Scales[] = {0x38, 0x40, 0x01, 0x00, 0x7e, 0x38, 0x38, 0x38};

// Codes 1, 2, 15 … by column.
uint8_t nvfp4_code(int64_t k) { return static_cast<uint8_t>(k * 7 + 1) & 15; }

std::unique_ptr<StoredParts> nvfp4(float global, int64_t cols = 64) {
  auto source = std::make_unique<StoredParts>();
  std::vector<uint8_t> codes;
  for (int64_t k = 0; k < cols; k += 2) codes.push_back(static_cast<uint8_t>(nvfp4_code(k) | nvfp4_code(k + 1) << 4));
  source->add("m.weight_packed", "U8", {1, cols / 2}, codes)
      .add("m.weight_scale", "F8_E4M3", {1, cols / 16}, std::vector<uint8_t>(kNvfp4Scales, kNvfp4Scales + cols / 16));
  if (global != 0) source->add("m.weight_global_scale", "F32", {1}, std::vector<float>{global});
  return source;
}

void expect_nvfp4(int64_t cols, Format format) {
  SCOPED_TRACE(cols);
  std::unique_ptr<Weights> weights;
  const Weight weight = take(weights, nvfp4(4, cols), 1, cols, "compressed-tensors");
  EXPECT_EQ(format_name(weight.format), format_name(format));
  std::vector<float> row(static_cast<size_t>(cols));
  weight.decode_row(0, row.data());
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  constexpr float kScales[] = {1, 2, 0x1p-9f, 0, 448, 1, 1, 1};
  for (int64_t k = 0; k < cols; ++k)  // the tensor's scale divides
    EXPECT_EQ(row[static_cast<size_t>(k)], kValues[nvfp4_code(k)] * kScales[k / 16] / 4.0f) << k;
}

TEST(Schemes, Nvfp4KeepsItsCodes) {
  expect_nvfp4(64, Format::kNVFP4);
  expect_nvfp4(128, Format::kNVFP4);
  expect_nvfp4(96, Format::kBF16);  // no whole number of blocks
}

TEST(Schemes, DamagedNvfp4IsRefusedByName) {
  EXPECT_NE(refusal(nvfp4(0), 1, 64).find("weight_global_scale' is missing"), std::string::npos);
  for (const float global : {-1.0f, NAN, INFINITY, 0x1p-149f}) EXPECT_NE(refusal(nvfp4(global), 1, 64), "") << global;
  EXPECT_NE(refusal(nvfp4(-1), 1, 64).find("the scale of the tensor"), std::string::npos);
  const auto with_scales = [](std::vector<uint8_t> scales) {
    auto source = nvfp4(1);
    const auto n = static_cast<int64_t>(scales.size());
    source->add("m.weight_scale", "F8_E4M3", {1, n}, scales);
    return refusal(std::move(source), 1, 64);
  };
  EXPECT_NE(with_scales({0x38, 0x38, 0x38, 0x7f}).find("not a number"), std::string::npos);
  EXPECT_NE(with_scales({0x38, 0x38, 0x38, 0xb8}).find("below zero"), std::string::npos);
  EXPECT_NE(with_scales({0x38, 0x38, 0x38}).find("is [1, 3] for [1, 64]"), std::string::npos);
  auto zero = std::make_unique<StoredParts>();
  zero->add("m.weight", "U8", {1, 32}, std::vector<uint8_t>(32))
      .add("m.weight_scale", "F8_E4M3", {1, 4}, std::vector<uint8_t>(4, 0x38))
      .add("m.weight_scale_2", "F32", {}, std::vector<float>{0});
  EXPECT_NE(refusal(std::move(zero), 1, 64, "modelopt").find("the scale of the tensor is 0"), std::string::npos);
}

TEST(Schemes, MemoryIsGivenBackWhenItIsReadElsewhere) {
  const Gptq gptq;
  std::unique_ptr<Weights> weights;
  const Weight weight = take(weights, gptq.source(), gptq.rows, gptq.cols);
  const std::byte* seen = nullptr;
  weights->release([&](const std::byte* data) {
    seen = data;
    return true;
  });
  EXPECT_EQ(seen, weight.data);
}

}  // namespace
}  // namespace ingot
