// The engine as the rest of the program uses it. This border, and no other part of the engine, is thread-safe: any
// thread submits, reads and cancels; one thread of the engine's own runs the steps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/local_engine.h"

namespace ingot {

// What a request's caller reads. Ends with an event whose `finish` is set for every choice.
// Thread-safe for one reader.
class Stream {
 public:
  // The next event; empty once every choice has ended. Waits for it.
  std::optional<Event> next();
  // Likewise, but empty too where none came within `time`.
  std::optional<Event> next_for(std::chrono::milliseconds time);
  // Every choice has ended and every event was read.
  bool done() const;

 private:
  friend class Engine;
  void push(const Event& event);
  std::optional<Event> pop();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Event> events_;
  int open_ = 1;  // choices that have not ended
  SeqId request_ = 0;
  bool lost_ = false;  // there was no memory for an event: the last one says so
};

// Either a stream, or why there is none.
struct Submission {
  SeqId id = -1;
  std::shared_ptr<Stream> stream;
  std::string refused;  // why the request can never be served
  bool busy = false;    // not now: as Submitted::busy, or the engine drains
  bool late = false;    // as Submitted::late
  double retry_seconds = 0;
};

class Engine {
 public:
  // An engine has so many ids for its requests.
  static constexpr SeqId kIds = SeqId{1} << 40;

  // `model` must outlive the engine. `on_step` is called after each step by the engine's thread; it must not wait, and
  // what it throws is lost. Its ids are those from `first_id` on: above those of cores, which calls may use.
  Engine(const Model& model, const EngineConfig& config, std::function<void(const StepFacts&)> on_step = {},
         SeqId first_id = kIds);
  // Cancels what is left.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Submission submit(Request request);
  // As above, but `on_event` is called with each event by the engine's thread: it must not wait. One that throws ends
  // its own request.
  Submitted submit(Request request, std::function<void(const Event&)> on_event);
  // submit() in two parts, for who has several engines. Why the request can never be served, counted; empty: it can.
  std::string refuse(const Request& request);
  // Takes both unless it is busy, which is not counted: then they stay as they are. REQUIRES: refuse() returned empty.
  Submitted offer(Request& request, std::function<void(const Event&)>& on_event);
  // The request's choices end with kCancelled; nothing where it has ended.
  void cancel(SeqId id);
  // One choice ends with kCancelled, the others go on: its reader has enough.
  void cancel(SeqId id, int choice);

  // From now on every submission is told that the engine is busy. Returns whether all requests had ended in time.
  bool drain(std::chrono::milliseconds time);
  EngineStats stats() const;
  // Why no request is answered any more: as DeviceModel::lost().
  std::string lost() const { return local_.device().lost(); }
  // How long there have been requests without a step: 0 where there are none. A watchdog's question.
  double stalled_seconds() const;

  // Runs `body` on the engine's thread between two steps, and returns when it has; throws what it throws.
  void call(const std::function<void(LocalEngine&)>& body);

  const Model& model() const { return model_; }
  const EngineConfig& config() const { return config_; }
  DeviceUse device() const;  // as of now

 private:
  struct Post {
    SeqId id = -1;
    int choice = -1;  // of a cancel: this one alone; -1: all
    int64_t came_ns = 0;
    std::optional<Request> request;  // none: cancel
    std::function<void(const Event&)> on_event;
    const std::function<void(LocalEngine&)>* call = nullptr;
    std::exception_ptr* threw = nullptr;  // by the call
  };
  struct Channel {
    std::function<void(const Event&)> on_event;
    std::vector<char> open;  // [choices] not ended yet
  };

  void loop();
  void run_step();
  void land();
  void take_posts(std::vector<Post> posts);
  void admit(Post& post);
  void finish(SeqId id, FinishReason reason);
  void cancel_choice(SeqId id, int choice);
  int64_t now_ns() const { return local_.core().options().now_ns(); }
  void deliver();
  void deliver(const Event& event);
  void close(SeqId id);

  const Model& model_;
  const EngineConfig config_;
  const std::function<void(const StepFacts&)> on_step_;
  DeviceUse device_;  // as of the start

  mutable std::mutex mutex_;
  std::condition_variable wake_;   // the engine's thread
  std::condition_variable quiet_;  // who waits for calls and for the drain
  // Guarded by mutex_.
  std::vector<Post> inbox_;
  EngineStats stats_;
  int64_t calls_done_ = 0, calls_posted_ = 0;
  int live_ = 0;             // requests that have not ended
  int queued_ = 0;           // of them, those that the engine's thread has not seen yet
  int64_t progress_ns_ = 0;  // when the last step ended, or the first request came since
  int64_t busy_ = 0, late_ = 0, refused_ = 0;
  bool draining_ = false;
  bool stop_ = false;
  SeqId next_id_;

  // The engine's thread alone.
  LocalEngine local_;
  std::unordered_map<SeqId, Channel> channels_;
  std::vector<Event> undelivered_;  // of the last step: handed out while the next one runs
  std::vector<SeqId> gone_;         // their callbacks threw: cancelled before the next step

  std::thread thread_;
};

}  // namespace ingot
