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
#include "serve/http/http_pace.h"
#include "serve/http/http_parse.h"
#include "serve/http/http_places.h"
#include "serve/http/http_stream.h"

namespace ingot {

class HttpConnection;

// What the connections of a server share. Only the io thread, but for the counters.
struct HttpCore {
  HttpLimits limits;
  HttpCallbacks callbacks;
  std::shared_ptr<HttpMailbox> mailbox;
  std::shared_ptr<HttpOutbox> outbox;
  std::optional<HttpPlaces> places;  // set by the server before the first connection
  std::string id_prefix;             // of request ids: differs between processes
  uint64_t last_id = 0;
  bool draining = false;
  std::atomic<size_t> body_bytes = 0;  // of bodies being read
  std::unordered_set<HttpConnection*> connections;

  struct {
    std::atomic<int64_t> accepted = 0, refused = 0, gave_way = 0, open = 0, requests = 0, bad_requests = 0;
    std::atomic<int64_t> timeouts = 0, stalled = 0, bytes_in = 0, bytes_out = 0;
  } counters;

  // As the callback, and what is sent where that fails.
  HttpResponse refusal(const HttpRefusal& refused) const;
  std::string next_id();
  // While so many further bytes do not fit into the room for bodies: of whoever has most of it, the slowest body is
  // refused. So nobody who keeps within an equal share loses one to others.
  void keep_room(size_t more);
  // While too much waits to be sent: of whoever has most of it, the slowest reader is cut.
  void keep_outbox();
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Clock = HttpPace::Clock;

  HttpConnection(HttpCore& core, boost::asio::io_context& io, std::unique_ptr<HttpStream> stream,
                 HttpPlaces::Place place, std::string address);
  ~HttpConnection();

  void start();
  // Ends after the answer in flight; at once where there is none and no part of a request has come.
  void drain();
  // Ends at once, and tells whoever answers.
  void kill();
  // Ends at once for a new connection. Who has begun to ask, or never had a place, is told so as far as that needs no
  // waiting; an idle client would take it for the answer to its next request.
  void give_way() noexcept;

  HttpPlaces::Place place() const { return place_; }
  const std::string& address() const { return address_; }
  // How long its body has been coming, or its reader taking what waits for it; 0: not for long, or nothing is.
  double seconds_slow(Clock::time_point now) const;

  // Seconds since its body began to come, or since its reader was to take what waits for it and did not; 0: neither.
  double wait_age(Clock::time_point now) const;

  // Whose the request is that came last; empty: of those unnamed.
  const std::string& payer() const { return payer_; }
  // The body that is being read: how much of it, and how slow it is (HttpPace::seconds_for).
  size_t body_bytes() const { return counted_body_; }
  double body_seconds(Clock::time_point now) const { return body_pace_.seconds_for(counted_body_, now); }
  // Refuses it with 503.
  void drop_body();
  // The answer that waits for its reader: how much memory it holds.
  size_t unsent_bytes() const { return exchange_ ? exchange_->held() : 0; }
  // How long its reader has taken and will take, at its rate, for what it holds; 0: nothing waits for it.
  double unsent_seconds(Clock::time_point now) const;
  // Ends it for that.
  void cut_reader();

 private:
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
  void rest();
  void stop_resting();
  void read_more();
  void on_read(HttpCode code, std::string_view bytes);
  void on_eof();
  void advance();
  void read_head();
  void begin_request();
  void begin_body(HttpAdmission admission);
  void read_body();
  void hand_over();
  void count_body(size_t bytes);
  void refuse(int status, std::string_view why);
  void refuse_beyond();
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
  void free_sent();
  void after_write();
  void complete_answer();
  void linger();

  // Time.
  void set_deadline(double seconds);
  void clear_deadline() { deadline_ = Clock::time_point::max(); }
  void arm();
  void on_timer();
  void expire();
  bool in_time();

  HttpCore& core_;
  const std::unique_ptr<HttpStream> stream_;
  const HttpPlaces::Place place_;
  const std::string address_;
  Stage stage_ = Stage::kHandshake;
  bool counted_ = false;                               // of core_.places and the counters
  std::optional<HttpPlaces::Idle::iterator> resting_;  // it waits for its client

  HttpReader reader_;
  bool reading_ = false, watching_ = false;
  bool ended_ = false;  // the other side sends no more
  std::string payer_;
  size_t counted_body_ = 0;  // of core_.body_bytes
  size_t body_seen_ = 0;     // bytes of the body that have come
  HttpPace body_pace_;
  Clock::time_point body_end_;  // when it must have come
  bool head_begun_ = false;     // a request's first byte has come
  size_t lingered_ = 0;         // bytes read over while lingering

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
  size_t out_held_ = 0;    // bytes of the answer's body in them, as the exchange holds them
  HttpPace answer_pace_;   // since something waits for the reader

  Clock::time_point progress_;  // when the kernel last took something

  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point armed_for_ = Clock::time_point::max();
  double deadline_seconds_ = 0;
  bool graced_ = false;
};

}  // namespace ingot
