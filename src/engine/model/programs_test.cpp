// Several programs of one graph: each gives its own right answers, they share packed weights, and none leaves a trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/model/programs_test_support.h"
#include "graph/traits.h"

namespace ingot {
namespace {

Model model_of(Format format, bool tied = false) {
  // Long enough for a format of blocks of 256 columns.
  Hparams hp = small_llama({.hidden = 256, .head_dim = 64, .context = 128});
  hp.tied = tied;
  return Model::random(hp, [format](const std::string&) { return format; }, {});
}

EngineConfig options_of(int threads, Kernels kernels = Kernels::kFast) {
  return {.threads = threads,
          .max_seqs = 2,
          .step_rows = 16,
          .page_rows = 16,
          .prefix_cache = false,
          .kernels = kernels,
          .short_cols = 0};
}

// What the program reads in place of each matrix.
std::vector<const PackedWeight*> panels_read_by(const Program& program) {
  std::vector<const PackedWeight*> all;
  for (const Node& node : program.nodes) {
    each_matrix(node.op, [&](const Weight&, const PackedWeight* packed) { all.push_back(packed); });
  }
  return all;
}

class Formats : public testing::TestWithParam<Format> {};

TEST_P(Formats, OneThreadBesideTwoGiveTheBitsOfOneAlone) {
  Model model = model_of(GetParam()), other = model_of(GetParam());
  LocalEngine alone(other, options_of(1));
  const Logits want = logits_of(alone, some_tokens(40, 1)), want_later = logits_of(alone, some_tokens(30, 2));

  const std::string before = text_of(model.graph);
  auto one = std::make_unique<LocalEngine>(model, options_of(1));
  const Logits first = logits_of(*one, some_tokens(40, 1));
  LocalEngine two(model, options_of(2));
  EXPECT_EQ(text_of(model.graph), before);
  EXPECT_EQ(first, want);
  // In turn: a step of one is between any two of the other.
  Logits of_one, of_two;
  submit(*one, some_tokens(30, 2), of_one);
  submit(two, some_tokens(40, 1), of_two);
  while (!one->idle() || !two.idle()) {
    if (!one->idle()) one->step();
    if (!two.idle()) two.step();
  }
  EXPECT_EQ(of_one, want_later);
  EXPECT_EQ(of_two, want);

  one.reset();
  EXPECT_EQ(logits_of(two, some_tokens(30, 2)), want_later);
  EXPECT_EQ(text_of(model.graph), before);
  LocalEngine again(model, options_of(2));
  EXPECT_EQ(logits_of(again, some_tokens(40, 1)), want);
}

INSTANTIATE_TEST_SUITE_P(Programs, Formats, testing::Values(Format::kF32, Format::kBF16, Format::kQ8_0, Format::kQ4_K),
                         [](const auto& format) { return std::string(format_name(format.param)); });

TEST(Programs, PackedWeightsAreThereOnce) {
  Model model = model_of(Format::kQ8_0);
  auto one = std::make_unique<LocalEngine>(model, options_of(1));
  const std::shared_ptr<PackedStore> store = model.graph.packed->of(0);
  const int64_t bytes = store->bytes();
  const std::vector<const PackedWeight*> panels = panels_read_by(one->device().program());
  ASSERT_FALSE(panels.empty());
  EXPECT_EQ(std::ranges::count(panels, nullptr), 0);
  EXPECT_GT(bytes, 0);

  LocalEngine two(model, options_of(2));
  EXPECT_EQ(panels_read_by(two.device().program()), panels);
  EXPECT_EQ(store->bytes(), bytes);
  one.reset();
  EXPECT_EQ(panels_read_by(two.device().program()), panels);
  // Another layout: such short rows stay in float.
  EngineConfig short_rows = options_of(1);
  short_rows.short_cols = kShortCols;
  const LocalEngine three(model, short_rows);
  EXPECT_GT(std::ranges::count(panels_read_by(three.device().program()), nullptr), 0);
  EXPECT_EQ(store->bytes(), bytes);
}

// A weight's published form may go when no program reads it. The store alone does not tell: another program may have
// packed it.
TEST(Programs, EachSaysWhatItStillReads) {
  const auto first_weight = [](const Program& program) {
    const std::byte* data = nullptr;
    for (const Node& node : program.nodes) {
      each_matrix(node.op, [&](const Weight& w, const PackedWeight*) { data = data ? data : w.data; });
    }
    return data;
  };
  const auto table_of = [](const Program& program) {
    const std::byte* data = nullptr;
    for (const Node& node : program.nodes) each_table(node.op, [&](const Weight& table) { data = table.data; });
    return data;
  };
  Model model = model_of(Format::kQ8_0, true);
  LocalEngine packed(model, options_of(2)), plain(model, options_of(1, Kernels::kRef));
  const std::byte* weight = first_weight(packed.device().program());
  EXPECT_EQ(first_weight(plain.device().program()), weight);
  EXPECT_TRUE(packed.runner().replaced(weight));
  EXPECT_FALSE(plain.runner().replaced(weight));
  EXPECT_FALSE(
      packed.runner().replaced(table_of(packed.device().program())));  // the head is packed, rows are looked up
  EXPECT_FALSE(packed.runner().replaced(nullptr));
  EXPECT_EQ(logits_of(plain, some_tokens(20, 3)).size(), 20u);
}

// The type of the cache is the program's own.
TEST(Programs, CachesOfTwoTypes) {
  Model model = model_of(Format::kF32);
  EngineConfig f32 = options_of(1), q8 = options_of(2);
  q8.kv = DType::kQ8_0;
  LocalEngine wide(model, f32), narrow(model, q8);
  EXPECT_LT(narrow.device().kv_bytes(), wide.device().kv_bytes());
  EXPECT_EQ(narrow.device().program().kv_groups[0].dtype, DType::kQ8_0);
  EXPECT_EQ(model.graph.kv_groups[0].dtype, DType::kF32);
  const Logits a = logits_of(wide, some_tokens(40, 4)), b = logits_of(narrow, some_tokens(40, 4));
  EXPECT_NE(a, b);
  EXPECT_LE(nmse_of(b, a), 1e-3);
}

}  // namespace
}  // namespace ingot
