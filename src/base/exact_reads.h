// Processes that share a model read different parts of its files. Where each has files of its own, what the kernel
// reads around a page that is touched (128 KiB, on some machines 8 MiB) is another's to read.
#pragma once

namespace ingot {

// From now on the kernel reads of files that this process maps what is touched or asked for, and nothing around it.
// Before other threads.
void read_exactly();
bool reads_exactly();

}  // namespace ingot
