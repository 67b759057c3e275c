#include "quant/gptq_tiles_set.h"

namespace ingot {
extern const GptqTiles kBaselineGptqTiles;
const GptqTiles kBaselineGptqTiles = make_gptq_tiles("baseline");
}  // namespace ingot
