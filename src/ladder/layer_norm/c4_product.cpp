// What serves: the CPU's version of ops/layer_norm.
#include "ladder/cpu_step.h"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const LayerNorm& op, Ctx& ctx) { cpu::run(op, ctx); }

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
