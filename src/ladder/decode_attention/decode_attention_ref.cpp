#include "ladder/decode_attention/decode_attention.h"

namespace ingot::ref {

void run(const DecodeAttention& op, Ctx&) { attend(op); }

}  // namespace ingot::ref
