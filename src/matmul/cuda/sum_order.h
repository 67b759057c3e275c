// The order of a sum of float32 products.
#pragma once

namespace ingot::cuda {

// So many columns in ascending order make a sum (a stage's, of formats whose blocks are larger), and those are added
// in their order: the same for every number of rows and wherever between two of them K is cut.
inline constexpr int kSumCols = 128;

}  // namespace ingot::cuda
