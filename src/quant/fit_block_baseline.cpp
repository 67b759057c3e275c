#include "quant/fit_block_set.h"

namespace ingot {
extern const BlockFits kBaselineBlockFits;
const BlockFits kBaselineBlockFits = make_block_fits("baseline");
}  // namespace ingot
