// Keeps the process alive when a mapped file is cut short under it. Reading a page that is no longer in the file raises
// SIGBUS; the guard's handler puts a page of zeros there instead and remembers it. Whoever computes with mapped files
// asks mapping_damaged() before it trusts its result.
#pragma once

#include <cstddef>

namespace ingot {

// Called by MappedFile for every mapping. Any thread. The handler is installed by the first call; a SIGBUS outside all
// guarded mappings ends the process as before.
void guard_mapping(const void* begin, size_t bytes);
void unguard_mapping(const void* begin);

// Whether any read since the start of the process found its page gone. Never becomes false again.
bool mapping_damaged();

}  // namespace ingot
