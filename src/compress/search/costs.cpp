#include "compress/search/costs.h"

#include <cmath>
#include <map>

#include "base/check.h"

namespace ingot {
namespace {

constexpr int kRounds = 32;  // of the alternation; a table without gaps needs one

struct Mean {
  double sum = 0, count = 0;
  void add(double v) { sum += v, count += 1; }
  double value() const { return count > 0 ? sum / count : 0; }
};

}  // namespace

std::vector<double> fitted_costs(const std::vector<CostPlace>& places, std::vector<double> costs, double share) {
  CHECK(places.size() == costs.size(), "{} places of {} costs", places.size(), costs.size());
  std::map<std::string, double> of_kind;
  std::map<int, double> of_layer;
  for (int round = 0; round < kRounds; ++round) {
    std::map<std::string, Mean> kinds;
    for (size_t i = 0; i < costs.size(); ++i)
      if (costs[i] > 0) kinds[places[i].kind].add(std::log(costs[i]) - of_layer[places[i].layer]);
    for (const auto& [kind, mean] : kinds) of_kind[kind] = mean.value();
    std::map<int, Mean> layers;
    for (size_t i = 0; i < costs.size(); ++i)
      if (costs[i] > 0) layers[places[i].layer].add(std::log(costs[i]) - of_kind[places[i].kind]);
    for (const auto& [layer, mean] : layers) of_layer[layer] = mean.value();
  }
  for (size_t i = 0; i < costs.size(); ++i) {
    if (!(costs[i] > 0)) continue;
    const double fit = of_kind[places[i].kind] + of_layer[places[i].layer];
    costs[i] = std::exp((1 - share) * std::log(costs[i]) + share * fit);
  }
  return costs;
}

}  // namespace ingot
