#include "cli/serve_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/error.h"
#include "cli/hub/cache.h"
#include "cli/strings.h"
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

bool on_gpu(const ServeModelOptions& options) { return choose_device(options.session.common) >= 0; }

int page_rows_of(const ServeModelOptions& options) { return on_gpu(options) ? kGpuPageRows : kPageRows; }

// The memory that a request may need as a whole, or refuses to start: a server that accepts a context and then has no
// room for it would fail at the worst time.
KvMemory choose_kv(const Model& model, std::optional<DType> type, const ServeModelOptions& options) {
  const int page_rows = page_rows_of(options);
  const int64_t page = kv_page_bytes(model.graph, type, page_rows);
  const int64_t context_pages = (model.context + page_rows - 1) / page_rows;
  if (options.kv_bytes > 0) {
    const auto given = static_cast<int64_t>(options.kv_bytes);
    if (given / std::max<int64_t>(page, 1) >= context_pages) return {.bytes = given};
    throw Error("[kv] {} bytes hold {} tokens, and the context is {}: give --ctx, or more", given,
                given / std::max<int64_t>(page, 1) * page_rows, model.context);
  }
  // A GPU's memory is for nothing else: more pages keep more prompts for those who come again.
  if (on_gpu(options)) return {.bytes = kAllFreeBytes};
  const int64_t pages = std::max(context_pages, options.seqs * kRowsOfSeq / page_rows);
  const int64_t available = available_memory();
  if (available > 0 && pages * page > available) {
    throw Error("[kv] a context of {} tokens needs {} MiB of KV cache, and {} MiB are free: give --ctx or --kv q8_0",
                model.context, pages * page >> 20, available >> 20);
  }
  const int64_t weights = model.weights->taken_bytes();
  return {.bytes = pages * page, .eager_bytes = std::max(kLeastEager, weights / 4 * 3)};
}

EngineSetup engine_setup(const ServeModelOptions& options, std::function<void(const StepFacts&)> on_step) {
  EngineSetup setup{.seqs = options.seqs, .step_rows = options.step_rows, .page_rows = page_rows_of(options)};
  setup.gap_ms = options.gap_ms;
  setup.max_waiting = options.max_queue;
  setup.keep_last = true;
  setup.on_step = std::move(on_step);
  setup.choose_kv = [&options](const Model& model, std::optional<DType> type) {
    return choose_kv(model, type, options);
  };
  return setup;
}

// None where it cannot be parsed: completions work without it. `why` is told.
std::shared_ptr<const ChatTemplate> parse_template(const std::string& text, std::string& why) {
  if (text.empty()) return nullptr;
  try {
    return std::make_shared<const ChatTemplate>(ChatTemplate::parse(text));
  } catch (const Error& e) {
    why = e.what();
    return nullptr;
  }
}

// A name without a directory: clients learn nothing of where files lie.
std::string name_of(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.pop_back();
  std::string name = base_name(trimmed);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

}  // namespace

ServeModelOptions with_device_defaults(ServeModelOptions options) {
  const bool gpu = on_gpu(options);
  if (options.seqs == 0) options.seqs = gpu ? 256 : 16;
  if (options.step_rows == 0) options.step_rows = gpu ? 2048 : 256;
  return options;
}

ServeModel::ServeModel(const ServeModelOptions& options, std::function<void(const StepFacts&)> on_step)
    : session_(options.session, engine_setup(options, std::move(on_step))) {
  served_.name = options.name.empty() ? name_of(options.session.model) : options.name;
  served_.aliases = {kDefaultModel};
  served_.created = std::time(nullptr);
  served_.engine = &session_.engine();
  served_.tokenizer = &session_.tokenizer();
  served_.source = session_.template_source();
  served_.chat = parse_template(served_.source.text, template_error_);
  served_.tool_chat =
      served_.source.tool_use.empty() ? served_.chat : parse_template(served_.source.tool_use, template_error_);
  served_.sampling = session_.sampling();
  served_.end_tokens = session_.end_tokens();
  served_.context = session_.context();
  served_.vocab = session_.model().hp.vocab;
  served_.hidden = session_.model().hp.hidden;
  served_.format = session_.model().arch->name;
}

}  // namespace ingot
