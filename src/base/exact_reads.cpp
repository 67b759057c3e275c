#include "base/exact_reads.h"

namespace ingot {
namespace {

bool g_exact = false;

}  // namespace

void read_exactly() { g_exact = true; }

bool reads_exactly() { return g_exact; }

}  // namespace ingot
