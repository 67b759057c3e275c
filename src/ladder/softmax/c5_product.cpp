// What serves: the CPU's version of ops/softmax.
#include "ladder/cpu_step.h"
#include "ladder/softmax/softmax.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const Softmax& op, Ctx& ctx) { cpu::run(op, ctx); }

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
