#include "compress/gptq.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/sha256.h"
#include "compress/encoded_layer.h"
#include "compress/hidden_file.h"
#include "compress/layer_runner.h"
#include "compress/plan.h"
#include "quant/gram.h"

namespace ingot {
namespace {

std::string key_of(const GptqSetup& setup, const Model& model) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(setup.text.tokens)));
  const std::string facts = fmt::format("{} {} {} {} {} {} {} {}", setup.recipe, setup.model,
                                        source_state(*model.files), setup.text.chunk_rows, setup.options.damping,
                                        setup.options.of_mean, setup.options.in_order, setup.head);
  hash.update(std::as_bytes(std::span(facts)));
  return hex(hash.finish());
}

// The model, with as many tokens of text as its widest matrix has columns; those of experts are met by fewer rows
// anyway.
Model load(const GptqSetup& setup) {
  Model model = Model::load(setup.model, layer_options(static_cast<int>(setup.text.chunk_rows)));
  const auto tokens = static_cast<int64_t>(setup.text.tokens.size());
  const Linear* widest = nullptr;
  for (size_t n = 0; n < model.graph.head_begin; ++n)
    if (const auto* linear = match<Linear>(model.graph.nodes[n]))
      if (widest == nullptr || linear->x.cols > widest->x.cols) widest = linear;
  if (widest != nullptr && tokens < widest->x.cols)
    throw Error("[gptq] the text has {} tokens, and '{}' {} columns: as many tokens are needed", tokens,
                widest->parts[0].weight.name, widest->x.cols);
  return model;
}

// AtomicFile's temporary files of runs that were killed meanwhile.
void sweep(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string begin = file.filename().string() + ".";
  int problem = 0;
  for (const std::string& name : names_in(file.parent_path().empty() ? "." : file.parent_path().string(), problem)) {
    if (!name.starts_with(begin) || !name.ends_with(".tmp") || name.size() < begin.size() + 5) continue;
    const std::string_view process = std::string_view(name).substr(begin.size(), name.size() - begin.size() - 4);
    if (process.find_first_not_of("0123456789") == std::string_view::npos)
      std::filesystem::remove(file.parent_path() / name);
  }
}

class Gptq : public Rounder {
 public:
  explicit Gptq(GptqSetup setup)
      : setup_(std::move(setup)),
        model_(load(setup_)),
        pool_(setup_.threads),
        runner_(model_, static_cast<int>(setup_.text.chunk_rows), pool_),
        states_(setup_.state, key_of(setup_, model_), setup_.text.chunks(), setup_.text.chunk_rows, runner_.width()),
        hidden_(static_cast<size_t>(setup_.text.chunk_rows * runner_.width())) {
    sweep(kept_layer());
    for (int64_t c = states_.next_chunk(); states_.layer() < 0; ++c) {
      runner_.embed(setup_.text.chunk(c), hidden_.data());
      states_.advance(hidden_.data(), pool_);
    }
  }

  // A layer that was not passed yet is run with what round() makes of it.
  bool again(int layer) const override { return layer >= 0 && states_.layer() == layer && states_.next_chunk() == 0; }

  void prepare(int layer) override {
    forget();
    encoded_.clear();
    part_of_.clear();
    matrix_part_.clear();
    part_ = 0;
    parts_ = 1;
    if (layer < 0 && setup_.head) prepare_head();
    // What went on to the next layer, or is going, was rounded by an earlier run.
    if (layer < 0 || states_.layer() != layer) return;
    if (states_.next_chunk() > 0) {
      encoded_.load(kept_layer());
      return;
    }
    runner_.open(layer);
    cut_into_parts();
    prepare_part(layer);
  }

  bool prepare_next(int layer) override {
    if (part_ + 1 >= parts_) return false;
    ++part_;
    forget();
    runner_.open(layer);
    prepare_part(layer);
    return true;
  }

  bool due(std::string_view tensor, int expert) const override {
    const auto known = matrix_part_.find(std::pair(std::string(tensor), expert));
    return known == matrix_part_.end() || known->second <= part_;
  }

  void finish(int layer, const EncodedLookup&) override {
    forget();
    if (layer < 0) {
      states_.remove();
      std::filesystem::remove(kept_layer());  // of a run that was killed before it could
    }
    // What the last layer gives only the head asks for.
    if (layer < 0 || states_.layer() != layer || (layer + 1 == runner_.layers() && !setup_.head)) return;
    if (states_.next_chunk() == 0) encoded_.save(kept_layer());
    runner_.open(layer, [this](const std::string& tensor, int expert) { return encoded(tensor, expert); });
    for (int64_t c = states_.next_chunk(); states_.layer() == layer; ++c) {
      states_.load(c, hidden_.data(), pool_);
      runner_.run(setup_.text.chunk_rows, hidden_.data());
      states_.advance(hidden_.data(), pool_);
      report(layer, 1 + static_cast<double>(c + 1) / static_cast<double>(states_.chunks()));
    }
    std::filesystem::remove(kept_layer());
  }

  void round(const TensorJob& job, std::span<std::byte> out) const override {
    if (job.layer >= 0 && !(states_.layer() == job.layer && states_.next_chunk() == 0))
      throw Error("[gptq] '{}' is of a run that came further than layer {}: remove it", setup_.state, job.layer);
    const auto known = known_.find(std::pair(std::string(job.name), job.expert));
    const Input* input = known == known_.end() ? nullptr : &inputs_[known->second];
    TensorJob first = job;
    if (input != nullptr) first.importance = input->squares.data();
    nearest_->round(first, out);
    if (input == nullptr || input->squares_alone || format_block(job.format) == 1) return;
    gptq_round(input->feedback, job.format, job.values, job.rows, job.cols, out, job.segment());
    if (job.layer >= 0) encoded_.add(job, out);
  }

 private:
  struct Input {
    Feedback feedback;
    std::vector<float> squares;  // [cols] means
    bool squares_alone = false;
  };

  // The codes of the layer that is being passed.
  std::string kept_layer() const { return setup_.state + ".layer"; }

  EncodedMatrix encoded(const std::string& tensor, int expert) const {
    const EncodedLayer::Matrix* matrix = encoded_.find(tensor, expert);
    if (matrix == nullptr) return {};
    EncodedMatrix result{.format = matrix->format, .rows = matrix->rows, .cols = matrix->cols, .bytes = matrix->bytes};
    if (setup_.gguf_order && model_.arch->names.gguf_permuted_qk) {
      if (tensor.ends_with(".q_proj.weight")) result.head_rows = matrix->rows / model_.hp.heads;
      if (tensor.ends_with(".k_proj.weight")) result.head_rows = matrix->rows / model_.hp.kv_heads;
    }
    return result;
  }

  void forget() {
    known_.clear();
    inputs_.clear();
  }

  // Which inputs are met in one pass over the text: as many as the memory is for.
  void cut_into_parts() {
    int64_t widest = 0, bytes = 0;
    for (const LayerInput& input : runner_.inputs()) widest = std::max(widest, input.cols);
    const int64_t most = std::max(setup_.pass_bytes, 12 * widest * widest);
    for (const LayerInput& input : runner_.inputs()) {
      const int64_t own = 4 * input.cols * input.cols;
      if (bytes > 0 && bytes + own > most) ++parts_, bytes = 0;
      bytes += own;
      part_of_.push_back(parts_ - 1);
      for (const MatrixName& matrix : input.matrices) matrix_part_[{matrix.tensor, matrix.expert}] = parts_ - 1;
    }
  }

  void prepare_part(int layer) {
    std::vector<std::unique_ptr<Gram>> grams(runner_.inputs().size());
    const InputTap tap = [&](size_t input, const float* x, int64_t rows, int64_t stride) {
      if (part_of_[input] != part_) return;
      if (grams[input] == nullptr) grams[input] = std::make_unique<Gram>(runner_.inputs()[input].cols);
      grams[input]->add(x, rows, stride, pool_);
    };
    for (int64_t c = 0; c < states_.chunks(); ++c) {
      states_.load(c, hidden_.data(), pool_);
      runner_.read_inputs(setup_.text.chunk_rows, hidden_.data(), tap);
      report(layer, (part_ + static_cast<double>(c + 1) / static_cast<double>(states_.chunks())) / parts_);
    }
    runner_.close();
    for (size_t i = 0; i < grams.size(); ++i)
      if (part_of_[i] == part_) keep(runner_.inputs()[i], std::exchange(grams[i], nullptr));
  }

  void prepare_head() {
    runner_.open_head();
    const LayerInput input = runner_.inputs().at(0);
    auto gram = std::make_unique<Gram>(input.cols);
    for (int64_t c = 0; c < states_.chunks(); ++c) {
      states_.load(c, hidden_.data(), pool_);
      runner_.read_head_inputs(
          setup_.text.chunk_rows, hidden_.data(),
          [&](size_t, const float* x, int64_t rows, int64_t stride) { gram->add(x, rows, stride, pool_); });
    }
    runner_.close();
    // Rows of an embedding are looked up, too: errors of some columns for others' sake would be errors there.
    const bool tied = input.matrices[0].tensor.find("embed") != std::string::npos;
    keep(input, std::move(gram), tied);
  }

  // Factors what is known of an input, and gives back the memory of the sums.
  void keep(const LayerInput& input, std::unique_ptr<Gram> gram, bool squares_alone = false) {
    if (setup_.counted) setup_.counted(input, gram == nullptr ? 0 : gram->rows());
    if (gram == nullptr) return;  // an expert that no row met: plain rounding
    const int64_t rows = gram->rows(), cols = gram->cols();
    Input kept;
    for (int64_t k = 0; k < cols; ++k) kept.squares.push_back(gram->square(k) / static_cast<float>(rows));
    kept.squares_alone = squares_alone;
    if (!squares_alone) kept.feedback = make_feedback(gram->take(), cols, setup_.options, pool_);
    for (const MatrixName& matrix : input.matrices)
      known_.emplace(std::pair(matrix.tensor, matrix.expert), inputs_.size());
    inputs_.push_back(std::move(kept));
  }

  // `passes` of the layer's two are done.
  void report(int layer, double passes) const {
    if (setup_.progress) setup_.progress((2.0 * layer + passes) / (2.0 * runner_.layers()));
  }

  const GptqSetup setup_;
  const Model model_;
  ThreadPool pool_;
  LayerRunner runner_;
  HiddenFile states_;
  std::vector<float> hidden_;
  const std::unique_ptr<Rounder> nearest_ = nearest_rounder();
  std::vector<int> part_of_;                                // of each input of the layer
  std::map<std::pair<std::string, int>, int> matrix_part_;  // the same by the matrices that read it
  int part_ = 0, parts_ = 1;
  std::map<std::pair<std::string, int>, size_t> known_;  // into inputs_, of this part
  std::vector<Input> inputs_;
  mutable EncodedLayer encoded_;  // of this layer, so far
};

}  // namespace

std::unique_ptr<Rounder> gptq_rounder(GptqSetup setup) { return std::make_unique<Gptq>(std::move(setup)); }

}  // namespace ingot
