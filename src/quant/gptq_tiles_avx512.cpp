#include "quant/gptq_tiles_set.h"

namespace ingot {
extern const GptqTiles kAvx512GptqTiles;
const GptqTiles kAvx512GptqTiles = make_gptq_tiles("avx512");
}  // namespace ingot
