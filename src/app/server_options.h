// How a model is opened for a server, where nobody says otherwise.
#pragma once

#include "app/open_engine.h"

namespace ingot {

// A request may ask for embeddings; 256 may wait; 75 ms are the target between two tokens while prompts of others are
// read. max_seqs, step_rows and page_rows are 0 and kv_bytes too: set_device_defaults() and the opening fill them in.
// The KV cache is, without kv_bytes, one whole context, or 512 tokens for each seq where that is more; on a GPU all
// that is free. Opening throws Error where it would not hold one whole context.
OpenOptions server_options();

// What is still 0 and depends on the device: 16 seqs, steps of 256 rows and pages of 32; on a GPU 256, 2048 and 64.
// Throws Error where the device is not there.
void set_device_defaults(OpenOptions& options);

}  // namespace ingot
