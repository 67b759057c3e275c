#include "weights/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "files/gguf/gguf_writer.h"
#include "weights/model_files.h"
#include "weights/names.h"

namespace ingot {
namespace {

// Weights in memory: what a test says is stored.
class MemorySource : public WeightSource {
 public:
  explicit MemorySource(bool permuted = false) : permuted_(permuted) {}

  template <class T>
  void add(const std::string& name, Format format, std::vector<int64_t> shape, const std::vector<T>& values) {
    auto& bytes = memory_.emplace_back(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    weights_.push_back({name, format, std::move(shape), bytes.data()});
  }
  const StoredWeight* find(const std::string& name, const std::vector<int64_t>&) override {
    for (const StoredWeight& w : weights_) {
      if (w.name == name) return &w;
    }
    return nullptr;
  }
  bool has(const std::string& name) const override {
    return const_cast<MemorySource*>(this)->find(name, {}) != nullptr;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const StoredWeight& w : weights_) all.push_back(w.name);
    return all;
  }
  bool permuted_qk() const override { return permuted_; }

 private:
  const bool permuted_;
  std::vector<StoredWeight> weights_;
  std::vector<std::vector<std::byte>> memory_;
};

std::vector<float> iota(size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
  return v;
}

std::vector<float> values(const Weight& w) {
  std::vector<float> all(static_cast<size_t>(w.rows * w.cols));
  for (int64_t r = 0; r < w.rows; ++r) w.decode_row(r, all.data() + r * w.cols);
  return all;
}

// Two experts of 2 rows for gate and up, 3 columns, in each form: the same matrices.
TEST(Weights, ExpertsInEveryForm) {
  const auto gate0 = std::vector<float>{0, 1, 2, 3, 4, 5}, gate1 = std::vector<float>{12, 13, 14, 15, 16, 17};
  const auto up0 = std::vector<float>{6, 7, 8, 9, 10, 11}, up1 = std::vector<float>{18, 19, 20, 21, 22, 23};
  const auto join = [](std::initializer_list<std::vector<float>> parts) {
    std::vector<float> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const auto check = [&](std::unique_ptr<MemorySource> source, const ExpertForm& form) {
    Weights weights(std::move(source));
    const std::vector<Weight> gate = weights.experts("m", ExpertPart::kGate, 2, 2, 3, form);
    const std::vector<Weight> up = weights.experts("m", ExpertPart::kUp, 2, 2, 3, form);
    ASSERT_EQ(gate.size(), 2u);
    EXPECT_EQ(values(gate[0]), gate0);
    EXPECT_EQ(values(gate[1]), gate1);
    EXPECT_EQ(values(up[0]), up0);
    EXPECT_EQ(values(up[1]), up1);
    weights.finish();
  };
  auto each = std::make_unique<MemorySource>();
  each->add("m.0.w1.weight", Format::kF32, {2, 3}, gate0);
  each->add("m.1.w1.weight", Format::kF32, {2, 3}, gate1);
  each->add("m.0.w3.weight", Format::kF32, {2, 3}, up0);
  each->add("m.1.w3.weight", Format::kF32, {2, 3}, up1);
  check(std::move(each), {});
  auto stacked = std::make_unique<MemorySource>();
  stacked->add("m.gate_proj.weight", Format::kF32, {2, 2, 3}, join({gate0, gate1}));
  stacked->add("m.up_proj.weight", Format::kF32, {2, 2, 3}, join({up0, up1}));
  check(std::move(stacked), {});
  auto joined = std::make_unique<MemorySource>();
  joined->add("m.gate_up_proj", Format::kF32, {2, 4, 3}, join({gate0, up0, gate1, up1}));
  check(std::move(joined), {});
  auto turned = std::make_unique<MemorySource>();
  turned->add("m.gate_up_proj", Format::kF32, {2, 3, 4},
              std::vector<float>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, 12, 15, 18, 21, 13, 16, 19, 22, 14, 17, 20, 23});
  check(std::move(turned), {.transposed = true});
  auto in_turn = std::make_unique<MemorySource>();
  in_turn->add(
      "m.gate_up_proj", Format::kF32, {2, 3, 4},
      std::vector<float>{0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11, 12, 18, 15, 21, 13, 19, 16, 22, 14, 20, 17, 23});
  check(std::move(in_turn), {.transposed = true, .interleaved = true});
}

TEST(Weights, ExpertsThatAreMissingOrOfAnotherShape) {
  const auto message = [](std::unique_ptr<MemorySource> source) {
    Weights weights(std::move(source));
    try {
      weights.experts("m", ExpertPart::kDown, 2, 2, 3);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto one = std::make_unique<MemorySource>();
  one->add("m.0.down_proj.weight", Format::kF32, {2, 3}, iota(6));
  EXPECT_EQ(message(std::move(one)), "[weights] 'm.1.down_proj.weight' [2, 3] is missing");
  auto other = std::make_unique<MemorySource>();
  other->add("m.down_proj.weight", Format::kF32, {3, 2, 3}, iota(18));
  EXPECT_EQ(message(std::move(other)), "[weights] 'm.down_proj.weight' is [3, 2, 3], expected [2, 2, 3]");
  EXPECT_EQ(message(std::make_unique<MemorySource>()), "[weights] 'm.down_proj.weight' [2, 2, 3] is missing");
}

TEST(Weights, ExpertBiasesInTurn) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.gate_up_proj_bias", Format::kF32, {2, 4}, iota(8));
  source->add("m.down_proj_bias", Format::kF32, {2, 3}, iota(6));
  Weights weights(std::move(source));
  const ExpertForm form{.transposed = true, .interleaved = true};
  EXPECT_EQ(values(weights.expert_bias("m", ExpertPart::kGate, 2, 2, form)), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(values(weights.expert_bias("m", ExpertPart::kUp, 2, 2, form)), (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(values(weights.expert_bias("m", ExpertPart::kDown, 2, 3, form)), iota(6));
  weights.finish();
}

TEST(Weights, TakesWhatIsThereAndNamesWhatIsNot) {
  auto source = std::make_unique<MemorySource>();
  source->add("a.weight", Format::kF32, {2, 3}, iota(6));
  source->add("b.weight", Format::kF32, {4}, iota(4));
  Weights weights(std::move(source));
  EXPECT_EQ(values(weights.take("a.weight", 2, 3)), iota(6));
  EXPECT_THROW(weights.take("a.weight", 3, 2), Error);
  EXPECT_THROW(weights.take("c.weight", 1, 1), Error);
  try {
    weights.finish();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'b.weight'"), std::string::npos) << error.what();
  }
  EXPECT_EQ(values(weights.vector("b.weight", 4, 1)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_NO_THROW(weights.finish());
  EXPECT_EQ(weights.taken_bytes(), (6 + 4) * 4);
}

TEST(Weights, SlicesRowsOfAFusedMatrix) {
  auto source = std::make_unique<MemorySource>();
  source->add("qkv.weight", Format::kF32, {4, 2}, iota(8));
  Weights weights(std::move(source));
  const Weight middle = weights.take("qkv.weight", 2, 2, {.row_begin = 1, .stored_rows = 4});
  EXPECT_EQ(values(middle), (std::vector<float>{2, 3, 4, 5}));
}

TEST(Weights, TurnsTransposedMatrices) {
  auto source = std::make_unique<MemorySource>();
  source->add("w.weight", Format::kF32, {2, 3}, iota(6));  // stored [K, N]
  Weights weights(std::move(source));
  EXPECT_EQ(values(weights.take("w.weight", 3, 2, {.transposed = true})), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Weights, TurnsMatricesOfManyTiles) {
  auto source = std::make_unique<MemorySource>();
  source->add("w.weight", Format::kF32, {45, 70}, iota(45 * 70));
  Weights weights(std::move(source));
  std::vector<float> expected;
  for (int n = 0; n < 70; ++n) {
    for (int k = 0; k < 45; ++k) expected.push_back(static_cast<float>(k * 70 + n));
  }
  EXPECT_EQ(values(weights.take("w.weight", 70, 45, {.transposed = true})), expected);
}

// Stored pairs (i, j) of each head become halves (j, i).
TEST(Weights, UndoesTheOrderOfInterleavedRotation) {
  auto source = std::make_unique<MemorySource>(true);
  source->add("q.weight", Format::kF32, {8, 1}, iota(8));
  source->add("q.bias", Format::kF32, {8}, iota(8));
  Weights weights(std::move(source));
  const std::vector<float> expected = {0, 2, 1, 3, 4, 6, 5, 7};  // two heads of four rows
  EXPECT_EQ(values(weights.take("q.weight", 8, 1, {.heads = 2})), expected);
  EXPECT_EQ(values(weights.vector("q.bias", 8, 0, {.heads = 2})), expected);
}

TEST(Weights, EightBitFloatsWithScales) {
  const std::vector<uint8_t> ones(6 * 4, 0x38);  // 1.0 in e4m3
  auto source = std::make_unique<MemorySource>();
  source->add("blocks.weight", Format::kF8_E4M3, {6, 4}, ones);
  source->add("blocks.weight_scale_inv", Format::kF32, {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  source->add("tensor.weight", Format::kF8_E4M3, {6, 4}, ones);
  source->add("tensor.weight_scale", Format::kF32, {}, std::vector<float>{0.5f});
  source->add("tensor.input_scale", Format::kF32, {}, std::vector<float>{9});
  source->add("rows.weight", Format::kF8_E4M3, {6, 4}, ones);
  source->add("rows.weight_scale", Format::kF32, {6, 1}, iota(6));
  Weights weights(std::move(source));
  const std::vector<float> blocks = values(weights.take("blocks.weight", 6, 4));
  EXPECT_EQ(std::vector<float>(blocks.begin(), blocks.begin() + 4), (std::vector<float>{1, 1, 2, 2}));
  EXPECT_EQ(std::vector<float>(blocks.end() - 4, blocks.end()), (std::vector<float>{5, 5, 6, 6}));
  EXPECT_EQ(values(weights.take("tensor.weight", 6, 4)), std::vector<float>(24, 0.5f));
  const std::vector<float> rows = values(weights.take("rows.weight", 6, 4));
  for (size_t r = 0; r < 6; ++r) EXPECT_EQ(rows[r * 4], static_cast<float>(r));
  EXPECT_NO_THROW(weights.finish());
}

TEST(Weights, ScalesThatDoNotDivideAreRefused) {
  auto source = std::make_unique<MemorySource>();
  source->add("w.weight", Format::kF8_E4M3, {2, 4}, std::vector<uint8_t>(8, 0x38));
  source->add("w.weight_scale_inv", Format::kF32, {3, 2}, iota(6));
  Weights weights(std::move(source));
  EXPECT_THROW(weights.take("w.weight", 2, 4), Error);
}

TEST(Weights, RandomWeightsAreTheSameEachTime) {
  const auto choice = [](const std::string&) { return Format::kQ4_0; };
  RandomSource a(choice), b(choice);
  const StoredWeight* x = a.find("w.weight", {4, 64});
  b.find("other.weight", {2, 32});
  const StoredWeight* y = b.find("w.weight", {4, 64});
  ASSERT_EQ(x->format, Format::kQ4_0);
  EXPECT_EQ(std::memcmp(x->data, y->data, 4 * 2 * 18), 0);
  EXPECT_EQ(a.find("odd.weight", {4, 33})->format, Format::kF32);
  EXPECT_EQ(a.find("w.weight", {4, 64}), x);
}

// A rank's rows have the values that they have beside all others.
TEST(Weights, RandomRowsThatAreAskedForAreThoseOfTheWhole) {
  for (const Format format : {Format::kQ4_0, Format::kBF16}) {
    const auto choice = [&](const std::string&) { return format; };
    RandomSource whole(choice), asked(choice, RandomFill::kAsked);
    const int64_t bytes = format_row_bytes(format, 64);
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{300, 64}, {5, 96, 64}, {4, 200, 64}}) {
      const std::string name = "w" + std::to_string(shape[0]) + ".weight";
      const StoredWeight *x = whole.find(name, shape), *y = asked.find(name, shape);
      for (const auto& [first, n] : {std::pair{70, 150}, {10, 20}, {230, 69}}) {
        asked.fill_rows(y->data + first * bytes, n * bytes);
        EXPECT_EQ(std::memcmp(x->data + first * bytes, y->data + first * bytes, static_cast<size_t>(n * bytes)), 0)
            << name << " " << first;
      }
      EXPECT_EQ(std::count(y->data, y->data + bytes, std::byte{0}), bytes);  // nobody asked
    }
    EXPECT_EQ(std::memcmp(whole.find("norm.weight", {64})->data, asked.find("norm.weight", {64})->data, 256), 0);
  }
}

// No kernel that reads another expert's weights may go unnoticed.
TEST(Weights, RandomExpertsDiffer) {
  for (const Format format : {Format::kQ4_0, Format::kBF16}) {
    RandomSource source([&](const std::string&) { return format; });
    const StoredWeight* w = source.find("experts.weight", {5, 96, 64});
    const auto bytes = static_cast<size_t>(96 * format_row_bytes(format, 64));
    for (size_t a = 0; a < 5; ++a)
      for (size_t b = 0; b < a; ++b) EXPECT_NE(std::memcmp(w->data + a * bytes, w->data + b * bytes, bytes), 0);
  }
}

TEST(Names, GgufAndBack) {
  const ArchNames plain;
  const ArchNames phi{.gguf_layer = {{"ffn_up", "mlp.gate_up_proj"}}};
  EXPECT_EQ(canonical_from_gguf("blk.12.attn_q.weight", plain), "model.layers.12.self_attn.q_proj.weight");
  EXPECT_EQ(canonical_from_gguf("token_embd.weight", plain), "model.embed_tokens.weight");
  EXPECT_EQ(canonical_from_gguf("blk.0.ffn_up.weight", phi), "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(canonical_from_gguf("blk.0.nonsense.weight", plain), "");
  EXPECT_EQ(canonical_from_gguf("blk.x.attn_q.weight", plain), "");
  EXPECT_EQ(canonical_from_gguf("blk.", plain), "");
  EXPECT_EQ(gguf_from_canonical("model.layers.3.mlp.gate_up_proj.weight", phi), "blk.3.ffn_up.weight");
  EXPECT_EQ(gguf_from_canonical("lm_head.weight", plain), "output.weight");
  EXPECT_THROW(gguf_from_canonical("model.layers.3.unknown.weight", plain), Error);
}

TEST(Names, Patterns) {
  EXPECT_TRUE(name_matches("h.0.attn.bias", "*.attn.bias"));
  EXPECT_FALSE(name_matches("h.0.attn.c_attn.bias", "*.attn.bias"));
  EXPECT_TRUE(name_matches("abc", "*"));
  EXPECT_TRUE(name_matches("aXbXc", "a*b*c"));
  EXPECT_FALSE(name_matches("aXbX", "a*b*c"));
  EXPECT_TRUE(name_matches("", "*"));
}

// Two heads of 2 rows for keys and 1 for values, over a latent of 3.
TEST(Weights, UpProjectionOfALatent) {
  auto source = std::make_unique<MemorySource>();
  source->add("a.kv_b_proj.weight", Format::kF32, {6, 3}, iota(18));
  Weights weights(std::move(source));
  const UpProjection up = weights.up_projection("a", 2, 2, 1, 3);
  EXPECT_EQ(values(up.key), (std::vector<float>{0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14}));
  EXPECT_EQ(up.key.rows, 6);
  EXPECT_EQ(values(up.value), (std::vector<float>{6, 7, 8, 15, 16, 17}));
  weights.finish();
  EXPECT_THROW(weights.up_projection("b", 2, 2, 1, 3), Error);
  EXPECT_THROW(weights.up_projection("a", 2, 1, 1, 3), Error);
}

TEST(Weights, UpProjectionInTwoTensorsOfHeads) {
  auto source = std::make_unique<MemorySource>();
  source->add("a.k_b_proj.weight", Format::kF32, {2, 3, 2}, iota(12));
  source->add("a.v_b_proj.weight", Format::kF32, {2, 1, 3}, iota(6));
  Weights weights(std::move(source));
  const UpProjection up = weights.up_projection("a", 2, 2, 1, 3);
  EXPECT_EQ(values(up.key), iota(12));
  EXPECT_EQ(values(up.value), iota(6));
  weights.finish();
  EXPECT_THROW(weights.up_projection("a", 2, 2, 2, 3), Error);
}

// Scales of blocks go with the rows of their head, and turn with them.
TEST(Weights, UpProjectionWithScales) {
  const std::vector<uint8_t> codes(2 * 8 * 4, 0x38);  // 1 in e4m3
  const auto take = [&](std::vector<int64_t> shape, const std::vector<float>& scales, int64_t nope) {
    auto source = std::make_unique<MemorySource>();
    source->add("a.kv_b_proj.weight", Format::kF8_E4M3, {16, 4}, codes);
    source->add("a.kv_b_proj.weight_scale_inv", Format::kF32, std::move(shape), scales);
    Weights weights(std::move(source));
    const UpProjection up = weights.up_projection("a", 2, nope, 8 - nope, 4);
    return std::pair(values(up.key), values(up.value));
  };
  // Blocks of 4 × 2: a head has two of keys and two of values.
  const auto [key, value] = take({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, 4);
  for (size_t i = 0; i < key.size(); ++i) EXPECT_EQ(key[i], static_cast<float>(i / 16 * 4 + 1 + i / 8 % 2)) << i;
  for (size_t i = 0; i < value.size(); ++i) EXPECT_EQ(value[i], static_cast<float>(i / 16 * 4 + 3 + i / 2 % 2)) << i;
  // One for all.
  const auto [one_key, one_value] = take({1}, {3}, 4);
  for (const float x : one_key) EXPECT_EQ(x, 3);
  for (const float x : one_value) EXPECT_EQ(x, 3);
  // A block that a head's keys and values share: rows 2 and 3 of a head have the scales of its keys.
  const auto [cut_key, cut_value] = take({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, 2);
  for (size_t i = 0; i < cut_key.size(); ++i) EXPECT_EQ(cut_key[i], static_cast<float>(i / 8 * 4 + 1 + i / 4 % 2)) << i;
  for (size_t i = 0; i < cut_value.size(); ++i) {
    const size_t head = i / 24, row = i % 24 / 4 + 2;
    EXPECT_EQ(cut_value[i], static_cast<float>(head * 4 + row / 4 * 2 + 1 + i / 2 % 2)) << i;
  }
}

// Two experts of 8-bit floats in one tensor, with scales for an expert, for blocks of 2 × 2, and for each row.
TEST(Weights, StacksOfExpertsWithScales) {
  const auto take = [](std::vector<int64_t> shape, const std::vector<float>& scales, const ExpertForm& form,
                       ExpertPart part) {
    auto source = std::make_unique<MemorySource>();
    source->add("x.gate_up_proj", Format::kF8_E4M3, {2, 4, 4}, std::vector<uint8_t>(32, 0x38));  // 1 in e4m3
    source->add("x.gate_up_proj_scale_inv", Format::kF32, std::move(shape), scales);
    Weights weights(std::move(source));
    std::vector<float> all;
    for (const Weight& weight : weights.experts("x", part, 2, 2, 4, form))
      for (const float v : values(weight)) all.push_back(v);
    weights.finish();
    return all;
  };
  using V = std::vector<float>;
  EXPECT_EQ(take({2}, {3, 5}, {}, ExpertPart::kUp), (V{3, 3, 3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 5}));
  const V blocks = iota(8);  // of expert 0: 0 1 / 2 3
  EXPECT_EQ(take({2, 2, 2}, blocks, {}, ExpertPart::kGate), (V{0, 0, 1, 1, 0, 0, 1, 1, 4, 4, 5, 5, 4, 4, 5, 5}));
  EXPECT_EQ(take({2, 2, 2}, blocks, {}, ExpertPart::kUp), (V{2, 2, 3, 3, 2, 2, 3, 3, 6, 6, 7, 7, 6, 6, 7, 7}));
  // Turned around: the first of a pair of scales is of gate, the second of up.
  EXPECT_EQ(take({2, 2, 2}, blocks, {.transposed = true}, ExpertPart::kUp),
            (V{1, 1, 3, 3, 1, 1, 3, 3, 5, 5, 7, 7, 5, 5, 7, 7}));
  EXPECT_EQ(take({2, 2, 2}, blocks, {.interleaved = true}, ExpertPart::kUp),
            (V{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
  EXPECT_EQ(take({2, 4, 1}, iota(8), {.interleaved = true}, ExpertPart::kUp),
            (V{1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7}));
  EXPECT_THROW(take({2, 3, 2}, iota(12), {}, ExpertPart::kUp), Error);
  EXPECT_THROW(take({3}, iota(3), {}, ExpertPart::kUp), Error);
}

// A matrix of ones in a GGUF file with a scale beside it, as Weights has its second row; or why it has none.
std::string scaled_in_gguf(Format format, const std::vector<float>& scale, std::vector<float>& row) {
  constexpr int64_t kCols = 64;
  row.assign(kCols, 1.0f);
  std::vector<std::byte> data;
  for (int64_t n = 0; n < 2; ++n) {
    data.resize(data.size() + static_cast<size_t>(format_row_bytes(format, kCols)));
    format_encode(format, row.data(), data.data() + n * format_row_bytes(format, kCols), kCols);
  }
  GgufWriter writer;
  writer.add_tensor("blk.0.ffn_up.weight", {kCols, 2}, *gguf_type(format), data);
  const auto size = static_cast<int64_t>(scale.size());
  writer.add_tensor("blk.0.ffn_up.scale", {size}, *gguf_type(Format::kF32), std::as_bytes(std::span(scale)));
  writer.add_tensor("blk.0.ffn_up.input_scale", {size}, *gguf_type(Format::kF32), std::as_bytes(std::span(scale)));
  const std::vector<std::byte> bytes = writer.bytes();
  ModelFiles files;
  files.gguf = std::make_unique<Gguf>(Gguf::parse(bytes));
  try {
    Weights weights(open_source(files, ArchNames{}));
    const Weight weight = weights.take("model.layers.0.mlp.up_proj.weight", 2, kCols);
    weight.decode_row(1, row.data());
    weights.finish();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Weights, ScaleOfATensorInGguf) {
  std::vector<float> row;
  EXPECT_EQ(scaled_in_gguf(Format::kNVFP4, {0.375f}, row), "");
  EXPECT_EQ(row, std::vector<float>(64, 0.375f));
  EXPECT_EQ(scaled_in_gguf(Format::kBF16, {0.375f}, row), "");
  EXPECT_EQ(row, std::vector<float>(64, 0.375f));
  EXPECT_NE(scaled_in_gguf(Format::kQ8_0, {0.375f}, row).find("1 scales for a matrix in q8_0"), std::string::npos);
  EXPECT_NE(scaled_in_gguf(Format::kNVFP4, {1, 2}, row).find("2 scales for a matrix in nvfp4"), std::string::npos);
  for (const float wrong : {0.0f, -1.0f, NAN, INFINITY})
    EXPECT_NE(scaled_in_gguf(Format::kNVFP4, {wrong}, row).find("a scale is"), std::string::npos) << wrong;
}

}  // namespace
}  // namespace ingot
