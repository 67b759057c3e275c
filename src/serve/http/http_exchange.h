// One request's answer on its way from whoever gives it (any thread) to the connection (the io thread).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/http/http.h"

namespace ingot {

class HttpExchange;

// The bytes of all answers that wait for their readers, whole ones and parts of streams alike. Any thread.
class HttpOutbox {
 public:
  explicit HttpOutbox(size_t limit) : limit_(limit) {}
  void add(size_t bytes) { held_ += bytes; }
  void remove(size_t bytes) { held_ -= bytes; }
  size_t held() const { return held_; }
  bool over() const { return held_ > limit_; }

 private:
  const size_t limit_;
  std::atomic<size_t> held_ = 0;
};

// The way to the io thread, which outlives the server: what comes after its end is dropped.
class HttpMailbox {
 public:
  using Poster = std::function<void(std::function<void()>)>;

  // `kick` makes the io thread call wake_lost() soon; unlike the poster it needs no memory.
  HttpMailbox(Poster poster, std::function<void()> kick) : poster_(std::move(poster)), kick_(std::move(kick)) {}
  // False where the server has ended; `body` was not taken then.
  bool post(std::function<void()> body);
  // Lets the io thread look at the exchange. Never throws: where there is no memory for a message, the exchange itself
  // waits in a list.
  bool wake(const std::shared_ptr<HttpExchange>& exchange) noexcept;
  // The io thread's: those that wait there.
  void wake_lost();
  void close();

 private:
  std::mutex mutex_;
  Poster poster_;
  std::function<void()> kick_;
  std::shared_ptr<HttpExchange> lost_;  // the first of the list
};

class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
 public:
  // What is there to send now.
  struct Output {
    std::optional<HttpResponse> response;  // begins here; the whole answer where `streamed` is false
    bool streamed = false;
    std::string bytes;
    bool finished = false;   // nothing follows
    bool aborted = false;    // cut the connection after it
    bool forgotten = false;  // nobody will answer
    bool empty() const { return !response && bytes.empty() && !finished && !aborted && !forgotten; }
  };

  // `wake` is called by the io thread after something was given, and for every piece beyond a limit, the stream's own
  // or the outbox's.
  HttpExchange(std::shared_ptr<HttpMailbox> mailbox, std::shared_ptr<HttpOutbox> outbox, std::function<void()> wake,
               size_t unsent_limit)
      : mailbox_(std::move(mailbox)), outbox_(std::move(outbox)), wake_(std::move(wake)), unsent_limit_(unsent_limit) {}
  ~HttpExchange() { free_all(); }

  // The giver's side, any thread: as Responder.
  void send(HttpResponse response);
  void start(HttpResponse head);
  void write(std::string bytes);
  void finish();
  void abort();
  void forget();
  bool gone() const { return gone_.load(); }
  size_t unsent() const { return unsent_.load(); }
  void on_close(std::function<void()> callback);

  // The io thread's side.
  Output take();
  // So many bytes of the answer were taken by the kernel.
  void taken(size_t bytes) { unsent_.fetch_sub(bytes); }
  // Bytes of memory that the answer holds, here and with the connection that took them.
  size_t held() const { return held_.load(); }
  // The connection has given so many of them back; all.
  void freed(size_t bytes);
  void free_all() { outbox_->remove(held_.exchange(0)); }
  // Far more than the limit waits for the reader, and something was left out.
  bool overflowed() const { return overflowed_.load(); }
  // The client has gone, or the server ends.
  void leave();
  // Something was given.
  void look() {
    if (!gone()) wake_();
  }

 private:
  friend class HttpMailbox;
  void wake_up();  // with mutex_ held
  void end();      // with mutex_ held: the answer is complete
  void hold(size_t bytes);

  const std::shared_ptr<HttpMailbox> mailbox_;
  const std::shared_ptr<HttpOutbox> outbox_;
  const std::function<void()> wake_;
  const size_t unsent_limit_;
  std::atomic<bool> gone_ = false, overflowed_ = false;
  std::atomic<size_t> unsent_ = 0, held_ = 0;
  size_t largest_ = 0;  // piece so far

  std::mutex mutex_;
  Output output_;
  bool begun_ = false, ended_ = false, woken_ = false;
  std::shared_ptr<HttpExchange> next_lost_;  // guarded by the mailbox's mutex
  bool is_lost_ = false;                     // likewise: it is in the list
  std::vector<std::function<void()>> on_close_;
};

std::shared_ptr<Responder> make_responder(std::shared_ptr<HttpExchange> exchange);

}  // namespace ingot
