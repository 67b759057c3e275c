#include "quant/gptq_tiles_set.h"

namespace ingot {
extern const GptqTiles kNeonGptqTiles;
const GptqTiles kNeonGptqTiles = make_gptq_tiles("neon");
}  // namespace ingot
