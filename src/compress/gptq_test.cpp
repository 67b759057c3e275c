// Calibration and the method gptq on a small model: layer by layer, killed and begun again.
#include "compress/gptq.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "base/data_test_support.h"
#include "base/error.h"
#include "base/sha256.h"
#include "compress/encoded_layer.h"
#include "compress/layer_runner.h"
#include "compress/quantize.h"
#include "graph/run.h"
#include "weights/config.h"
#include "weights/model_files.h"
#include "weights/source.h"

namespace ingot {
namespace {

constexpr int kChunk = 64;

class Scratch {  // a folder that goes with its test
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / fmt::format("ingot_gptq_{}_{}", ::getpid(), count++)) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& file) const { return (path_ / file).string(); }

 private:
  static inline int count = 0;
  std::filesystem::path path_;
};

std::string small_model() { return test_data("models/stories260K"); }

// Tokens that follow each other by a fixed rule with some chance: far from uniform, as texts are.
CalibrationText some_text(int64_t chunks, unsigned seed) {
  std::mt19937 random(seed);
  CalibrationText text;
  text.chunk_rows = kChunk;
  text.dataset = "some text";
  text.hash = "none";
  int32_t token = 1;
  for (int64_t i = 0; i < chunks * kChunk; ++i) {
    token = random() % 3 != 0 ? (token * 7 + 13) % 450 + 3 : static_cast<int32_t>(random() % 450 + 3);
    text.tokens.push_back(i % kChunk == 0 ? 1 : token);
  }
  return text;
}

TEST(LayerRunner, GivesTheBitsOfTheWholeModel) {
  const Model model = Model::load(small_model(), layer_options(kChunk));
  const CalibrationText text = some_text(1, 1);
  Runner whole(model.graph, {.limits = {.rows = kChunk, .seqs = 1, .logits = 1, .context = kChunk, .page_rows = 64}});
  const KvStore kv(whole.program(), std::vector<int>(model.graph.kv_groups.size(), 1), 64);
  whole.bind(kv);
  Batch batch(whole.options().limits, static_cast<int>(model.graph.kv_groups.size()));
  batch.n_rows = kChunk;
  batch.n_seqs = 1;
  batch.q_start = {0, kChunk};
  batch.kv_len = {kChunk};
  for (int i = 0; i < kChunk; ++i) {
    batch.token[static_cast<size_t>(i)] = text.tokens[static_cast<size_t>(i)];
    batch.position[static_cast<size_t>(i)] = i;
    for (Batch::Group& group : batch.groups) group.slot[static_cast<size_t>(i)] = i;
  }
  for (Batch::Group& group : batch.groups) group.page_table[0] = 0;
  whole.run_body(batch);

  ThreadPool pool(2);
  LayerRunner runner(model, kChunk, pool);
  std::vector<float> hidden(static_cast<size_t>(kChunk * runner.width()));
  runner.embed(text.chunk(0), hidden.data());
  for (int layer = 0; layer < runner.layers(); ++layer) {
    const Tensor& expected = whole.output("hidden." + std::to_string(layer));
    for (int64_t r = 0; r < kChunk; ++r)
      for (int64_t k = 0; k < runner.width(); ++k)
        ASSERT_EQ(hidden[static_cast<size_t>(r * runner.width() + k)], expected.f32(r)[k]) << layer << ' ' << r;
    runner.open(layer);
    EXPECT_EQ(runner.inputs().size(), 4u);  // of q, k and v; of o; of gate and up; of down
    runner.run(kChunk, hidden.data());
  }
}

TEST(Calibrate, CountsWhatEachMatrixReads) {
  const Scratch scratch;
  const CalibrationText text = some_text(3, 2);
  const Stats one = calibrate({.model = small_model(), .scratch = scratch / "a", .threads = 1}, text);
  const Stats two = calibrate({.model = small_model(), .scratch = scratch / "a", .threads = 3}, text);
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
  ASSERT_EQ(one.tensors.size(), 5u * 7 + 1);  // and the head, which is the embedding
  const InputStats& q = one.tensors.at("blk.0.attn_q.weight");
  EXPECT_EQ(q.counts, std::vector<float>{3 * kChunk});
  EXPECT_EQ(q.squares, one.tensors.at("blk.0.attn_k.weight").squares);
  for (size_t k = 0; k < q.squares.size(); ++k) {
    EXPECT_LE(q.largest[k] * q.largest[k], q.squares[k] * 1.0001f);
    EXPECT_GE(q.largest[k] * q.largest[k] * 3 * kChunk, q.squares[k]);
  }
  for (const auto& [name, input] : one.tensors) EXPECT_EQ(input.squares, two.tensors.at(name).squares) << name;
}

TEST(Stats, AreReadAsTheyWereWrittenAndKnowTheirModel) {
  const Scratch scratch;
  Stats stats = calibrate({.model = small_model(), .scratch = scratch / "a", .threads = 2}, some_text(1, 3));
  stats.write(scratch / "stats.gguf");
  const Stats read = Stats::read(scratch / "stats.gguf");
  EXPECT_EQ(read.text_hash, "none");
  EXPECT_EQ(read.chunks, 1u);
  EXPECT_EQ(read.chunk_rows, static_cast<uint32_t>(kChunk));
  ASSERT_EQ(read.tensors.size(), stats.tensors.size());
  for (const auto& [name, input] : stats.tensors) {
    EXPECT_EQ(read.tensors.at(name).squares, input.squares);
    EXPECT_EQ(read.tensors.at(name).largest, input.largest);
  }
  const Model model = Model::load(small_model(), {});
  read.check_model(*model.files, *model.arch);
  const Importances importances = read.importances(*model.arch);
  const std::span<const float> means = importances("model.layers.2.mlp.down_proj.weight", -1);
  ASSERT_FALSE(means.empty());
  EXPECT_EQ(means[0], stats.tensors.at("blk.2.ffn_down.weight").squares[0] / kChunk);
  EXPECT_TRUE(importances("model.layers.2.mlp.none.weight", -1).empty());

  Stats other = read;
  other.model = "another";
  EXPECT_THROW(other.check_model(*model.files, *model.arch), Error);
  other.model.clear();
  other.check_model(*model.files, *model.arch);  // nothing is known against it
  for (auto& [name, input] : other.tensors) input.cols += 1;
  EXPECT_THROW(other.check_model(*model.files, *model.arch), Error);
  EXPECT_THROW(Stats::read(small_model() + "/stories260K.gguf"), Error);  // a model
}

// A layer's matrices, as the work of quantize gives them to a method.
struct Compressed {
  std::map<std::string, std::vector<std::byte>> bytes;
  std::map<std::string, EncodedMatrix> matrices;
  MatrixLookup lookup() const {
    return [this](const std::string& name, int) {
      const auto known = matrices.find(name);
      return known == matrices.end() ? EncodedMatrix{} : known->second;
    };
  }
};

void compress_layer(Rounder& method, const Model& model, int layer, Format format, Compressed& result) {
  method.prepare(layer);
  const std::string path = fmt::format("model.layers.{}.", layer);
  for (const Node& node : model.graph.nodes) {
    const auto* linear = std::get_if<Linear>(&node.op);
    if (linear == nullptr || !node.label.starts_with(path)) continue;
    const Weight& weight = linear->parts[0].weight;
    std::vector<float> values(static_cast<size_t>(weight.rows * weight.cols));
    for (int64_t r = 0; r < weight.rows; ++r) weight.decode_row(r, values.data() + r * weight.cols);
    // Columns that are no whole number of blocks stay as they are.
    const Format own = weight.cols % format_block(format) == 0 ? format : Format::kF32;
    std::vector<std::byte>& bytes = result.bytes[weight.name];
    bytes.resize(static_cast<size_t>(weight.rows * format_row_bytes(own, weight.cols)));
    const TensorJob job{
        .name = weight.name, .layer = layer, .format = own, .rows = weight.rows, .cols = weight.cols, .values = values};
    method.round(job, bytes);
    result.matrices[weight.name] = {.format = own, .rows = weight.rows, .cols = weight.cols, .bytes = bytes};
  }
  method.finish(layer, {});
}

// Root mean square of what the layers give differently for another text.
double difference(const Model& model, const Compressed& compressed) {
  const CalibrationText text = some_text(2, 99);
  ThreadPool pool(2);
  LayerRunner runner(model, kChunk, pool);
  std::vector<float> a(static_cast<size_t>(kChunk * runner.width())), b(a.size());
  double sum = 0;
  for (int64_t c = 0; c < text.chunks(); ++c) {
    runner.embed(text.chunk(c), a.data());
    b = a;
    for (int layer = 0; layer < runner.layers(); ++layer) {
      runner.open(layer);
      runner.run(kChunk, a.data());
      runner.open(layer, compressed.lookup());
      runner.run(kChunk, b.data());
    }
    for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i] - b[i]), 2);
  }
  return std::sqrt(sum);
}

TEST(Gptq, GoesOnWhereItWasKilledAndLosesLessThanRounding) {
  const Scratch scratch;
  const Model model = Model::load(small_model(), layer_options(kChunk));
  const auto setup = [&](int threads) {
    return GptqSetup{.model = small_model(), .text = some_text(8, 4), .state = scratch / "state", .threads = threads};
  };
  Compressed whole, resumed, plain;
  {
    const std::unique_ptr<Rounder> method = gptq_rounder(setup(1));
    for (int layer = 0; layer < model.hp.layers; ++layer) compress_layer(*method, model, layer, Format::kQ4_0, whole);
    EXPECT_TRUE(std::filesystem::exists(scratch / "state"));
    method->finish(-1, {});
    EXPECT_FALSE(std::filesystem::exists(scratch / "state"));
  }
  // A run that ends after two layers and while it makes the third, then the same command with other threads.
  {
    const std::unique_ptr<Rounder> method = gptq_rounder(setup(2));
    for (int layer = 0; layer < 2; ++layer) compress_layer(*method, model, layer, Format::kQ4_0, resumed);
    method->prepare(2);
  }
  const std::unique_ptr<Rounder> method = gptq_rounder(setup(7));
  for (int layer = 0; layer < 2; ++layer) {
    method->prepare(layer);
    EXPECT_FALSE(method->again(layer));
    method->finish(layer, {});
  }
  for (int layer = 2; layer < model.hp.layers; ++layer) compress_layer(*method, model, layer, Format::kQ4_0, resumed);
  EXPECT_EQ(whole.bytes, resumed.bytes);

  const std::unique_ptr<Rounder> nearest = nearest_rounder();
  for (int layer = 0; layer < model.hp.layers; ++layer) compress_layer(*nearest, model, layer, Format::kQ4_0, plain);
  EXPECT_LT(difference(model, whole), 0.8 * difference(model, plain));
}

// Experts whose XᵀX would take too much memory together are compressed in several passes: to the same bytes.
TEST(Gptq, ExpertsInSeveralPassesAreTheSame) {
  const Scratch scratch;
  const std::string model = test_data("arch/qwen3-moe");
  const auto method_of = [&](int64_t bytes) {
    return gptq_rounder(
        {.model = model, .text = some_text(4, 6), .state = scratch / "state", .threads = 2, .pass_bytes = bytes});
  };
  const auto make = [&](const std::string& out, int64_t bytes) {
    QuantizeOptions options{.model = model, .out = scratch / out, .format = "int4_g32", .method = "gptq"};
    options.threads = 2;
    quantize(options, *method_of(bytes));
    return sha256_file(options.out + "/model.safetensors");
  };
  EXPECT_EQ(make("one", int64_t{1} << 30), make("many", 0));

  const std::unique_ptr<Rounder> method = method_of(0);
  method->prepare(0);
  const char* last = "model.layers.0.mlp.experts.7.down_proj.weight";
  EXPECT_TRUE(method->due("model.layers.0.self_attn.q_proj.weight", -1));
  EXPECT_FALSE(method->due(last, -1));
  int parts = 1;
  while (method->prepare_next(0)) ++parts;
  EXPECT_TRUE(method->due(last, -1));
  EXPECT_EQ(parts, 6);  // eleven inputs of 64 columns and eight of 48: three of 64 in each, or five of 48
}

// Shows a method's work to the test: the values that round() gave.
class Shown : public Rounder {
 public:
  explicit Shown(std::unique_ptr<Rounder> method) : method_(std::move(method)) {}
  void prepare(int layer) override { method_->prepare(layer); }
  void finish(int layer, const EncodedLookup& encoded) override { method_->finish(layer, encoded); }
  bool prepare_next(int layer) override { return method_->prepare_next(layer); }
  bool due(std::string_view tensor, int expert) const override { return method_->due(tensor, expert); }
  bool again(int layer) const override { return method_->again(layer); }
  void round(const TensorJob& job, std::span<std::byte> out) const override {
    method_->round(job, out);
    std::vector<float> values(job.values.size());
    const int64_t segment = job.segment(), bytes = format_row_bytes(job.format, segment);
    for (int64_t at = 0; at < job.rows * job.cols; at += segment)
      format_decode(job.format, out.data() + at / segment * bytes, values.data() + at, segment);
    const std::lock_guard lock(mutex_);
    std::vector<float>& to = values_[std::string(job.name)];
    to.resize(std::max(to.size(), static_cast<size_t>((job.first_row + job.rows) * job.cols)));
    std::ranges::copy(values, to.begin() + job.first_row * job.cols);
  }
  const std::map<std::string, std::vector<float>>& values() const { return values_; }

 private:
  const std::unique_ptr<Rounder> method_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<float>> values_;
};

// Root mean square of what the layers of two models give differently.
double difference(const Model& one, const Model& other) {
  const CalibrationText text = some_text(2, 99);
  ThreadPool pool(2);
  LayerRunner a(one, kChunk, pool), b(other, kChunk, pool);
  std::vector<float> x(static_cast<size_t>(kChunk * a.width())), y(x.size());
  double sum = 0;
  for (int64_t c = 0; c < text.chunks(); ++c) {
    a.embed(text.chunk(c), x.data());
    b.embed(text.chunk(c), y.data());
    for (int layer = 0; layer < a.layers(); ++layer) {
      a.open(layer);
      a.run(kChunk, x.data());
      b.open(layer);
      b.run(kChunk, y.data());
    }
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i] - y[i]), 2);
  }
  return std::sqrt(sum);
}

// A directory's scales have the type of its embedding. A reader finds what was rounded to, and what the layers behind
// were compressed with.
TEST(Gptq, ReadersOfDirectoriesFindWhatItChose) {
  const Scratch scratch;
  for (const char* type : {"bf16", "f16"}) {
    QuantizeOptions plain{.model = small_model(), .out = scratch / type, .format = type};
    quantize(plain, *nearest_rounder());
    const std::string model = plain.out;
    for (const char* format : {"int8", "int4", "int4_g32", "int4_asym"}) {
      SCOPED_TRACE(fmt::format("{} {}", type, format));
      QuantizeOptions options{.model = model, .out = fmt::format("{}_{}", model, format), .format = format};
      Shown method(gptq_rounder({.model = model, .text = some_text(8, 4), .state = scratch / "state", .threads = 1}));
      quantize(options, method);
      const ModelFiles files = ModelFiles::open(options.out);
      Weights made(open_source(files, find_architecture(Config(files)).names));
      int matrices = 0;
      for (const auto& [name, values] : method.values()) {
        const StoredWeight* stored = made.source().find(name, {});
        ASSERT_NE(stored, nullptr) << name;
        const int64_t rows = stored->shape[0], cols = stored->shape.back();
        const Weight weight = made.take(name, rows, cols);
        std::vector<float> row(static_cast<size_t>(cols));
        for (int64_t r = 0; r < rows; ++r) {
          weight.decode_row(r, row.data());
          for (int64_t k = 0; k < cols; ++k)
            ASSERT_EQ(row[static_cast<size_t>(k)], values[static_cast<size_t>(r * cols + k)]) << name << ' ' << r;
        }
        ++matrices;
      }
      EXPECT_EQ(matrices, 5 * 6);  // rows of down are no multiple of 32
      QuantizeOptions rounded = options;
      rounded.out += "_rtn";
      quantize(rounded, *nearest_rounder());
      const Model whole = Model::load(model, layer_options(kChunk));
      const double got = difference(whole, Model::load(options.out, layer_options(kChunk)));
      EXPECT_LT(got, 0.8 * difference(whole, Model::load(rounded.out, layer_options(kChunk))));
    }
  }
}

// Groups that are smaller than the format's own are kept to the bit, too.
TEST(EncodedLayer, HoldsTheValuesOfSmallGroups) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr int64_t kRows = 3, kCols = 192;
  std::vector<float> values(kRows * kCols);
  for (float& v : values) v = 0.3f + normal(random);
  for (const Format format : {Format::kINT4, Format::kINT4_ASYM}) {
    for (const int64_t group : {32, 64, 0}) {
      const TensorJob job{.name = "a",
                          .format = format,
                          .first_row = 2,
                          .rows = kRows,
                          .cols = kCols,
                          .values = values,
                          .group = group};
      std::vector<std::byte> encoded(static_cast<size_t>(kRows * job.row_bytes()));
      nearest_rounder()->round(job, encoded);
      EncodedLayer layer;
      layer.add(job, encoded);
      const EncodedLayer::Matrix* matrix = layer.find("a", -1);
      ASSERT_NE(matrix, nullptr);
      ASSERT_EQ(matrix->rows, 2 + kRows);
      std::vector<float> want(static_cast<size_t>(kCols)), got(want);
      const int64_t segment = job.segment(), part = format_row_bytes(format, segment);
      const int64_t row_bytes = format_row_bytes(matrix->format, kCols);
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t k = 0; k < kCols; k += segment)
          format_decode(format, encoded.data() + r * job.row_bytes() + k / segment * part, want.data() + k, segment);
        format_decode(matrix->format, matrix->bytes.data() + (2 + r) * row_bytes, got.data(), kCols);
        EXPECT_EQ(got, want) << format_name(format) << ' ' << group;
      }
    }
  }
}

// Before anything is written or run: 64 rows for 172 columns.
TEST(Gptq, RefusesTooLittleText) {
  const Scratch scratch;
  EXPECT_THROW(
      gptq_rounder({.model = small_model(), .text = some_text(1, 5), .state = scratch / "state", .threads = 1}), Error);
  EXPECT_FALSE(std::filesystem::exists(scratch / "state"));
}

// What a run that was killed left behind: the codes of a layer that all chunks had passed, a file that was half
// written.
TEST(Gptq, TakesAwayWhatKilledRunsLeft) {
  const Scratch scratch;
  const auto touch = [](const std::string& path) { std::ofstream(path) << "left"; };
  touch(scratch / "state.layer.4321.tmp");
  touch(scratch / "state.layer.other.tmp");  // somebody else's
  const std::unique_ptr<Rounder> method =
      gptq_rounder({.model = small_model(), .text = some_text(4, 5), .state = scratch / "state", .threads = 1});
  EXPECT_FALSE(std::filesystem::exists(scratch / "state.layer.4321.tmp"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "state.layer.other.tmp"));
  touch(scratch / "state.layer");
  method->finish(-1, {});
  EXPECT_FALSE(std::filesystem::exists(scratch / "state.layer"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "state"));
}

// The states of a model are not those of the one that took its place.
TEST(Gptq, BeginsAnewWithAnotherModelOfTheSameName) {
  const Scratch scratch;
  const std::string model = scratch / "model";
  std::filesystem::copy(small_model(), model);
  const auto open = [&] {
    return gptq_rounder({.model = model, .text = some_text(4, 5), .state = scratch / "state", .threads = 1});
  };
  const Model first = Model::load(model, layer_options(kChunk));
  Compressed compressed;
  compress_layer(*open(), first, 0, Format::kQ4_0, compressed);
  EXPECT_TRUE(open()->again(1));  // the next layer's turn
  const std::string file = model + "/model.safetensors";
  std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::seconds(5));
  EXPECT_TRUE(open()->again(0));
}

// How many rows met each expert.
TEST(Gptq, CountsTheRowsOfExperts) {
  const Scratch scratch;
  Stats stats;
  GptqSetup setup{.model = test_data("arch/qwen3-moe"), .text = some_text(2, 6), .state = scratch / "state"};
  setup.counted = [&](const LayerInput& input, int64_t rows) { count_rows(input, static_cast<double>(rows), stats); };
  const int64_t tokens = 2 * kChunk;
  const std::unique_ptr<Rounder> method = gptq_rounder(std::move(setup));
  method->prepare(0);
  EXPECT_EQ(stats.tensors.at("blk.0.attn_q.weight").counts, std::vector<float>{static_cast<float>(tokens)});
  const std::vector<float>& counts = stats.tensors.at("blk.0.ffn_up_exps.weight").counts;
  ASSERT_EQ(counts.size(), 8u);
  // Three of them a row.
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0f), 3.0f * static_cast<float>(tokens));
  EXPECT_EQ(counts, stats.tensors.at("blk.0.ffn_down_exps.weight").counts);
}

TEST(Stats, NameTheExpertsThatFewRowsMet) {
  Stats stats;
  stats.tensors["blk.1.ffn_up_exps.weight"].counts = {31, 32, 0, 500};
  stats.tensors["blk.2.ffn_up_exps.weight"].counts = {32, 40};
  stats.tensors["blk.2.attn_q.weight"].counts = {3};  // of no experts
  EXPECT_EQ(stats.hardly_met(), std::vector<std::string>{"blk.1.ffn_up_exps.weight: experts 0, 2"});
  EXPECT_EQ(stats.hardly_met(1), std::vector<std::string>{"blk.1.ffn_up_exps.weight: experts 2"});
}

}  // namespace
}  // namespace ingot
