// The parts of `ingot bench`: each is a file with its options and its body, written as command.h says.
#pragma once

#include "cli/command.h"

namespace ingot {

extern const Command kBenchOps, kBenchLadder, kBenchServe, kBenchTrace, kBenchGrammar, kBenchSchema, kBenchComm,
    kBenchMatmul;

}  // namespace ingot
