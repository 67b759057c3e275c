// How requests come to the engine's core and leave it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/core.h"
#include "engine/sampler.h"

namespace ingot {
namespace {

constexpr int kMaxPriority = 100;
constexpr int kMaxChoices = 128;

// What decides the content of pages beside the tokens. The lengths keep parts from running into each other.
std::string content_space(const Request& request, const std::string& kv_format) {
  return fmt::format("{}:{}{}:{}{}:{}{}", request.tenant.size(), request.tenant, request.adapter.size(),
                     request.adapter, request.media.size(), request.media, kv_format);
}

}  // namespace

std::string EngineCore::refusal(const Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int context = limits_.context;
  if (prompt == 0) return "the prompt is empty";
  // One more position must be left where a token is to be made.
  if (prompt + (request.max_tokens == 0 ? 0 : 1) > context) {
    return fmt::format("the prompt has {} tokens, the context is {}", prompt, context);
  }
  if (request.max_tokens < -1) return fmt::format("max_tokens is {}", request.max_tokens);
  if (request.min_tokens < 0) return fmt::format("min_tokens is {}", request.min_tokens);
  const int longest = longest_of(request, context);
  if (!pages_.can_ever_fit(longest)) return fmt::format("{} tokens need more pages than the KV cache has", longest);
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= options_.vocab) {
      return fmt::format("token {} is outside the vocabulary of {}", token, options_.vocab);
    }
  }
  if (request.choices < 1 || request.choices > kMaxChoices) {
    return fmt::format("{} choices, expected 1 to {}", request.choices, kMaxChoices);
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return fmt::format("priority is {}, expected {} to {}", request.priority, -kMaxPriority, kMaxPriority);
  }
  if (!(request.queue_seconds >= 0 && request.queue_seconds <= 1e6)) {
    return fmt::format("queue_seconds is {}, expected 0 to 1000000", request.queue_seconds);
  }
  if (request.constraint && request.choices > 1) return "a constraint serves one choice";
  if (request.on_logits && request.choices > 1) return "logits are reported of one choice";
  if (request.drafter && request.on_logits) return "logits of guesses are not reported: no drafter with on_logits";
  if (request.on_hidden && !options_.has_hidden) return "the model does not keep its hidden state";
  if (request.on_hidden && request.choices > 1) return "hidden states are reported of one choice";
  if (request.on_hidden && request.drafter)
    return "hidden states of guesses are not reported: no drafter with on_hidden";
  return check_sampling(request.sampling, options_.vocab);
}

std::unique_ptr<Sequence> EngineCore::make_seq(const std::shared_ptr<const Request>& request, SeqId id, int choice,
                                               int64_t came_ns) {
  auto seq = std::make_unique<Sequence>();
  seq->id = id + choice;
  seq->choice = request->first_choice + choice;
  seq->request = request;
  // Most answers fit: growing a list of tokens is then no work of a step.
  const int most = std::min(seq->longest(limits_.context), seq->n_prompt() + 4096);
  seq->tokens.reserve(static_cast<size_t>(most) + 1);
  seq->tokens = request->prompt;
  seq->came_ns = came_ns;
  seq->rank = came_ns - static_cast<int64_t>(request->priority * Scheduler::kPrioritySeconds * 1e9);
  if (request->queue_seconds > 0) {
    seq->deadline_ns = came_ns + static_cast<int64_t>(request->queue_seconds * 1e9);
  }
  seq->held_back = choice > 0;
  return seq;
}

Submitted EngineCore::submit(Request request, SeqId id, int64_t came_ns) {
  if (std::string reason = refusal(request); !reason.empty()) {
    ++stats_.refused;
    return {.id = -1, .refused = std::move(reason)};
  }
  if (scheduler_.n_waiting() >= config_.max_waiting) {
    ++stats_.busy;
    return {.id = -1, .refused = {}, .busy = true};
  }
  const auto shared = std::make_shared<const Request>(std::move(request));
  if (id < 0) {
    id = next_id_;
    next_id_ += shared->choices;
  }
  for (int c = 0; c < shared->choices; ++c) CHECK(!seqs_.contains(id + c), "there is a seq {} already", id + c);
  std::vector<std::unique_ptr<Sequence>> made;
  if (came_ns == 0) came_ns = options_.now_ns();
  for (int c = 0; c < shared->choices; ++c) made.push_back(make_seq(shared, id, c, came_ns));
  Sequence& first = *made[0];
  first.followers.reserve(made.size());
  seqs_.reserve(seqs_.size() + made.size());
  try {
    const std::string space = content_space(*shared, options_.kv_format);
    for (std::unique_ptr<Sequence>& seq : made) {
      Sequence& added = *seq;
      seqs_.emplace(added.id, std::move(seq));
      if (prefix_ && shared->reuse_prefix) added.prefix_root = prefix_->root(space);
      scheduler_.add(added);
      added.entered = true;
      if (&added == &first) continue;
      added.first = &first;
      first.followers.push_back(&added);
    }
  } catch (const std::bad_alloc&) {
    cancel(id);
    throw;
  }
  if (first.deadline_ns > 0) await_deadline(first.deadline_ns);
  ++stats_.submitted;
  return {.id = id, .refused = {}};
}

bool EngineCore::cancel(SeqId request) {
  const auto it = seqs_.find(request);
  bool found = false;
  // The first choice may have ended before the others.
  int choices = it == seqs_.end() ? kMaxChoices : it->second->request->choices;
  const Request* of = it == seqs_.end() ? nullptr : it->second->request.get();
  for (int c = 0; c < choices; ++c) {
    const auto choice = seqs_.find(request + c);
    if (choice == seqs_.end()) continue;
    Sequence& seq = *choice->second;
    if (seq.choice_of_request() != c || (of && seq.request.get() != of)) break;
    of = seq.request.get();
    choices = of->choices;
    erase(seq, open_plan());
    found = true;
  }
  stats_.cancelled += found;
  return found;
}

bool EngineCore::cancel(SeqId request, int choice) {
  const auto it = seqs_.find(request + choice);
  if (it == seqs_.end() || it->second->choice_of_request() != choice) return false;
  erase(*it->second, open_plan());
  ++stats_.stopped;
  return true;
}

void EngineCore::await_deadline(int64_t ns) {
  next_deadline_ns_ = next_deadline_ns_ == 0 ? ns : std::min(next_deadline_ns_, ns);
}

// Those that have waited longer than they were willing to.
void EngineCore::expire() {
  const int64_t now = next_deadline_ns_ ? options_.now_ns() : 0;
  if (next_deadline_ns_ == 0 || now < next_deadline_ns_) return;
  try {
    events_.reserve(events_.capacity() + seqs_.size());
    ended_.reserve(ended_.capacity() + seqs_.size());
  } catch (const std::bad_alloc&) {
    return;  // in the next step then
  }
  next_deadline_ns_ = 0;
  for (const auto& [id, seq] : seqs_) {
    if (seq->begun || seq->deadline_ns == 0) continue;
    if (seq->deadline_ns <= now) {
      end(*seq, FinishReason::kDeadline);
      ++stats_.expired;
    } else {
      await_deadline(seq->deadline_ns);
    }
  }
  sweep(open_plan());
}

void EngineCore::end(Sequence& seq, FinishReason finish) {
  if (seq.finished) return;
  stats_.errors += finish == FinishReason::kError;
  tell(seq, {}, finish);
}

// An event of the seq; one that ends it is its last.
void EngineCore::tell(Sequence& seq, SampleResult result, FinishReason finish) {
  const bool first_token = result.token >= 0 && seq.n_made() == 1;
  const bool first = !std::exchange(seq.told, true);
  const int64_t began = seq.began_ns ? seq.began_ns : options_.now_ns();
  events_.push_back({.request = seq.id - seq.choice_of_request(),
                     .choice = seq.choice_of_request(),
                     .sample = std::move(result),
                     .finish = finish,
                     .reused = first_token ? seq.reused : 0,
                     .queued_seconds = first ? 1e-9 * static_cast<double>(began - seq.came_ns) : 0});
  if (finish == FinishReason::kNone) return;
  seq.finished = true;
  ended_.push_back(&seq);
}

void EngineCore::sweep(Plan& planned) {
  for (Sequence* seq : ended_) erase(*seq, planned);
  ended_.clear();
}

void EngineCore::erase(Sequence& seq, Plan& planned) {
  for (Sequence* other : seq.followers) {
    other->first = nullptr;
    if (other->held_back && other->entered) scheduler_.release(*other);
  }
  if (seq.first) std::erase(seq.first->followers, &seq);
  // A step under way may still write rows of it. Its pages can go to others all the same: their rows are written by
  // later steps, and what has an address in the prefix cache is never written again.
  for (Plan& plan : plans_) {
    if (!plan.launched) continue;
    const auto it = std::ranges::find(plan.items, &seq, &Plan::Item::seq);
    if (it != plan.items.end()) it->seq = nullptr;
  }
  if (seq.entered) scheduler_.remove(seq, planned);
  if (seq.prefix_root >= 0) prefix_->release(seq.prefix_root);
  seqs_.erase(seq.id);
}

// The step failed, and with it whatever its seqs had in memory. They are computed again one by one; a seq that fails
// once more when it is alone is the cause.
void EngineCore::fail() {
  ++stats_.failed_steps;
  // What was launched after it has read what it left behind.
  if (next_plan().launched) model_.wait();
  for (const Plan* lost : {&plan(), &next_plan()}) {
    for (const StateOp& op : lost->states) {
      if (op.kind == StateOp::Kind::kCopy && op.to >= limits_.seqs) prefix_->forget_snapshot(op.to);
    }
  }
  for (Plan& lost : plans_) {
    for (const Plan::Item& item : lost.items) {
      if (item.seq) item.seq->awaited = 0, item.seq->planned = false;
    }
  }
  const bool guilty = plan().items.size() == 1 && plan().items[0].seq && plan().items[0].seq->suspect > 0;
  if (guilty) end(*plan().items[0].seq, FinishReason::kError);
  scheduler_.restart(plan(), next_plan());
  sweep(next_plan());
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  stats.preempted = scheduler_.n_preempted();
  stats.evicted = pages_.n_evicted();
  stats.running = scheduler_.n_running();
  stats.waiting = static_cast<int>(seqs_.size()) - stats.running;
  for (int g = 0; g < pages_.n_groups(); ++g) {
    stats.pages += pages_.total_pages(g);
    stats.free_pages += pages_.free_pages(g);
    stats.cached_pages += pages_.cached_pages(g);
  }
  return stats;
}

}  // namespace ingot
