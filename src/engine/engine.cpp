#include "engine/engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/mapping_guard.h"
#include "engine/sampler.h"

namespace ingot {
namespace {

// Logit rows of one run of the head: 16 rows of a vocabulary of 262,144 are 16 MiB.
constexpr int kLogitRowsOfHead = 16;

StepLimits step_limits(const Model& model, const EngineOptions& options) {
  return {.rows = options.step_rows,
          .seqs = options.max_seqs,
          .logits = std::min(kLogitRowsOfHead, options.step_rows),
          .context = model.context,
          .page_rows = options.page_rows};
}

std::vector<int> page_counts(const Model& model, const EngineOptions& options, const StepLimits& limits) {
  const int pages = options.pages ? options.pages : limits.pages_per_seq() * options.max_seqs;
  return std::vector<int>(model.graph.kv_groups.size(), pages);
}

SchedulerLimits scheduler_limits(const EngineOptions& options) {
  const int chunk = options.chunk_rows ? std::min(options.chunk_rows, options.step_rows) : options.step_rows;
  return {.rows = options.step_rows, .seqs = options.max_seqs, .chunk = chunk};
}

}  // namespace

Engine::Engine(Model& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      limits_(step_limits(model, options)),
      pages_(page_counts(model, options, limits_), options.page_rows),
      kv_(model.graph, page_counts(model, options, limits_), options.page_rows),
      slots_(options.max_seqs),
      runner_(model.graph, {.limits = limits_, .threads = options.threads, .kernels = options.kernels}),
      scheduler_(scheduler_limits(options), pages_, slots_),
      batch_(limits_, static_cast<int>(model.graph.kv_groups.size())) {
  kv_.bind(model.graph);
}

std::string Engine::refusal(const Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return "the prompt is empty";
  // One more position must be left where a token is to be made.
  if (prompt + (request.max_tokens == 0 ? 0 : 1) > model_.context) {
    return fmt::format("the prompt has {} tokens, the context is {}", prompt, model_.context);
  }
  if (request.max_tokens < -1) return fmt::format("max_tokens is {}", request.max_tokens);
  const int64_t longest = request.max_tokens < 0 ? model_.context : prompt + request.max_tokens;
  if (!pages_.can_ever_fit(static_cast<int>(std::min<int64_t>(longest, model_.context)))) {
    return fmt::format("{} tokens need more pages than the KV cache has", longest);
  }
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= model_.hp.vocab) {
      return fmt::format("token {} is outside the vocabulary of {}", token, model_.hp.vocab);
    }
  }
  return check_sampling(request.sampling, model_.hp.vocab);
}

Submitted Engine::submit(Request request) {
  if (std::string reason = refusal(request); !reason.empty()) return {.id = -1, .refused = std::move(reason)};
  auto seq = std::make_unique<Sequence>();
  seq->id = next_id_++;
  seq->tokens = request.prompt;
  seq->request = std::move(request);
  const SeqId id = seq->id;
  scheduler_.add(std::move(seq));
  return {.id = id, .refused = {}};
}

std::span<const Event> Engine::step() {
  events_.clear();
  const std::vector<Scheduler::Item> items = scheduler_.next();
  if (items.empty()) return events_;
  fill(items);
  runner_.run_body(batch_);
  if (on_body) on_body(batch_, runner_);
  const std::vector<Want> rows = wants(items);
  for (const Scheduler::Item& item : items) item.seq->kv_len += item.rows;
  for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(limits_.logits)) {
    run_head(std::span(rows).subspan(i, std::min(rows.size() - i, static_cast<size_t>(limits_.logits))));
  }
  for (const Scheduler::Item& item : items) {
    if (item.seq->request.max_tokens == 0 && item.seq->pending() == 0) {
      events_.push_back({.seq = item.seq->id, .sample = {}, .finish = FinishReason::kLength});
    }
  }
  // What was computed from pages that are gone is worth nothing.
  if (mapping_damaged()) {
    events_.clear();
    for (const Scheduler::Item& item : items) {
      events_.push_back({.seq = item.seq->id, .sample = {}, .finish = FinishReason::kDamaged});
    }
  }
  for (const Event& event : events_) {
    if (event.finish != FinishReason::kNone) scheduler_.remove(event.seq);
  }
  return events_;
}

void Engine::fill(std::span<const Scheduler::Item> items) {
  batch_.n_rows = 0;
  batch_.n_seqs = static_cast<int>(items.size());
  batch_.n_logits = 0;
  for (size_t s = 0; s < items.size(); ++s) fill_seq(static_cast<int>(s), items[s]);
  batch_.q_start[items.size()] = batch_.n_rows;
}

void Engine::fill_seq(int s, const Scheduler::Item& item) {
  const Sequence& seq = *item.seq;
  const auto si = static_cast<size_t>(s);
  batch_.q_start[si] = batch_.n_rows;
  batch_.kv_len[si] = seq.kv_len + item.rows;
  batch_.state_slot[si] = seq.state_slot;
  for (size_t g = 0; g < batch_.groups.size(); ++g) {
    std::ranges::copy(seq.pages.groups[g], batch_.groups[g].page_table.begin() + s * int64_t{batch_.pages_per_seq});
  }
  for (int i = 0; i < item.rows; ++i) {
    const auto row = static_cast<size_t>(batch_.n_rows++);
    const int position = seq.kv_len + i;
    batch_.token[row] = seq.tokens[static_cast<size_t>(position)];
    batch_.position[row] = position;
    batch_.seq[row] = s;
    for (size_t g = 0; g < batch_.groups.size(); ++g) {
      const PageId page = seq.pages.groups[g][static_cast<size_t>(position / options_.page_rows)];
      batch_.groups[g].slot[row] = page * options_.page_rows + position % options_.page_rows;
    }
  }
}

// Rows to sample come first, so that one run of the sample op takes a prefix of the head's rows.
std::vector<Engine::Want> Engine::wants(std::span<const Scheduler::Item> items) const {
  std::vector<Want> result;
  int row = 0;
  for (const Scheduler::Item& item : items) {
    Sequence& seq = *item.seq;
    for (int i = 0; i < item.rows; ++i, ++row) {
      const int position = seq.kv_len + i;
      const bool last = position + 1 == seq.n_tokens() && seq.request.max_tokens != 0;
      const bool asked = seq.request.on_logits && position >= seq.request.logits_from;
      if (last || asked) result.push_back({row, &seq, position, last});
    }
  }
  std::ranges::stable_partition(result, [](const Want& want) { return want.sample; });
  return result;
}

void Engine::run_head(std::span<const Want> wants) {
  batch_.n_logits = static_cast<int>(wants.size());
  for (size_t i = 0; i < wants.size(); ++i) batch_.logit_row[i] = wants[i].row;
  runner_.run_head(batch_);
  report_logits(wants);

  std::vector<SampleRow> rows;
  for (const Want& want : wants) {
    if (want.sample) rows.push_back(sample_row(*want.seq));
  }
  if (rows.empty()) return;
  std::vector<SampleResult> results(rows.size());
  const Sample op{.logits = runner_.output("logits"), .rows = rows, .results = results};
  Ctx ctx = runner_.ctx(batch_);
  ctx.shape.logits = static_cast<int64_t>(rows.size());
  if (options_.kernels == Kernels::kRef) {
    ref::run(op, ctx);
  } else {
    cpu::run(op, ctx);
  }
  for (size_t i = 0; i < rows.size(); ++i) collect(*wants[i].seq, std::move(results[i]));
}

void Engine::report_logits(std::span<const Want> wants) {
  const Tensor& logits = runner_.output("logits");
  for (size_t i = 0; i < wants.size(); ++i) {
    const Request& request = wants[i].seq->request;
    if (!request.on_logits || wants[i].position < request.logits_from) continue;
    request.on_logits(wants[i].position,
                      std::span(logits.f32(static_cast<int64_t>(i)), static_cast<size_t>(logits.cols)));
  }
}

// Appends the token and decides whether the seq ends with it.
void Engine::collect(Sequence& seq, SampleResult result) {
  Event event{.seq = seq.id, .sample = std::move(result), .finish = FinishReason::kNone};
  const Request& request = seq.request;
  const int32_t token = event.sample.token;
  if (token < 0) {
    event.finish = FinishReason::kError;
  } else {
    seq.tokens.push_back(token);
    const bool full = seq.n_tokens() >= model_.context;
    if (std::ranges::find(request.end_tokens, token) != request.end_tokens.end()) {
      event.finish = FinishReason::kStop;
    } else if (full || (request.max_tokens >= 0 && seq.n_made() >= request.max_tokens)) {
      event.finish = FinishReason::kLength;
    }
  }
  events_.push_back(std::move(event));
}

}  // namespace ingot
