#include "compress/worst_tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "files/json.h"
#include "graph/traits.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

constexpr int64_t kRows = 256;
// Half of the matrices further from the teacher's than this are others: rounding to two bits leaves a tenth or so of
// the squares, a rotation or another model twice as much as there was.
constexpr double kOther = 0.5;

// A matrix, the label of the node that reads it, and the how many-th of that label it is.
struct Matrix {
  std::string label;
  int nth = 0;
  const Weight* weight = nullptr;

  std::pair<std::string_view, int> place() const { return {label, nth}; }
};

// In the order of the graph.
std::vector<Matrix> matrices(const Graph& graph) {
  std::vector<Matrix> all;
  std::map<std::string_view, int> met;
  for (const Node& node : graph.nodes) {
    const auto add = [&](const Weight& weight) { all.push_back({node.label, met[node.label]++, &weight}); };
    each_table(node.op, add);
    each_matrix(node.op, [&](const Weight& weight, const PackedWeight*) { add(weight); });
  }
  return all;
}

// Sums of squares over some rows, as if over all.
struct Squares {
  double difference = 0, teacher = 0;
};

struct Pair {
  const Weight *teacher, *model;
  Squares squares = {};
};

Squares compare(const Weight& teacher, const Weight& model) {
  const int64_t rows = teacher.rows, taken = std::min(rows, kRows);
  std::vector<float> was(static_cast<size_t>(teacher.cols)), is(was.size());
  Squares sums;
  for (int64_t i = 0; i < taken; ++i) {
    const int64_t row = (2 * i + 1) * rows / (2 * taken);  // each the middle of its share
    teacher.decode_row(row, was.data());
    model.decode_row(row, is.data());
    for (size_t k = 0; k < was.size(); ++k) {
      const double w = static_cast<double>(was[k]), off = static_cast<double>(is[k]) - w;
      sums.difference += off * off;
      sums.teacher += w * w;
    }
  }
  const double share = static_cast<double>(rows) / static_cast<double>(taken);
  return {sums.difference * share, sums.teacher * share};
}

// By the labels; what is left where these differ (Mixtral is a Llama in GGUF files, which have other names of its
// experts) in its order, where both have as many.
std::vector<Pair> pairs_of(const Model& teacher, const Model& model, int64_t& alone) {
  const std::vector<Matrix> were = matrices(teacher.graph), are = matrices(model.graph);
  std::map<std::pair<std::string_view, int>, const Weight*> left;
  for (const Matrix& was : were) left[was.place()] = was.weight;
  std::vector<Pair> pairs;
  std::vector<const Weight*> rest, others;
  for (const Matrix& is : are) {
    const auto found = left.find(is.place());
    if (found == left.end()) {
      rest.push_back(is.weight);
    } else {
      pairs.push_back({found->second, is.weight});
      left.erase(found);
    }
  }
  for (const Matrix& was : were)
    if (left.contains(was.place())) others.push_back(was.weight);
  if (others.size() != rest.size()) {
    alone += static_cast<int64_t>(rest.size());
  } else {
    for (size_t i = 0; i < rest.size(); ++i) pairs.push_back({others[i], rest[i]});
  }
  alone += static_cast<int64_t>(std::erase_if(
      pairs, [](const Pair& p) { return p.teacher->rows != p.model->rows || p.teacher->cols != p.model->cols; }));
  std::set<std::pair<const std::byte*, const std::byte*>> met;  // a tied head is the embedding
  std::erase_if(pairs, [&](const Pair& p) { return !met.insert({p.teacher->data, p.model->data}).second; });
  return pairs;
}

double bits_of(const Weight& weight) {
  double bits = 8 * static_cast<double>(weight.row_bytes) / static_cast<double>(weight.cols);
  if (weight.scale != nullptr) {
    const int64_t down = (weight.rows + weight.scale_rows - 1) / weight.scale_rows;
    const int64_t across = (weight.cols + weight.scale_cols - 1) / weight.scale_cols;
    bits += 32 * static_cast<double>(down * across) / static_cast<double>(weight.rows * weight.cols);
  }
  return bits;
}

std::optional<double> error_of(const Squares& s) {
  const double error = s.difference / s.teacher;
  if (s.teacher == 0 && s.difference == 0) return 0;
  if (s.teacher == 0) return std::nullopt;  // of nothing there is no share
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

// Of each tensor by its name, the largest error first.
std::vector<TensorError> errors_of(const std::vector<Pair>& pairs) {
  std::map<std::string, std::pair<const Weight*, Squares>> tensors;
  for (const Pair& pair : pairs) {
    auto& [weight, sums] = tensors[pair.model->name];
    weight = pair.model;
    sums.difference += pair.squares.difference;
    sums.teacher += pair.squares.teacher;
  }
  std::vector<TensorError> errors;
  for (const auto& [name, tensor] : tensors) {
    const auto& [weight, sums] = tensor;
    const std::optional<double> error = error_of(sums);
    if (error) errors.push_back({.name = name, .format = weight->format, .bits = bits_of(*weight), .error = *error});
  }
  std::ranges::sort(errors, [](const TensorError& a, const TensorError& b) {
    return a.error != b.error ? a.error > b.error : a.name < b.name;
  });
  return errors;
}

// The method by which `ingot quantize` made the files; empty: they do not say.
std::string method_of(const ModelFiles& files) {
  constexpr const char* kKey = "ingot.quantize.recipe";
  try {
    std::string recipe;
    if (files.is_gguf()) {
      recipe = files.gguf->get_string(kKey, "");
    } else if (const JsonObject* own = find_object(files.config, "ingot_quantize")) {
      recipe = get_string(*own, "recipe", "");
    }
    if (recipe.empty()) return "";
    const Json parsed = parse_json(recipe, kKey);
    return get_string(as_object(parsed, kKey), "method", "");
  } catch (const Error&) {
    return "";  // another tool's: what runs is not refused for a note
  }
}

}  // namespace

ModelOptions tensor_error_options() { return {.fuse_off = {"all"}}; }

WorstTensors worst_tensors(const Model& teacher, const Model& model, ThreadPool& pool, size_t most) {
  WorstTensors result;
  const std::string method = method_of(*model.files);
  if (method == "awq" || method == "smooth" || method == "rotate") {
    result.skipped = fmt::format("made with --method {}, which changes weights on purpose", method);
    return result;
  }
  std::vector<Pair> pairs = pairs_of(teacher, model, result.alone);
  pool.run(static_cast<int64_t>(pairs.size()), [&](int64_t i, int) {
    Pair& pair = pairs[static_cast<size_t>(i)];
    pair.squares = compare(*pair.teacher, *pair.model);
  });
  teacher.files->give_back_pages();
  model.files->give_back_pages();
  result.tensors = errors_of(pairs);
  result.compared = static_cast<int64_t>(result.tensors.size());
  if (result.tensors.empty()) {
    result.skipped = "no matrix has the place and the shape of one of the teacher's";
    return result;
  }
  if (result.tensors[result.tensors.size() / 2].error > kOther) {
    result.skipped = fmt::format(
        "half of its matrices differ from the teacher's by {:.2f} of their squares or more: "
        "it was not rounded from them as they are",
        result.tensors[result.tensors.size() / 2].error);
    result.tensors.clear();
    return result;
  }
  std::erase_if(result.tensors, [](const TensorError& t) { return t.error == 0; });
  if (result.tensors.size() > most) result.tensors.resize(most);
  return result;
}

}  // namespace ingot
