#include "quant/fit_block_set.h"

namespace ingot {
extern const BlockFits kAvx2BlockFits;
const BlockFits kAvx2BlockFits = make_block_fits("avx2");
}  // namespace ingot
