#include "comm/link_model.h"

#include <algorithm>
#include <numeric>

namespace ingot {
namespace {

// A sum of at most so many bytes is made by every rank of what all give: as comm/comm.h and the kernels do.
constexpr int64_t kWholeSum = 64 << 10;

double sum_of(std::span<const int64_t> parts) {
  return static_cast<double>(std::accumulate(parts.begin(), parts.end(), int64_t{0}));
}

}  // namespace

LinkWork LinkModel::all_gather(std::span<const int64_t> parts) const {
  const double others = static_cast<double>(parts.size()) - 1;
  const double most = static_cast<double>(*std::ranges::max_element(parts));
  if (form == LinkForm::kSwitch)
    return {.steps = 1, .bytes = sum_of(parts) - static_cast<double>(*std::ranges::min_element(parts))};
  return {.steps = form == LinkForm::kRing ? others : 1, .bytes = others * most};
}

LinkWork LinkModel::gather(std::span<const int64_t> parts, int root) {
  return {.steps = 1, .bytes = sum_of(parts) - static_cast<double>(parts[static_cast<size_t>(root)])};
}

LinkWork LinkModel::all_reduce(int ranks, int64_t bytes) const {
  const double others = ranks - 1, all = static_cast<double>(bytes);
  const double in_parts = 2 * others / ranks * all;
  if (form == LinkForm::kSwitch) return {.steps = 1, .bytes = all};
  if (form == LinkForm::kRing) return {.steps = 2 * others, .bytes = in_parts};
  if (bytes <= kWholeSum) return {.steps = 1, .bytes = others * all};
  return {.steps = 2, .bytes = in_parts};
}

LinkWork LinkModel::reduce_scatter(int ranks, int64_t bytes) const {
  const double others = ranks - 1, all = static_cast<double>(bytes);
  if (form == LinkForm::kSwitch) return {.steps = 1, .bytes = all};
  return {.steps = form == LinkForm::kRing ? others : 1, .bytes = others / ranks * all};
}

LinkWork LinkModel::all_to_all(int ranks, int64_t given) const {
  return {.steps = form == LinkForm::kRing ? ranks - 1.0 : 1, .bytes = static_cast<double>(given)};
}

LinkWork LinkModel::broadcast(int ranks, int64_t bytes) const {
  const double others = ranks - 1, all = static_cast<double>(bytes);
  return {.steps = form == LinkForm::kRing ? others : 1, .bytes = form == LinkForm::kDirect ? others * all : all};
}

}  // namespace ingot
