#include "compress/search/knapsack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace ingot {

Knapsack::Knapsack(std::vector<KnapsackItem> items) : items_(std::move(items)) {
  int64_t common = 0;
  for (const KnapsackItem& item : items_) {
    CHECK(!item.empty() && item.size() < 256, "{} choices", item.size());
    const auto [low, high] = std::ranges::minmax(item, {}, &KnapsackChoice::bytes);
    least_of_.push_back(low.bytes);
    least_ += low.bytes;
    most_ += high.bytes;
    for (const KnapsackChoice& choice : item) common = std::gcd(common, choice.bytes - low.bytes);
  }
  const int64_t range = most_ - least_;
  unit_ = std::max({int64_t{1}, common, (range + kKnapsackPlaces - 1) / kKnapsackPlaces});
  // Rounded up, all items at their largest may take a unit each more.
  places_ = range / unit_ + static_cast<int64_t>(items_.size()) + 1;
  const auto places = static_cast<size_t>(places_);
  std::vector<double> best(places, 0.0), next(places);
  for (size_t i = 0; i < items_.size(); ++i) {
    std::vector<uint8_t>& decision = decision_.emplace_back(places);
    std::ranges::fill(next, std::numeric_limits<double>::infinity());
    for (size_t c = 0; c < items_[i].size(); ++c) {
      const auto shift = static_cast<size_t>(units(i, c));
      for (size_t p = shift; p < places; ++p) {
        const double cost = best[p - shift] + items_[i][c].cost;
        if (!(cost < next[p])) continue;
        next[p] = cost;
        decision[p] = static_cast<uint8_t>(c);
      }
    }
    std::swap(best, next);
  }
}

int64_t Knapsack::units(size_t item, size_t choice) const {
  return (items_[item][choice].bytes - least_of_[item] + unit_ - 1) / unit_;
}

std::optional<std::vector<size_t>> Knapsack::solve(int64_t budget) const {
  if (budget < least_) return {};
  int64_t place = std::min((budget - least_) / unit_, places_ - 1);
  std::vector<size_t> chosen(items_.size());
  for (size_t i = items_.size(); i-- > 0;) {
    chosen[i] = decision_[i][static_cast<size_t>(place)];
    place -= units(i, chosen[i]);
  }
  fill(chosen, budget);
  return chosen;
}

// What rounding to the grid left over goes to the items that gain most by a byte.
void Knapsack::fill(std::vector<size_t>& chosen, int64_t budget) const {
  while (true) {
    const int64_t left = budget - total(chosen).bytes;
    size_t item = 0, choice = 0;
    double most = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      const KnapsackChoice& now = items_[i][chosen[i]];
      for (size_t c = 0; c < items_[i].size(); ++c) {
        const int64_t more = items_[i][c].bytes - now.bytes;
        const double gain = now.cost - items_[i][c].cost;
        if (more > left || !(gain > 0)) continue;
        const double rate = gain / static_cast<double>(std::max<int64_t>(more, 1));
        if (rate > most) std::tie(most, item, choice) = std::tuple(rate, i, c);
      }
    }
    if (!(most > 0)) return;
    chosen[item] = choice;
  }
}

KnapsackChoice Knapsack::total(const std::vector<size_t>& chosen) const {
  KnapsackChoice sum;
  for (size_t i = 0; i < items_.size(); ++i) {
    sum.bytes += items_[i][chosen[i]].bytes;
    sum.cost += items_[i][chosen[i]].cost;
  }
  return sum;
}

}  // namespace ingot
