// One connection: reads requests, has them answered one after the other, and ends by its deadlines. Only the io thread
// calls it.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "serve/http/http.h"
#include "serve/http/http_exchange.h"
#include "serve/http/http_parse.h"
#include "serve/http/http_stream.h"

namespace ingot {

class HttpConnection;

// What the connections of a server share. Only the io thread, but for the counters.
struct HttpCore {
  HttpLimits limits;
  HttpCallbacks callbacks;
  std::shared_ptr<HttpMailbox> mailbox;
  std::string id_prefix;  // of request ids: differs between processes
  uint64_t last_id = 0;
  bool draining = false;
  size_t body_bytes = 0;  // of bodies being read
  int turned_away = 0;    // connections beyond the limit that are still told so
  std::unordered_set<HttpConnection*> connections;

  struct {
    std::atomic<int64_t> accepted = 0, refused = 0, open = 0, requests = 0, bad_requests = 0;
    std::atomic<int64_t> timeouts = 0, stalled = 0, bytes_in = 0, bytes_out = 0;
  } counters;

  // As the callback, and what is sent where that fails.
  HttpResponse refusal(const HttpRefusal& refused) const;
  std::string next_id();
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpCore& core, boost::asio::io_context& io, std::unique_ptr<HttpStream> stream);
  ~HttpConnection();

  void start();
  // Answers with 503 and nothing else: there are too many.
  void turn_away();
  // Ends after the answer in flight; at once where there is none and no part of a request has come.
  void drain();
  // Ends at once, and tells whoever answers.
  void kill();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kHandshake, kHead, kBody, kAnswer, kLinger, kClosed };

  // An exception of a handler or of an allocation costs this connection and no other.
  template <class F>
  void guarded(F&& body) {
    if (stage_ == Stage::kClosed) return;
    try {
      body();
    } catch (...) {
      kill();
    }
  }

  // Reading.
  void enter(Stage stage, double seconds);
  void read_more();
  void on_read(HttpCode code, std::string_view bytes);
  void on_eof();
  void advance();
  void read_head();
  void begin_request();
  void read_body();
  void hand_over();
  void count_body(size_t bytes);
  void refuse(int status, std::string_view why);
  HttpResponse refusal(int status, std::string_view why);
  void watch_for_reset();

  // Answering.
  void answer(HttpResponse response);
  std::shared_ptr<HttpExchange> open_exchange();
  void wake();
  bool too_slow() const;
  void pump();
  void begin_answer(HttpExchange::Output& output);
  void frame_bytes(HttpExchange::Output& output);
  void write_some();
  void on_written(HttpCode code, size_t count);
  void after_write();
  void complete_answer();
  void linger();

  // Time.
  void set_deadline(double seconds);
  void clear_deadline() { deadline_ = Clock::time_point::max(); }
  void arm();
  void on_timer();
  void expire();

  HttpCore& core_;
  const std::unique_ptr<HttpStream> stream_;
  Stage stage_ = Stage::kHandshake;
  bool counted_ = false, turned_away_ = false;

  HttpReader reader_;
  bool reading_ = false, watching_ = false;
  bool ended_ = false;       // the other side sends no more
  size_t counted_body_ = 0;  // of core_.body_bytes
  bool head_begun_ = false;  // a request's first byte has come
  size_t lingered_ = 0;      // bytes read over while lingering

  std::optional<HttpResponse> early_;  // the answer, once the body has been read over

  // The request that is answered.
  std::shared_ptr<HttpExchange> exchange_;
  std::string id_, path_;
  bool head_only_ = false;  // HEAD
  int minor_ = 1;
  bool keep_alive_ = false;
  bool begun_ = false;  // the answer's head is on its way
  bool chunked_ = false, no_body_ = false;
  bool finished_ = false;  // what is being written is the last of the answer
  bool aborted_ = false;
  bool probe_ = false;  // the deadline is that of the probe of a half-closed connection

  // What is being written.
  bool writing_ = false;
  std::string interim_;  // 100 Continue, before all else
  std::string out_head_, out_body_;
  size_t out_done_ = 0;    // of both
  size_t out_answer_ = 0;  // bytes of the answer's body in them that are not yet taken

  Clock::time_point progress_;  // when the kernel last took something

  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point armed_for_ = Clock::time_point::max();
  double deadline_seconds_ = 0;
  bool graced_ = false;
};

}  // namespace ingot
