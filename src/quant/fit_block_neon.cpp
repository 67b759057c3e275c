#include "quant/fit_block_set.h"

namespace ingot {
extern const BlockFits kNeonBlockFits;
const BlockFits kNeonBlockFits = make_block_fits("neon");
}  // namespace ingot
