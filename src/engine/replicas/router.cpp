#include "engine/replicas/router.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/seeded_hash.h"

namespace ingot {
namespace {

// A row of an answer in rows of a prompt: a step that decodes reads all weights for few rows. 1.7 to 6 on two cores of
// a Neoverse-V1 (docs/performance.md), by the model and the seqs at once.
constexpr double kAnswerRow = 3;

// What is read twice is kept twice, and whoever comes after it finds it in one place only: a row to be read here that
// lies in another engine's cache counts for so many. 2,000 of Mooncake's conversations on four engines
// (tests/sim/replicas_test.cpp): 1 gives 0.79 to 0.88 of the hits of one cache as large as all, 3 gives 0.89 to 0.95,
// 4 gives 0.93 to 0.97, 8 gives 0.96 to 0.99 and lets a request wait for seven times what it saves.
constexpr double kMissedRow = 4;

// Before any answer has ended; after that, each has a part of so many.
constexpr double kFirstAnswer = 128, kAnswersKept = 64;

std::string_view bytes_of(std::span<const int32_t> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

}  // namespace

Router::Router(const RouterOptions& options)
    : options_(options), engines_(static_cast<size_t>(options.engines)), answer_tokens_(kFirstAnswer) {
  CHECK(options.engines > 0 && options.page_rows > 0, "{} engines, {} rows", options.engines, options.page_rows);
}

uint64_t Router::next_page(uint64_t before, std::span<const int32_t> tokens) const {
  return sip_hash(bytes_of(tokens), options_.key, before);
}

Router::Prompt Router::address(const Request& request) const {
  Prompt prompt;
  prompt.kept = options_.pages > 0 && request.reuse_prefix;
  if (!prompt.kept) return prompt;
  for (const std::string* part : {&request.tenant, &request.adapter, &request.media})
    prompt.root = sip_hash(*part, options_.key, prompt.root);
  const auto rows = static_cast<size_t>(options_.page_rows);
  const size_t pages = request.prompt.size() / rows;
  prompt.pages.reserve(pages);
  uint64_t page = prompt.root;
  for (size_t i = 0; i < pages; ++i) {
    page = next_page(page, std::span(request.prompt).subspan(i * rows, rows));
    prompt.pages.push_back(page);
  }
  // The last row is always computed, and those of which something is reported.
  const int most = std::min(static_cast<int>(request.prompt.size()) - 1, request.computed_from());
  prompt.most = std::max(0, most) / options_.page_rows;
  return prompt;
}

int Router::found(const Engine& engine, const Prompt& prompt) const {
  int n = 0;
  while (n < prompt.most && engine.cache.where.contains(prompt.pages[static_cast<size_t>(n)])) ++n;
  return n * options_.page_rows;
}

void Router::use(Cache& cache, uint64_t page) {
  if (const auto known = cache.where.find(page); known != cache.where.end()) {
    cache.order.splice(cache.order.end(), cache.order, known->second);
    return;
  }
  cache.order.push_back(page);
  try {
    cache.where.emplace(page, std::prev(cache.order.end()));
  } catch (...) {
    cache.order.pop_back();
    throw;
  }
  if (cache.where.size() <= static_cast<size_t>(options_.pages)) return;
  cache.where.erase(cache.order.front());
  cache.order.pop_front();
}

double Router::left_in(const Engine& engine) {
  double rows = 0;
  for (const auto& [name, work] : engine.tenants) rows += work.rows;
  return rows;
}

double Router::left(int engine) const {
  const std::lock_guard lock(mutex_);
  return left_in(engines_[static_cast<size_t>(engine)]);
}

// Rows that the engine computes until the tenant's are done, with `rows` more of it.
double Router::done_after(const Engine& engine, const Request& request, double rows) {
  const auto own = engine.tenants.find(request.tenant);
  if (own != engine.tenants.end()) rows += own->second.rows;
  double all = rows;
  for (auto it = engine.tenants.begin(); it != engine.tenants.end(); ++it) {
    if (it != own) all += std::min(it->second.rows, rows * it->second.weight / request.weight);
  }
  return all;
}

double Router::expected_answer(const Request& request) const {
  return kAnswerRow * (request.max_tokens < 0 ? answer_tokens_ : std::min<double>(request.max_tokens, answer_tokens_));
}

std::shared_ptr<Router::Ticket> Router::assign(const Request& request, const Prompt& prompt,
                                               std::span<const char> tried) {
  const std::shared_ptr<Ticket> ticket(new Ticket(*this));
  ticket->tenant_ = request.tenant;
  ticket->kept_ = prompt.kept;
  const auto rows = static_cast<int>(request.prompt.size());
  const std::lock_guard lock(mutex_);
  const double answer = expected_answer(request);
  std::tuple<double, double, int> best{0, 0, -1};
  for (int e = 0; e < options_.engines; ++e) {
    if (tried[static_cast<size_t>(e)]) continue;
    const Engine& engine = engines_[static_cast<size_t>(e)];
    const int there = found(engine, prompt);
    const std::tuple now{done_after(engine, request, kMissedRow * (rows - there) + answer * request.choices),
                         left_in(engine), e};
    if (std::get<int>(best) >= 0 && now >= best) continue;
    best = now;
    ticket->found_ = there;
  }
  ticket->engine_ = std::get<int>(best);
  CHECK(ticket->engine_ >= 0, "no engine is left");
  Engine& engine = engines_[static_cast<size_t>(ticket->engine_)];
  const auto tail = std::span(request.prompt).subspan(prompt.pages.size() * static_cast<size_t>(options_.page_rows));
  Ticket::Answer first{.page = prompt.pages.empty() ? prompt.root : prompt.pages.back(), .rows = answer};
  if (prompt.kept) first.rest.assign(tail.begin(), tail.end());
  ticket->answers_.assign(static_cast<size_t>(request.choices), first);
  // The first pages last: they are the ones that others share, and of no use is what follows one that has gone.
  for (size_t i = prompt.pages.size(); i-- > 0;) use(engine.cache, prompt.pages[i]);
  Work& work = engine.tenants[request.tenant];
  work.weight = request.weight;
  ++work.tickets;
  ticket->reading_ = rows - ticket->found_;
  work.rows += ticket->reading_ + answer * request.choices;
  ticket->counted_ = true;
  return ticket;
}

Router::Ticket::~Ticket() {
  if (!counted_) return;
  const std::lock_guard lock(router_.mutex_);
  auto& tenants = router_.engines_[static_cast<size_t>(engine_)].tenants;
  const auto work = tenants.find(tenant_);
  if (--work->second.tickets == 0) {
    tenants.erase(work);  // with what rounding has left
    return;
  }
  work->second.rows -= reading_;
  for (const Answer& answer : answers_) work->second.rows -= answer.rows;
}

void Router::Ticket::take(const Event& event) {
  Answer& answer = answers_[static_cast<size_t>(event.choice)];
  const bool token = event.sample.token >= 0, ended = event.finish != FinishReason::kNone && answer.rows > 0;
  answer.made += token;
  // The rows of a page are all there once a token follows them.
  const bool page = token && kept_ && answer.rest.size() == static_cast<size_t>(router_.options_.page_rows);
  if (page) answer.page = router_.next_page(answer.page, answer.rest);
  if (page) answer.rest.clear();
  try {
    if (token && kept_) answer.rest.push_back(event.sample.token);
  } catch (const std::bad_alloc&) {
    kept_ = false;  // its next pages are not known
  }
  if (!page && !ended && !(token && reading_ > 0)) return;
  const std::lock_guard lock(router_.mutex_);
  Engine& engine = router_.engines_[static_cast<size_t>(engine_)];
  Work& work = engine.tenants.find(tenant_)->second;
  try {
    if (page) router_.use(engine.cache, answer.page);
  } catch (const std::bad_alloc&) {
    kept_ = false;
  }
  if (token) work.rows -= std::exchange(reading_, 0);
  if (!ended) return;
  work.rows -= std::exchange(answer.rows, 0);
  const bool whole = event.finish == FinishReason::kStop || event.finish == FinishReason::kLength;
  if (whole) router_.answer_tokens_ += (answer.made - router_.answer_tokens_) / kAnswersKept;
}

void Router::Ticket::withdraw(const Prompt& prompt) {
  const std::lock_guard lock(router_.mutex_);
  Cache& cache = router_.engines_[static_cast<size_t>(engine_)].cache;
  for (auto i = static_cast<size_t>(found_ / router_.options_.page_rows); i < prompt.pages.size(); ++i) {
    const auto known = cache.where.find(prompt.pages[i]);
    if (known == cache.where.end()) continue;
    cache.order.erase(known->second);
    cache.where.erase(known);
  }
}

}  // namespace ingot
