#include "app/server_options.h"

#include <algorithm>
#include <cstdio>

#include "app/device.h"
#include "base/checked_size.h"
#include "base/error.h"
#include "graph/kv_store.h"

namespace ingot {

namespace {

// 16 users of 130 tokens and 64 of an answer hold 224 rows each, with pages of 64 rows 256: 12 MB of the default model.
constexpr int kPageRows = 32;
// A GPU has memory enough, and attention copies a page at a time.
constexpr int kGpuPageRows = 64;
// What was read before is kept for whoever comes with the same beginning, but it shall not make a small model large:
// beyond three quarters of the weights (and 32 MiB) it gives way to what is read now. --kv-memory fills all it is
// given.
constexpr int64_t kLeastEager = int64_t{32} << 20;
constexpr int64_t kRowsOfSeq = 512;  // what one request of a conversation needs, more or less

int64_t available_memory() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/meminfo", "re"), std::fclose);
  char line[128];
  long long kib = 0;
  while (file && std::fgets(line, sizeof line, file.get()) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %lld kB", &kib) == 1) return kib << 10;
  }
  return 0;
}

// The memory that a request may need as a whole, or refuses to start: a server that accepts a context and then has no
// room for it would fail at the worst time.
void fit_kv(const Model& model, EngineConfig& config) {
  const int64_t page = kv_page_bytes(model.graph, config.kv, config.page_rows);
  const int64_t context_pages = (model.context + config.page_rows - 1) / config.page_rows;
  if (config.kv_bytes > 0) {
    const int64_t pages = config.kv_bytes / config.engines / std::max<int64_t>(page, 1);
    if (pages >= context_pages) return;
    throw Error("[kv] {} bytes{} hold {} tokens, and the context is {}: give --ctx, or more", config.kv_bytes,
                config.engines > 1 ? fmt::format(" for {} engines", config.engines) : "", pages * config.page_rows,
                model.context);
  }
  // A GPU's memory is for nothing else: more pages keep more prompts for those who come again.
  if (config.device.cuda >= 0) {
    config.kv_bytes = kAllFreeBytes;
    return;
  }
  // A request is one engine's: each has room for a context.
  const int64_t pages = std::max(context_pages * config.engines, config.max_seqs * kRowsOfSeq / config.page_rows);
  const int64_t available = available_memory();
  const int64_t bytes = (CheckedSize(pages, "[kv] bytes of the cache") * page).as_int64();
  if (available > 0 && bytes > available) {
    throw Error("[kv] a context of {} tokens needs {} MiB of KV cache, and {} MiB are free: give --ctx or --kv q8_0",
                model.context, bytes >> 20, available >> 20);
  }
  config.kv_bytes = bytes;
  config.kv_eager_bytes = std::max(kLeastEager, model.weights->taken_bytes() / 4 * 3);
}

}  // namespace

OpenOptions server_options() {
  OpenOptions options;
  options.model.keep_last = true;
  options.engine.max_seqs = options.engine.step_rows = options.engine.page_rows = 0;
  options.engine.max_waiting = 256;
  options.engine.gap_ms = 75;
  options.routes = true;
  options.fit_kv = fit_kv;
  return options;
}

void set_device_defaults(OpenOptions& options) {
  const bool gpu = choose_device(options.device, options.ref) >= 0;
  EngineConfig& config = options.engine;
  if (config.max_seqs == 0) config.max_seqs = gpu ? 256 : 16;
  if (config.step_rows == 0) config.step_rows = gpu ? 2048 : 256;
  if (config.page_rows == 0) config.page_rows = gpu ? kGpuPageRows : kPageRows;
}

}  // namespace ingot
