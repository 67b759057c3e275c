#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "engine/model/known_ranks.h"
#include "serve/process_facts.h"

namespace ingot {

namespace {

// Seconds: a fast small model on top of a slow large one.
constexpr double kGapBounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.25, 0.5, 1, 2.5};
constexpr double kWaitBounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
constexpr double kStepBounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5};
constexpr double kCompileBounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1};
constexpr double kMaskBounds[] = {5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 0.02, 0.1};
constexpr double kRowBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
constexpr double kSeqBounds[] = {1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256};

constexpr const char* kRejectedNames[] = {"bad_request", "no_key",     "forbidden", "no_route",
                                          "key_limit",   "queue_full", "draining",  "internal_error",
                                          "late",        "timeout",    "usage_log"};
static_assert(std::size(kRejectedNames) == static_cast<size_t>(Rejected::kCount));
constexpr const char* kFinishNames[] = {"none",    "stop",     "length",  "cancelled", "error",
                                        "damaged", "deadline", "timeout", "constraint"};

using Out = fmt::memory_buffer;

void head(Out& out, const char* name, const char* type, const char* help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <class Value>
void one(Out& out, const char* name, const char* type, const char* help, Value value) {
  head(out, name, type, help);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

void labelled(Out& out, const char* name, const char* label, const char* value, int64_t count) {
  fmt::format_to(std::back_inserter(out), "{}{{{}=\"{}\"}} {}\n", name, label, value, count);
}

void histogram(Out& out, const char* name, const char* help, const Histogram& h) {
  head(out, name, "histogram", help);
  int64_t below = 0;
  for (size_t i = 0; i < h.bounds().size(); ++i) {
    below += h.in_bucket(i);
    fmt::format_to(std::back_inserter(out), "{}_bucket{{le=\"{}\"}} {}\n", name, h.bounds()[i], below);
  }
  // Of the same numbers as the buckets, so that the last one equals the count while others observe.
  below += h.in_bucket(h.bounds().size());
  fmt::format_to(std::back_inserter(out), "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, below,
                 h.sum());
}

void device_text(Out& out, const Metrics::Now& now) {
  const DeviceUse& d = now.device;
  head(out, "ingot_device_memory_bytes", "gauge", "Memory of the device that computes, by use.");
  labelled(out, "ingot_device_memory_bytes", "use", "weights", d.weight_bytes);
  labelled(out, "ingot_device_memory_bytes", "use", "kv", now.kv_bytes);
  labelled(out, "ingot_device_memory_bytes", "use", "step", d.step_bytes);
  labelled(out, "ingot_device_memory_bytes", "use", "free", d.free_bytes);
  one(out, "ingot_device_memory_total_bytes", "gauge", "Memory of the device that computes.", d.total_bytes);
}

void experts_text(Out& out, const ExpertUse& use) {
  one(out, "ingot_expert_layers_total", "counter", "Layers of experts that ran.", use.layers);
  one(out, "ingot_experts_touched_total", "counter", "Experts that some row met, of each of these layers.",
      use.touched);
  one(out, "ingot_expert_busiest_rows_total", "counter", "Rows of the expert that most met, of each of these layers.",
      use.busiest);
}

// Of each engine, where there are several.
void engines_text(Out& out, const std::vector<EngineStats>& engines) {
  if (engines.empty()) return;
  const auto series = [&](const char* name, const char* type, const char* help, auto value) {
    head(out, name, type, help);
    for (size_t e = 0; e < engines.size(); ++e) {
      labelled(out, name, "engine", std::to_string(e).c_str(), static_cast<int64_t>(value(engines[e])));
    }
  };
  using S = const EngineStats&;
  series("ingot_each_engine_running", "gauge", "Seqs that take part in steps of this engine.",
         [](S s) { return s.running; });
  series("ingot_each_engine_waiting", "gauge", "Requests that wait in this engine.", [](S s) { return s.waiting; });
  series("ingot_each_engine_requests_total", "counter", "Requests that this engine was given.",
         [](S s) { return s.submitted; });
  series("ingot_each_engine_steps_total", "counter", "Steps of this engine.", [](S s) { return s.steps; });
  series("ingot_each_engine_rows_total", "counter", "Rows that it computed.", [](S s) { return s.rows; });
  series("ingot_each_engine_tokens_total", "counter", "Tokens that it made.", [](S s) { return s.tokens; });
  series("ingot_each_engine_prompt_tokens_total", "counter", "Tokens of prompts that began in it.",
         [](S s) { return s.prompt_tokens; });
  series("ingot_each_engine_prefix_hit_tokens_total", "counter", "Of them, found in its prefix cache.",
         [](S s) { return s.reused_tokens; });
  series("ingot_each_engine_cached_pages", "gauge", "Pages of its prefix cache.", [](S s) { return s.cached_pages; });
}

// Of each rank or stage, where a model is shared by several.
void ranks_text(Out& out, const std::vector<RankUse>& ranks, bool hosts) {
  if (ranks.empty()) return;
  const auto line = [&](const char* name, const RankUse& one, const std::string& more, auto value) {
    fmt::format_to(std::back_inserter(out), "{}{{engine=\"{}\",rank=\"{}\"{}}} {}\n", name, one.engine, one.rank, more,
                   value);
  };
  const auto series = [&](const char* name, const char* help, auto value) {
    head(out, name, "counter", help);
    for (const RankUse& one : ranks) line(name, one, "", value(one.counts));
  };
  head(out, "ingot_rank_alive", "gauge", "1: the rank takes part in steps.");
  for (const RankUse& one : ranks)
    line("ingot_rank_alive", one, fmt::format(",host=\"{}\"", shown_host(one.host, hosts)), one.alive ? 1 : 0);
  one(out, "ingot_ranks_alive", "gauge", "Ranks that take part in steps.",
      std::ranges::count(ranks, true, &RankUse::alive));
  using C = const RankCounts&;
  series("ingot_rank_steps_total", "Steps of this rank.", [](C c) { return c.steps; });
  series("ingot_rank_step_seconds_total", "Its time in steps.", [](C c) { return 1e-9 * double(c.step_ns); });
  series("ingot_rank_wait_seconds_total", "Of it, waiting for other ranks.",
         [](C c) { return 1e-9 * double(c.wait_ns); });
  series("ingot_rank_collective_seconds_total", "Of it, in collectives, with the waits in them.",
         [](C c) { return 1e-9 * double(c.collective_ns); });
  head(out, "ingot_rank_sent_bytes_total", "counter", "Bytes that it gave other ranks, by kind.");
  for (const RankUse& one : ranks)
    for (size_t k = 0; k < kCommKinds; ++k)
      if (one.counts.bytes[k] > 0)
        line("ingot_rank_sent_bytes_total", one, fmt::format(",kind=\"{}\"", kCommKindNames[k]), one.counts.bytes[k]);
}

void engine_text(Out& out, const EngineStats& s, const Metrics::Now& now) {
  one(out, "ingot_requests_running", "gauge", "Seqs that take part in steps.", s.running);
  one(out, "ingot_requests_waiting", "gauge", "Requests that wait for their first step.", s.waiting);
  one(out, "ingot_requests_in_flight", "gauge", "Requests whose answer is not complete.", now.requests_in_flight);
  head(out, "ingot_kv_pages", "gauge", "Pages of the KV cache by state.");
  labelled(out, "ingot_kv_pages", "state", "free", s.free_pages);
  labelled(out, "ingot_kv_pages", "state", "cached", s.cached_pages);
  labelled(out, "ingot_kv_pages", "state", "used", s.pages - s.free_pages - s.cached_pages);
  one(out, "ingot_kv_bytes", "gauge", "Memory of the KV cache.", now.kv_bytes);
  if (!now.device.name.empty()) device_text(out, now);
  one(out, "ingot_steps_total", "counter", "Steps of the engine.", s.steps);
  one(out, "ingot_failed_steps_total", "counter", "Steps that failed.", s.failed_steps);
  one(out, "ingot_rows_total", "counter", "Rows computed.", s.rows);
  one(out, "ingot_engine_tokens_total", "counter", "Tokens made by the engine.", s.tokens);
  one(out, "ingot_engine_prompt_tokens_total", "counter", "Tokens of prompts that began.", s.prompt_tokens);
  one(out, "ingot_prefix_hit_tokens_total", "counter", "Tokens of prompts found in the prefix cache.", s.reused_tokens);
  one(out, "ingot_preemptions_total", "counter", "Seqs set back for want of pages.", s.preempted);
  one(out, "ingot_evictions_total", "counter", "Cached pages given up.", s.evicted);
  if (s.experts.layers > 0) experts_text(out, s.experts);
  one(out, "ingot_engine_stalled", "gauge", "1: requests run and no step has ended for too long.", int{now.stalled});
  one(out, "ingot_engine_stalled_seconds", "gauge", "Seconds since the last step while requests run.",
      now.stalled_seconds);
}

void http_text(Out& out, const HttpCounters& c) {
  one(out, "ingot_http_connections", "gauge", "Connections open now.", c.open);
  one(out, "ingot_http_connections_total", "counter", "Connections accepted.", c.accepted);
  one(out, "ingot_http_connections_refused_total", "counter", "Connections beyond the limit.", c.refused);
  one(out, "ingot_http_connections_gave_way_total", "counter", "Idle or slow connections closed for new ones.",
      c.gave_way);
  one(out, "ingot_http_requests_total", "counter", "Requests read.", c.requests);
  one(out, "ingot_http_bad_requests_total", "counter", "Requests that were no valid HTTP or too large.",
      c.bad_requests);
  one(out, "ingot_http_timeouts_total", "counter", "Requests that came too slowly.", c.timeouts);
  one(out, "ingot_http_stalled_readers_total", "counter", "Connections cut because the client did not read.",
      c.stalled);
  one(out, "ingot_http_body_bytes", "gauge", "Bytes of bodies that are being read.", c.body_bytes);
  one(out, "ingot_http_unsent_bytes", "gauge", "Bytes of answers that wait for their readers.", c.answer_bytes);
  one(out, "ingot_http_received_bytes_total", "counter", "Bytes read from clients.", c.bytes_in);
  one(out, "ingot_http_sent_bytes_total", "counter", "Bytes written to clients.", c.bytes_out);
}

void tenants_text(Out& out, const std::vector<TenantUsage>& tenants) {
  if (tenants.empty()) return;
  const auto series = [&](const char* name, const char* type, const char* help, auto value) {
    head(out, name, type, help);
    for (const TenantUsage& tenant : tenants) labelled(out, name, "tenant", tenant.name.c_str(), value(tenant));
  };
  using T = const TenantUsage&;
  series("ingot_tenant_requests_total", "counter", "Requests worked on.", [](T t) { return t.numbers.requests; });
  series("ingot_tenant_limited_total", "counter", "Requests beyond a limit of their key.",
         [](T t) { return t.numbers.limited; });
  series("ingot_tenant_timeouts_total", "counter", "Requests ended by their deadline.",
         [](T t) { return t.numbers.timeouts; });
  series("ingot_tenant_prompt_tokens_total", "counter", "Tokens of prompts.",
         [](T t) { return t.numbers.prompt_tokens; });
  series("ingot_tenant_generated_tokens_total", "counter", "Tokens of answers.",
         [](T t) { return t.numbers.completion_tokens; });
  series("ingot_tenant_requests_active", "gauge", "Requests under way.", [](T t) { return int64_t{t.active}; });
}

void process_text(Out& out) {
  const ProcessFacts facts = process_facts();
  one(out, "process_resident_memory_bytes", "gauge", "Resident memory.", facts.resident_bytes);
  one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory.", facts.virtual_bytes);
  one(out, "process_open_fds", "gauge", "Open file descriptors.", facts.open_fds);
  one(out, "process_max_fds", "gauge", "Limit of file descriptors.", facts.max_fds);
  one(out, "process_threads", "gauge", "Threads of the process.", facts.threads);
  one(out, "process_cpu_seconds_total", "counter", "User and system time.", facts.cpu_seconds);
  one(out, "process_start_time_seconds", "gauge", "Start of the process, in unix time.", facts.start_seconds);
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  CHECK(bounds.size() <= kMaxBuckets, "{} buckets", bounds.size());
}

void Histogram::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(at - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

int64_t Histogram::count() const {
  int64_t total = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) total += in_bucket(i);
  return total;
}

Metrics::Metrics(std::vector<std::string_view> routes)
    : first_token_seconds(kWaitBounds),
      gap_seconds(kGapBounds),
      request_seconds(kWaitBounds),
      queue_seconds(kWaitBounds),
      step_seconds(kStepBounds),
      step_rows(kRowBounds),
      step_seqs(kSeqBounds),
      grammar_compile_seconds(kCompileBounds),
      grammar_mask_seconds(kMaskBounds),
      routes_(std::move(routes)),
      answers_(routes_.size() + 1) {}

void Metrics::answered(std::string_view route, int status) {
  const auto at = static_cast<size_t>(std::ranges::find(routes_, route) - routes_.begin());
  answers_[at][static_cast<size_t>(std::clamp(status / 100, 1, 5)) - 1].add();
}

std::string Metrics::text(const Now& now) const {
  Out out;
  head(out, "ingot_answers_total", "counter", "Answers by route and class of status.");
  for (size_t i = 0; i < answers_.size(); ++i) {
    const std::string_view route = i < routes_.size() ? routes_[i] : "other";
    for (size_t c = 1; c < kClasses; ++c) {  // no answer is 1xx
      fmt::format_to(std::back_inserter(out), "ingot_answers_total{{route=\"{}\",status=\"{}xx\"}} {}\n", route, c + 1,
                     answers_[i][c].value());
    }
  }
  head(out, "ingot_rejected_total", "counter", "Requests refused, by reason.");
  for (size_t i = 0; i < rejected_.size(); ++i) {
    labelled(out, "ingot_rejected_total", "reason", kRejectedNames[i], rejected_[i].value());
  }
  head(out, "ingot_finished_total", "counter", "Choices that ended, by reason.");
  for (size_t i = 1; i < finished_.size(); ++i) {
    labelled(out, "ingot_finished_total", "reason", kFinishNames[i], finished_[i].value());
  }
  one(out, "ingot_prompt_tokens_total", "counter", "Tokens of accepted prompts.", prompt_tokens.value());
  one(out, "ingot_cached_prompt_tokens_total", "counter", "Of them, found in the prefix cache.",
      cached_prompt_tokens.value());
  one(out, "ingot_generated_tokens_total", "counter", "Tokens of answers.", generated_tokens.value());
  one(out, "ingot_client_gone_total", "counter", "Clients that left before the answer was complete.",
      client_gone.value());
  histogram(out, "ingot_time_to_first_token_seconds", "From a request's arrival to its first token.",
            first_token_seconds);
  histogram(out, "ingot_token_gap_seconds", "Between two tokens of one choice.", gap_seconds);
  histogram(out, "ingot_request_seconds", "From a request's arrival to the end of its answer.", request_seconds);
  histogram(out, "ingot_queue_seconds", "From submission to the first step.", queue_seconds);
  histogram(out, "ingot_step_seconds", "Time of one step.", step_seconds);
  histogram(out, "ingot_step_rows", "Rows of one step.", step_rows);
  histogram(out, "ingot_step_seqs", "Seqs of one step.", step_seqs);
  histogram(out, "ingot_grammar_compile_seconds", "From a schema or grammar to what answers are held to.",
            grammar_compile_seconds);
  histogram(out, "ingot_grammar_mask_seconds", "Time of one mask.", grammar_mask_seconds);
  one(out, "ingot_grammar_masks_late_total", "counter", "Draws that were repeated since their mask was late.",
      now.engine.put_off);
  one(out, "ingot_grammars_found_total", "counter", "Grammars that an earlier request had compiled.",
      grammars_found.value());
  one(out, "ingot_grammars_refused_total", "counter", "Schemas and grammars that were refused.",
      grammars_refused.value());
  one(out, "ingot_tools_relaxed_total", "counter", "Tools that were offered without their schema being held.",
      tools_relaxed.value());
  engine_text(out, now.engine, now);
  engines_text(out, now.engines);
  ranks_text(out, known_ranks(), now.hosts);
  http_text(out, now.http);
  one(out, "ingot_ready", "gauge", "1: takes requests.", int{now.ready});
  one(out, "ingot_draining", "gauge", "1: finishes what is under way and takes nothing new.", int{now.draining});
  one(out, "ingot_kept_responses", "gauge", "Answers that are kept.", now.kept_responses);
  one(out, "ingot_kept_response_bytes", "gauge", "Memory of answers that are kept.", now.kept_response_bytes);
  one(out, "ingot_worker_jobs", "gauge", "Jobs that wait for a worker.", now.worker_jobs);
  one(out, "ingot_worker_busy_seconds", "gauge", "How long the longest job that runs has run.", now.worker_seconds);
  one(out, "ingot_worker_failures_total", "counter", "Jobs that threw.", now.failed_jobs);
  one(out, "ingot_log_dropped_lines_total", "counter", "Lines of the log that could not be written.", now.log_dropped);
  one(out, "ingot_usage_lost_lines_total", "counter", "Lines of the usage log that could not be written.",
      now.usage_lost);
  tenants_text(out, now.tenants);
  one(out, "ingot_key_reloads_total", "counter", "Times the key file was read anew.", key_reloads.value());
  one(out, "ingot_key_reload_failures_total", "counter", "Times it could not be.", key_reload_failures.value());
  process_text(out);
  return fmt::to_string(out);
}

}  // namespace ingot
