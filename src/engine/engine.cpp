#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace ingot {

std::optional<Event> Stream::pop() {
  if (events_.empty() && std::exchange(lost_, false)) {
    return Event{.request = request_, .choice = 0, .sample = {}, .finish = FinishReason::kError};
  }
  if (events_.empty()) return {};
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<Event> Stream::next() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return !events_.empty() || open_ == 0; });
  return pop();
}

std::optional<Event> Stream::next_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, time, [this] { return !events_.empty() || open_ == 0; });
  return pop();
}

bool Stream::done() const {
  const std::lock_guard lock(mutex_);
  return events_.empty() && open_ == 0 && !lost_;
}

void Stream::push(const Event& event) {
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    try {
      events_.push_back(event);
    } catch (const std::bad_alloc&) {
      lost = lost_ = true;
      request_ = event.request;
      open_ = 0;
    }
    if (event.finish != FinishReason::kNone && open_ > 0) --open_;
  }
  wake_.notify_one();
  if (lost) throw std::bad_alloc();  // the engine ends the request
}

Engine::Engine(const Model& model, const EngineConfig& config, std::function<void(const StepFacts&)> on_step,
               SeqId first_id)
    : model_(model), config_(config), on_step_(std::move(on_step)), next_id_(first_id), local_(model, config) {
  stats_ = local_.core().stats();
  stats_.kv_bytes = local_.device().kv_bytes();
  device_ = local_.device().use();
  local_.core().while_running = [this] { deliver(); };
  thread_ = std::thread([this] { loop(); });
}

DeviceUse Engine::device() const {
  DeviceUse now = device_;
  now.free_bytes = local_.device().free_bytes();
  return now;
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::string Engine::refuse(const Request& request) {
  std::string reason = local_.core().refusal(request);
  const std::lock_guard lock(mutex_);
  refused_ += !reason.empty();
  return reason;
}

Submitted Engine::offer(Request& request, std::function<void(const Event&)>& on_event) {
  const int64_t now = now_ns();
  SeqId id = -1;
  {
    const std::lock_guard lock(mutex_);
    // Whoever finds a free seq does not wait.
    const int free = std::max(0, config_.max_seqs - stats_.running);
    Admission::Answer answer;
    if (inbox_.size() == inbox_.capacity()) inbox_.reserve(2 * inbox_.size() + 8);  // who is let in is not lost
    if (!draining_ && !stop_) answer = local_.core().admission().ask(request, free);
    if (!answer.in) {
      return {.id = -1, .refused = {}, .busy = true, .late = answer.late, .retry_seconds = answer.retry_seconds};
    }
    id = next_id_;
    next_id_ += request.choices;
    inbox_.push_back({.id = id, .came_ns = now, .request = std::move(request), .on_event = std::move(on_event)});
    if (live_ == 0) progress_ns_ = now;
    ++live_;
    ++queued_;
  }
  wake_.notify_one();
  return {.id = id, .refused = {}};
}

Submitted Engine::submit(Request request, std::function<void(const Event&)> on_event) {
  if (std::string reason = refuse(request); !reason.empty()) return {.id = -1, .refused = std::move(reason)};
  Submitted submitted = offer(request, on_event);
  if (submitted.busy) {
    const std::lock_guard lock(mutex_);
    ++busy_;
    late_ += submitted.late;
  }
  return submitted;
}

Submission Engine::submit(Request request) {
  auto stream = std::make_shared<Stream>();
  stream->open_ = request.choices;
  const Submitted submitted = submit(std::move(request), [stream](const Event& event) { stream->push(event); });
  if (submitted.id < 0) {
    return {.id = -1,
            .stream = nullptr,
            .refused = submitted.refused,
            .busy = submitted.busy,
            .late = submitted.late,
            .retry_seconds = submitted.retry_seconds};
  }
  return {.id = submitted.id, .stream = std::move(stream), .refused = {}};
}

void Engine::cancel(SeqId id) { cancel(id, -1); }

void Engine::cancel(SeqId id, int choice) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back({.id = id, .choice = choice, .request = {}, .on_event = {}});
  }
  wake_.notify_one();
}

bool Engine::drain(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return quiet_.wait_for(lock, time, [this] { return live_ == 0; });
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.busy = busy_;
  stats.late = late_;
  stats.refused = refused_;
  stats.waiting += queued_;
  return stats;
}

double Engine::stalled_seconds() const {
  const std::lock_guard lock(mutex_);
  return live_ == 0 ? 0 : std::max(0.0, 1e-9 * static_cast<double>(now_ns() - progress_ns_));
}

void Engine::call(const std::function<void(LocalEngine&)>& body) {
  std::unique_lock lock(mutex_);
  std::exception_ptr threw;
  inbox_.push_back({.id = -1, .request = {}, .on_event = {}, .call = &body, .threw = &threw});
  const int64_t mine = ++calls_posted_;
  wake_.notify_one();
  quiet_.wait(lock, [&] { return calls_done_ >= mine; });
  if (threw) std::rethrow_exception(threw);
}

void Engine::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait(lock, [this] { return stop_ || !inbox_.empty() || !local_.idle(); });
    std::vector<Post> posts = std::exchange(inbox_, {});
    stats_.waiting += std::exchange(queued_, 0);  // until the step has counted them
    lock.unlock();
    take_posts(std::move(posts));
    if (!local_.idle()) run_step();
    local_.core().tell_admission();
    EngineStats now = local_.core().stats();
    now.experts = local_.device().expert_use();
    lock.lock();
    now.kv_bytes = stats_.kv_bytes;
    if (now.steps != stats_.steps) progress_ns_ = now_ns();
    stats_ = now;
  }
  // Who came during the last step is answered too, and what that step made is handed out.
  std::vector<Post> posts = std::exchange(inbox_, {});
  lock.unlock();
  take_posts(std::move(posts));
  land();
  deliver();
  while (!channels_.empty()) finish(channels_.begin()->first, FinishReason::kCancelled);
}

void Engine::run_step() {
  const int64_t before = local_.core().n_steps();
  const std::span<Event> events = local_.step();
  if (on_step_ && local_.core().n_steps() != before) {
    try {
      on_step_(local_.core().last_step());
    } catch (...) {
      // A count is missing: no request ends for that.
    }
  }
  deliver();  // of the step before, where there was nothing to launch
  try {
    undelivered_.reserve(events.size());
  } catch (const std::bad_alloc&) {
    for (const Event& event : events) deliver(event);
    return;
  }
  undelivered_.insert(undelivered_.end(), std::make_move_iterator(events.begin()),
                      std::make_move_iterator(events.end()));
  if (local_.idle()) deliver();
}

// Whoever is called finds the model at rest.
void Engine::land() {
  local_.core().run_ahead = false;
  while (local_.core().flying()) run_step();
  local_.core().run_ahead = true;
}

void Engine::take_posts(std::vector<Post> posts) {
  for (const SeqId id : gone_) local_.cancel(id);
  gone_.clear();
  int64_t calls = 0;
  for (Post& post : posts) {
    if (post.call) {
      land();
      deliver();
      try {
        (*post.call)(local_);
      } catch (...) {
        *post.threw = std::current_exception();
      }
      ++calls;
    } else if (post.request) {
      admit(post);
    } else if (post.choice >= 0) {
      cancel_choice(post.id, post.choice);
    } else if (local_.cancel(post.id)) {
      deliver();  // what was made before comes first
      finish(post.id, FinishReason::kCancelled);
    }
  }
  if (calls == 0) return;
  const std::lock_guard lock(mutex_);
  calls_done_ += calls;
  quiet_.notify_all();
}

void Engine::admit(Post& post) {
  local_.core().admission().arrived(*post.request);
  const auto choices = static_cast<size_t>(post.request->choices);
  try {
    gone_.reserve(channels_.size() + 1);
    channels_.emplace(post.id, Channel{std::move(post.on_event), std::vector<char>(choices, 1)});
    if (local_.core().submit(std::move(*post.request), post.id, post.came_ns).id >= 0) return;
  } catch (...) {
    // Ended below: there is no memory for it, or its constraint cannot be cloned.
  }
  if (channels_.contains(post.id)) {
    finish(post.id, FinishReason::kError);
  } else {
    close(post.id);
  }
}

// The choices that have not ended do so for this reason.
void Engine::finish(SeqId id, FinishReason reason) {
  for (size_t c = 0;; ++c) {
    const auto it = channels_.find(id);  // delivering the last one closes it
    if (it == channels_.end() || c >= it->second.open.size()) return;
    if (it->second.open[c])
      deliver(Event{.request = id, .choice = static_cast<int>(c), .sample = {}, .finish = reason});
  }
}

void Engine::cancel_choice(SeqId id, int choice) {
  if (!local_.cancel(id, choice)) return;
  deliver();  // what was made before comes first
  const auto it = channels_.find(id);
  if (it == channels_.end() || !it->second.open[static_cast<size_t>(choice)]) return;
  deliver(Event{.request = id, .choice = choice, .sample = {}, .finish = FinishReason::kCancelled});
}

void Engine::deliver() {
  for (const Event& event : undelivered_) deliver(event);
  undelivered_.clear();
}

void Engine::deliver(const Event& event) {
  const auto it = channels_.find(event.request);
  if (it == channels_.end()) return;  // cancelled
  Channel& channel = it->second;
  bool threw = false;
  try {
    channel.on_event(event);
  } catch (...) {
    threw = true;
  }
  if (event.finish != FinishReason::kNone) channel.open[static_cast<size_t>(event.choice)] = 0;
  if (threw) gone_.push_back(event.request);
  if (threw || std::ranges::none_of(channel.open, [](char open) { return open != 0; })) close(event.request);
}

void Engine::close(SeqId id) {
  channels_.erase(id);
  const std::lock_guard lock(mutex_);
  if (--live_ == 0) quiet_.notify_all();
}

}  // namespace ingot
