#include "compress/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "compress/plan.h"
#include "compress/search/costs.h"
#include "compress/search/divergences.h"
#include "compress/search/knapsack.h"
#include "weights/names.h"

namespace ingot {
namespace {

// Each in the order of its bytes. Blocks of 32 are for rows that are no whole blocks of 256.
constexpr std::array kWide = {Format::kQ2_K, Format::kQ3_K, Format::kIQ4_XS, Format::kQ4_K,
                              Format::kQ5_K, Format::kQ6_K, Format::kQ8_0};
constexpr std::array kNarrow = {Format::kQ4_0, Format::kIQ4_NL, Format::kQ4_1,
                                Format::kQ5_0, Format::kQ5_1,   Format::kQ8_0};
constexpr std::array kShares = {0.0, 0.5, 1.0};
constexpr int64_t kProbeRows = 256;
constexpr int64_t kHeldOut = 4;
constexpr int64_t kScoredValues = int64_t{1} << 26;  // logits of all scored rows: 256 MiB
constexpr int kFrontPoints = 17;
// The metadata that a search adds to a file, at most.
constexpr int64_t kMetadataBytes = 4096;

struct Item {
  const ModelTensor* tensor = nullptr;
  std::vector<Format> formats;
  std::vector<int64_t> bytes;
  std::vector<double> errors;
  size_t probe = 0;  // of the formats
  CostPlace place;

  double values() const { return static_cast<double>(tensor->rows() * tensor->cols()); }
};

std::string kind_of(const ModelTensor& tensor) {
  const std::string layer = fmt::format("blk.{}.", tensor.layer);
  return tensor.name.starts_with(layer) ? tensor.name.substr(layer.size()) : tensor.name;
}

class Search {
 public:
  explicit Search(const SearchOptions& options)
      : options_(options),
        gguf_(options.quantize.model),
        pool_(options.quantize.threads),
        model_(Model::load(options.quantize.model, layer_options(static_cast<int>(options.text.chunk_rows)))),
        runner_(model_, static_cast<int>(options.text.chunk_rows), pool_),
        values_(model_, options_.quantize.importances, pool_) {}

  SearchResult run() {
    find_items();
    find_budget();
    find_errors();
    find_costs();
    choose();
    measure();
    return finish();
  }

 private:
  void find_items() {
    for (const ModelTensor& tensor : gguf_.tensors()) {
      const auto& pinned = options_.quantize.tensors;
      const bool named = std::ranges::any_of(pinned, [&](const auto& one) {
        return name_matches(tensor.name, one.first) || name_matches(tensor.canonical, one.first);
      });
      if (named || !mix_quantizes({tensor.name, tensor.shape}) || tensor.cols() % 32 != 0) continue;
      Item item{.tensor = &tensor, .formats = {}, .bytes = {}, .errors = {}, .place = {kind_of(tensor), tensor.layer}};
      if (tensor.cols() % 256 == 0)
        item.formats.assign(kWide.begin(), kWide.end());
      else
        item.formats.assign(kNarrow.begin(), kNarrow.end());
      for (const Format format : item.formats)
        item.bytes.push_back(tensor.rows() * format_row_bytes(format, tensor.cols()));
      items_.push_back(std::move(item));
    }
    if (items_.empty()) throw Error("[search] no matrix is left to choose a format for");
  }

  // A plan with all items at their smallest says what the rest of the file takes.
  void find_budget() {
    QuantizeOptions smallest = options_.quantize;
    smallest.format = "q8_0";
    int64_t least = 0;
    for (const Item& item : items_) {
      smallest.tensors.emplace_back(item.tensor->name, format_name(item.formats[0]));
      least += item.bytes[0];
    }
    const std::unique_ptr<QuantizePlan> plan = plan_gguf(smallest);
    fixed_ = plan->summary.bytes - least;
    // Names of formats differ by two letters, ends of tensors by 31 bytes.
    const auto file = static_cast<int64_t>(plan->files[0].bytes);
    const int64_t beside = file - plan->summary.bytes + kMetadataBytes + static_cast<int64_t>(items_.size()) * 34;
    const auto parameters = static_cast<double>(plan->summary.values);
    budget_ = options_.size > 0 ? options_.size - beside - fixed_
                                : static_cast<int64_t>(options_.bits * parameters / 8) - fixed_;
    if (budget_ < least) {
      const double bits = 8 * static_cast<double>(plan->summary.bytes) / parameters;
      throw Error("[search] the smallest that this model can become is {:.2f} bits a parameter, a file of {:.2f} MB",
                  std::ceil(100 * bits) / 100,
                  std::ceil(static_cast<double>(plan->summary.bytes + beside) / 1e4) / 100);
    }
    // Rounded alone, a tensor has the format that most will have.
    double searched = 0;
    for (const Item& item : items_) searched += item.values();
    const double bits = 8 * static_cast<double>(budget_) / searched;
    for (Item& item : items_) {
      for (size_t f = 0; f < item.formats.size(); ++f)
        if (8 * static_cast<double>(item.bytes[f]) <= bits * item.values()) item.probe = f;
    }
  }

  void find_errors() {
    std::vector<RowReader> readers;
    for (Item& item : items_) {
      readers.push_back(item.tensor->open());
      item.errors.resize(item.formats.size());
    }
    const auto most = static_cast<int64_t>(std::max(kWide.size(), kNarrow.size()));
    pool_.run(static_cast<int64_t>(items_.size()) * most, [&](int64_t task, int) {
      const auto i = static_cast<size_t>(task / most), f = static_cast<size_t>(task % most);
      Item& item = items_[i];
      if (f >= item.formats.size()) return;
      item.errors[f] = sampled_error(*item.tensor, readers[i], item.formats[f], options_.quantize.importances);
    });
    for (const RowReader& reader : readers)
      if (reader.done) reader.done();
  }

  DivergenceSetup setup(double from, double to) {
    DivergenceSetup setup{.runner = runner_, .values = values_, .pool = pool_, .tensors = gguf_.tensors()};
    if (options_.progress)
      setup.progress = [this, from, to](double done) { options_.progress(from + (to - from) * done); };
    return setup;
  }

  // Each matrix alone.
  void find_costs() {
    const int64_t rows = std::min(kProbeRows, options_.text.chunk_rows);
    const int64_t seen = options_.text.chunks() - held_out_chunks(options_.text);
    DivergenceText text;
    for (int64_t c = 0; c < std::min(seen, kProbeRows / rows); ++c)
      text.chunks.push_back(options_.text.chunk(c).first(static_cast<size_t>(rows)));
    // The first tokens see next to nothing, and their predictions say little.
    for (auto r = static_cast<int32_t>(rows / 8); r < rows; ++r) text.scored.push_back(r);
    std::vector<TensorFormats> variants;
    for (const Item& item : items_) variants.push_back({{item.tensor, item.formats[item.probe]}});
    costs_ = divergences(setup(0.05, 0.75), text, variants);
    for (size_t i = 0; i < items_.size(); ++i) {
      const double error = items_[i].errors[items_[i].probe];
      costs_[i] = error > 0 ? costs_[i] / error : 0;
    }
  }

  Knapsack knapsack(double share) const {
    std::vector<CostPlace> places;
    for (const Item& item : items_) places.push_back(item.place);
    const std::vector<double> costs = fitted_costs(places, costs_, share);
    std::vector<KnapsackItem> items(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) {
      for (size_t f = 0; f < items_[i].formats.size(); ++f)
        items[i].push_back({items_[i].bytes[f], costs[i] * items_[i].errors[f]});
    }
    return Knapsack(std::move(items));
  }

  void choose() {
    for (const double share : kShares) {
      const Knapsack sack = knapsack(share);
      const std::optional<std::vector<size_t>> chosen = sack.solve(budget_);
      if (std::ranges::find(chosen_, *chosen) != chosen_.end()) continue;
      const KnapsackChoice total = sack.total(*chosen);
      result_.candidates.push_back({.share = share, .bytes = total.bytes + fixed_, .predicted = total.cost});
      chosen_.push_back(*chosen);
    }
  }

  void measure() {
    const int64_t chunks = options_.text.chunks(), held = held_out_chunks(options_.text),
                  rows = options_.text.chunk_rows;
    DivergenceText text;
    for (int64_t c = chunks - held; c < chunks; ++c) text.chunks.push_back(options_.text.chunk(c));
    const int64_t step = std::max<int64_t>(1, (rows / 2 * held * runner_.vocab() + kScoredValues - 1) / kScoredValues);
    for (int64_t r = rows / 2; r < rows; r += step) text.scored.push_back(static_cast<int32_t>(r));
    std::vector<TensorFormats> variants;
    for (const std::vector<size_t>& chosen : chosen_) {
      TensorFormats& formats = variants.emplace_back();
      for (size_t i = 0; i < items_.size(); ++i) formats[items_[i].tensor] = items_[i].formats[chosen[i]];
    }
    const std::vector<double> klds = divergences(setup(0.75, 1), text, variants);
    for (size_t c = 0; c < klds.size(); ++c) result_.candidates[c].measured = klds[c];
    result_.best = static_cast<size_t>(std::ranges::min_element(klds) - klds.begin());
    result_.scored = static_cast<int64_t>(text.chunks.size() * text.scored.size());
  }

  SearchResult finish() {
    const std::vector<size_t>& chosen = chosen_[result_.best];
    result_.tensors = options_.quantize.tensors;
    std::map<Format, double> values;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Format format = items_[i].formats[chosen[i]];
      result_.tensors.emplace_back(items_[i].tensor->name, format_name(format));
      values[format] += items_[i].values();
    }
    const Format most = std::ranges::max_element(values, {}, [](const auto& one) { return one.second; })->first;
    result_.format = find_mix(format_name(most))->name;
    const Knapsack sack = knapsack(result_.candidates[result_.best].share);
    for (int p = 0; p < kFrontPoints; ++p) {
      const int64_t bytes = sack.least_bytes() + (sack.most_bytes() - sack.least_bytes()) * p / (kFrontPoints - 1);
      const KnapsackChoice total = sack.total(*sack.solve(bytes));
      result_.front.push_back({.bytes = total.bytes + fixed_, .predicted = total.cost});
    }
    return std::move(result_);
  }

  const SearchOptions& options_;
  const GgufModel gguf_;
  ThreadPool pool_;
  const Model model_;
  LayerRunner runner_;
  LayerValues values_;
  std::vector<Item> items_;
  int64_t fixed_ = 0, budget_ = 0;           // bytes of the other tensors, and for the items
  std::vector<double> costs_;                // KLD by error, of each item
  std::vector<std::vector<size_t>> chosen_;  // of each candidate
  SearchResult result_;
};

}  // namespace

int64_t held_out_chunks(const CalibrationText& text) { return std::clamp<int64_t>(text.chunks() / 4, 1, kHeldOut); }

void check_searched(const std::string& out) {
  if (!out.ends_with(".gguf"))
    throw Error("[search] formats are searched for .gguf files; a directory has one, which --format names");
}

SearchResult search(const SearchOptions& options) {
  check_searched(options.quantize.out);
  if (options.text.chunks() < 2)
    throw Error("[search] the text has {} tokens: at least two chunks of {} are needed", options.text.tokens.size(),
                options.text.chunk_rows);
  return Search(options).run();
}

JsonObject SearchResult::json() const {
  JsonArray tried, points;
  for (const Candidate& one : candidates) {
    tried.push_back(JsonObject{
        {"fitted", one.share}, {"bytes", one.bytes}, {"predicted_kld", one.predicted}, {"measured_kld", one.measured}});
  }
  for (const Point& point : front)
    points.push_back(JsonObject{{"bytes", point.bytes}, {"predicted_kld", point.predicted}});
  return {{"best", static_cast<int64_t>(best)}, {"candidates", tried}, {"scored_tokens", scored}, {"front", points}};
}

}  // namespace ingot
