// What a tensor's error costs, in KLD: measured for each tensor alone, or read off all of them.
#pragma once

#include <string>
#include <vector>

namespace ingot {

// A tensor among those like it.
struct CostPlace {
  std::string kind;  // "attn_v"
  int layer = -1;
};

// KLD by error of each tensor, as measured over few tokens, brought nearer to what its kind and its layer say: the
// logarithm is fitted by the sum of a number for the kind and one for the layer, and `share` of the way is gone towards
// that fit (0: as measured, 1: the fit). Those that are not above 0 stay as they are.
std::vector<double> fitted_costs(const std::vector<CostPlace>& places, std::vector<double> costs, double share);

}  // namespace ingot
