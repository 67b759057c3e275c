#include "quant/gptq_tiles_set.h"

namespace ingot {
extern const GptqTiles kAvx2GptqTiles;
const GptqTiles kAvx2GptqTiles = make_gptq_tiles("avx2");
}  // namespace ingot
