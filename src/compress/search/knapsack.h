// One choice of several for each item, the sum of costs least, within a number of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ingot {

struct KnapsackChoice {
  int64_t bytes = 0;
  double cost = 0;  // ≥ 0
};
using KnapsackItem = std::vector<KnapsackChoice>;  // at least one, in any order

// Solved once for all budgets, by a table over a grid of bytes. The grid is the largest unit that all differences of
// bytes are multiples of, and the result exact, unless that takes more than kKnapsackPlaces places; then bytes are
// rounded up to one of so many, and what is left over is given to single items.
constexpr int64_t kKnapsackPlaces = int64_t{1} << 16;

class Knapsack {
 public:
  explicit Knapsack(std::vector<KnapsackItem> items);

  int64_t least_bytes() const { return least_; }
  int64_t most_bytes() const { return most_; }
  // The index of each item's choice; nothing where the budget is less than least_bytes().
  std::optional<std::vector<size_t>> solve(int64_t budget) const;
  // Bytes and cost of a solution.
  KnapsackChoice total(const std::vector<size_t>& chosen) const;

 private:
  int64_t units(size_t item, size_t choice) const;
  void fill(std::vector<size_t>& chosen, int64_t budget) const;

  const std::vector<KnapsackItem> items_;
  int64_t least_ = 0, most_ = 0, unit_ = 1, places_ = 0;
  std::vector<int64_t> least_of_;               // bytes of each item's smallest choice
  std::vector<std::vector<uint8_t>> decision_;  // [items][places] the choice of the best within so many units
};

}  // namespace ingot
