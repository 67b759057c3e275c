#include "serve/http/http_connection.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "serve/http/http_format.h"

namespace ingot {

namespace {

constexpr size_t kPipelinedBytes = 64 << 10;  // read ahead while an answer is in flight
constexpr size_t kLingerBytes = 16 << 20;
constexpr size_t kReadOver = 64 << 10;  // of the body of a request that is refused by its head
constexpr double kProbeSeconds = 0.05;
constexpr double kLingerSeconds = 2;
constexpr std::chrono::seconds kStallGrace{1};

}  // namespace

HttpConnection::HttpConnection(HttpCore& core, boost::asio::io_context& io, std::unique_ptr<HttpStream> stream)
    : core_(core), stream_(std::move(stream)), reader_(core.limits), timer_(io) {
  core_.connections.insert(this);
}

HttpConnection::~HttpConnection() { kill(); }

void HttpConnection::start() {
  counted_ = true;
  ++core_.counters.open;
  enter(Stage::kHandshake, core_.limits.header_seconds);
  stream_->start([self = shared_from_this()](HttpCode code) {
    self->guarded([&] {
      if (code || self->core_.draining) return self->kill();
      self->enter(Stage::kHead, self->core_.limits.idle_seconds);
      self->advance();
    });
  });
}

void HttpConnection::turn_away() {
  turned_away_ = true;
  ++core_.turned_away;
  answer(refusal(503, "too many connections"));
}

void HttpConnection::drain() {
  if (stage_ == Stage::kHead && reader_.buffered() == 0 && !writing_) kill();
}

void HttpConnection::kill() {
  if (stage_ == Stage::kClosed) return;
  if (turned_away_) --core_.turned_away;
  if (counted_) --core_.counters.open;
  stage_ = Stage::kClosed;
  core_.connections.erase(this);
  count_body(0);
  try {
    timer_.cancel();
  } catch (...) {  // it holds this object until it fires, and does nothing then
  }
  stream_->close();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->leave();
}

// ---- Reading ----

void HttpConnection::enter(Stage stage, double seconds) {
  stage_ = stage;
  set_deadline(seconds);
}

// A read is always in flight, also while an answer is: so it is seen when the client goes.
void HttpConnection::read_more() {
  if (reading_ || ended_ || stage_ == Stage::kClosed) return;
  if (stage_ == Stage::kAnswer && reader_.buffered() >= kPipelinedBytes) return watch_for_reset();
  reading_ = true;
  stream_->read([self = shared_from_this()](HttpCode code, std::string_view bytes) {
    self->reading_ = false;
    self->guarded([&] { self->on_read(code, bytes); });
  });
}

void HttpConnection::on_read(HttpCode code, std::string_view bytes) {
  if (code == boost::asio::error::eof) return on_eof();
  if (code) return kill();
  core_.counters.bytes_in += static_cast<int64_t>(bytes.size());
  if (stage_ == Stage::kLinger) {
    lingered_ += bytes.size();
    if (lingered_ > kLingerBytes) return kill();
    return read_more();
  }
  reader_.append(bytes);
  advance();
}

// The client sends no more: it has gone, or it has closed its half and waits for the answer. The difference shows when
// something is sent to it: one that has gone answers with a reset. So where no part of the answer is there soon, a
// harmless "100 Continue" is sent.
void HttpConnection::on_eof() {
  ended_ = true;
  if (stage_ == Stage::kClosed) return;
  const bool partial = stage_ == Stage::kBody || (stage_ == Stage::kHead && reader_.buffered() > 0);
  if (partial && stream_->half_closes()) return refuse(400, "the request ends early");
  if (stage_ != Stage::kAnswer || !stream_->half_closes()) return kill();
  watch_for_reset();
  if (!begun_ && !writing_ && minor_ == 1) {
    probe_ = true;
    set_deadline(kProbeSeconds);
  }
}

void HttpConnection::watch_for_reset() {
  if (watching_) return;
  watching_ = true;
  stream_->wait_for_reset([self = shared_from_this()] {
    self->watching_ = false;
    self->guarded([&] { self->kill(); });
  });
}

// Goes on with what has been read.
void HttpConnection::advance() {
  if (stage_ == Stage::kHead) read_head();
  if (stage_ == Stage::kBody) read_body();
  if (ended_) return on_eof();
  read_more();
}

void HttpConnection::read_head() {
  if (reader_.buffered() == 0) return;
  const auto progress = reader_.read_head();
  if (progress == HttpReader::Progress::kRefused) return refuse(reader_.problem().status, reader_.problem().why);
  if (progress == HttpReader::Progress::kReady) return begin_request();
  // From the first byte on, however slowly the others come.
  if (!head_begun_) {
    head_begun_ = true;
    set_deadline(core_.limits.header_seconds);
  }
}

void HttpConnection::begin_request() {
  ++core_.counters.requests;
  HttpHead& head = reader_.head();
  head.id = id_ = core_.next_id();
  path_ = head.path;
  head_only_ = head.method == "HEAD";
  minor_ = reader_.minor();
  keep_alive_ = reader_.keep_alive();
  std::optional<HttpResponse> early;
  try {
    if (core_.callbacks.check) early = core_.callbacks.check(head);
  } catch (...) {
    early = refusal(500, "internal error");
  }
  if (early) {
    // A small body is read over, so that the connection can go on: under overload a new one for each refusal would
    // cost more than the refusal. Otherwise what follows is not a request.
    const bool read_over = reader_.body_within(kReadOver) && !reader_.expects_continue();
    if (!read_over) early->close = true;
    if (!read_over || !reader_.has_body()) return answer(std::move(*early));
    early_ = std::move(early);
  }
  enter(Stage::kBody, core_.limits.body_seconds);
  if (reader_.expects_continue() && reader_.has_body() && reader_.buffered() == 0) {
    interim_ = "HTTP/1.1 100 Continue\r\n\r\n";
    pump();
  }
}

void HttpConnection::read_body() {
  const auto progress = reader_.read_body();
  if (progress == HttpReader::Progress::kRefused) return refuse(reader_.problem().status, reader_.problem().why);
  count_body(reader_.body_size());
  if (core_.body_bytes > core_.limits.bodies_bytes) return refuse(503, "too many requests are being read");
  if (progress != HttpReader::Progress::kReady) return;
  if (!early_) return hand_over();
  count_body(0);
  answer(*std::exchange(early_, std::nullopt));
}

void HttpConnection::count_body(size_t bytes) {
  core_.body_bytes += bytes;
  core_.body_bytes -= counted_body_;
  counted_body_ = bytes;
}

void HttpConnection::hand_over() {
  count_body(0);
  std::shared_ptr<Responder> responder = make_responder(open_exchange());
  HttpRequest request{std::move(reader_.head()), reader_.take_body()};
  request.head.received = Clock::now();
  try {
    core_.callbacks.handle(std::move(request), responder);
  } catch (...) {
    responder->send(refusal(500, "internal error"));
    responder->abort();  // where an answer had begun
  }
}

void HttpConnection::refuse(int status, std::string_view why) {
  ++core_.counters.bad_requests;
  count_body(0);
  HttpResponse response = refusal(status, why);
  response.close = true;
  answer(std::move(response));
}

HttpResponse HttpConnection::refusal(int status, std::string_view why) {
  if (id_.empty()) id_ = core_.next_id();  // its head was not read, or not to its end
  return core_.refusal({.status = status, .why = why, .path = path_.empty() ? reader_.path() : path_, .id = id_});
}

// ---- Answering ----

std::shared_ptr<HttpExchange> HttpConnection::open_exchange() {
  stage_ = Stage::kAnswer;
  clear_deadline();
  if (writing_) set_deadline(core_.limits.write_seconds);
  begun_ = chunked_ = no_body_ = finished_ = aborted_ = false;
  exchange_ = std::make_shared<HttpExchange>(
      core_.mailbox,
      [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->wake();
      },
      core_.limits.unsent_bytes);
  return exchange_;
}

void HttpConnection::wake() {
  guarded([&] {
    if (too_slow()) {
      ++core_.counters.stalled;
      return kill();
    }
    pump();
  });
}

// Too much waits for the reader, and it has taken nothing for a while: a burst that it is taking is let through.
bool HttpConnection::too_slow() const {
  if (!exchange_ || !writing_) return false;
  const bool crowded = exchange_->unsent() > core_.limits.unsent_bytes && Clock::now() - progress_ > kStallGrace;
  return crowded || exchange_->overflowed();
}

// An answer that is there as a whole.
void HttpConnection::answer(HttpResponse response) {
  open_exchange()->send(std::move(response));
  pump();
  read_more();
}

// Takes what there is to send, unless something is being sent: so many small writes become one.
void HttpConnection::pump() {
  if (writing_ || stage_ == Stage::kClosed || stage_ == Stage::kLinger) return;
  out_head_.clear();
  out_body_.clear();
  out_done_ = out_answer_ = 0;
  if (!interim_.empty()) {
    out_head_ = std::move(interim_);
    interim_.clear();
    return write_some();
  }
  if (stage_ != Stage::kAnswer || !exchange_) return;
  if (exchange_->overflowed()) {  // what was left out cannot come any more
    ++core_.counters.stalled;
    return kill();
  }
  HttpExchange::Output output = exchange_->take();
  if (output.forgotten) {
    output.response = refusal(500, "internal error");
    output.finished = true;
  }
  if (output.empty()) return;
  if (output.response) begin_answer(output);
  frame_bytes(output);
  finished_ = output.finished;
  aborted_ = output.aborted;
  if (out_head_.empty() && out_body_.empty()) return after_write();
  write_some();
}

void HttpConnection::begin_answer(HttpExchange::Output& output) {
  HttpResponse& response = *output.response;
  begun_ = true;
  probe_ = false;
  const bool streamed = output.streamed && !output.finished;
  if (!output.streamed) output.bytes = std::move(response.body);
  no_body_ = head_only_ || bodyless(response.status);
  HttpFrame frame;
  frame.length = output.bytes.size();
  if (streamed) frame.framing = minor_ == 1 ? HttpFraming::kChunked : HttpFraming::kClose;
  chunked_ = frame.framing == HttpFraming::kChunked;
  keep_alive_ = keep_alive_ && !response.close && !core_.draining && frame.framing != HttpFraming::kClose;
  // A client that has closed its half may have sent further requests before.
  keep_alive_ = keep_alive_ && (!ended_ || reader_.buffered() > 0);
  frame.keep_alive = keep_alive_;
  frame.minor = minor_;
  frame.id = id_;
  out_head_ = response_head(response, frame);
}

// The answer's bytes with what tells their end.
void HttpConnection::frame_bytes(HttpExchange::Output& output) {
  out_answer_ = output.bytes.size();
  if (no_body_) {
    exchange_->taken(std::exchange(out_answer_, 0));
    return;
  }
  out_body_ = std::move(output.bytes);
  if (!chunked_) return;
  if (!out_body_.empty()) {
    out_head_ += chunk_prefix(out_body_.size());
    out_body_ += "\r\n";
  }
  if (output.finished) out_body_ += "0\r\n\r\n";
}

void HttpConnection::write_some() {
  writing_ = true;
  progress_ = Clock::now();
  if (stage_ == Stage::kAnswer) set_deadline(core_.limits.write_seconds);
  const size_t in_head = std::min(out_done_, out_head_.size());
  const size_t in_body = out_done_ - in_head;
  const HttpBuffers buffers = {boost::asio::buffer(out_head_.data() + in_head, out_head_.size() - in_head),
                               boost::asio::buffer(out_body_.data() + in_body, out_body_.size() - in_body)};
  stream_->write(buffers, [self = shared_from_this()](HttpCode code, size_t count) {
    self->guarded([&] { self->on_written(code, count); });
  });
}

void HttpConnection::on_written(HttpCode code, size_t count) {
  if (code) return kill();
  core_.counters.bytes_out += static_cast<int64_t>(count);
  out_done_ += count;
  const size_t of_answer = std::min(out_answer_, count);
  out_answer_ -= of_answer;
  if (exchange_) exchange_->taken(of_answer);
  if (out_done_ < out_head_.size() + out_body_.size()) return write_some();
  writing_ = false;
  if (stage_ == Stage::kAnswer) clear_deadline();
  after_write();
}

void HttpConnection::after_write() {
  if (aborted_) return kill();
  if (finished_) return complete_answer();
  pump();
}

void HttpConnection::complete_answer() {
  exchange_.reset();
  out_head_ = {};
  out_body_ = {};
  if (!keep_alive_ || core_.draining) return linger();
  finished_ = head_begun_ = head_only_ = false;
  minor_ = 1;
  id_.clear();
  path_.clear();
  reader_.next();
  enter(Stage::kHead, core_.limits.idle_seconds);
  advance();
}

// Ends our half, and reads over what still comes: closing with unread bytes would make the kernel reset the connection,
// and the client could lose the answer.
void HttpConnection::linger() {
  if (ended_) return kill();
  enter(Stage::kLinger, kLingerSeconds);
  stream_->shutdown_send(shared_from_this());
  read_more();
}

// ---- Time ----

void HttpConnection::set_deadline(double seconds) {
  deadline_seconds_ = seconds;
  graced_ = false;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  arm();
}

// The timer is moved only where it would fire too late; one that fires too early is armed again. So a deadline that is
// set for every token costs nothing.
void HttpConnection::arm() {
  if (armed_for_ <= deadline_) return;
  armed_for_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](HttpCode code) {
    if (code == boost::asio::error::operation_aborted) return;
    self->guarded([&] { self->on_timer(); });
  });
}

void HttpConnection::on_timer() {
  const auto now = Clock::now();
  if (now < armed_for_) return;  // an earlier wait that had fired when the timer was moved
  armed_for_ = Clock::time_point::max();
  if (deadline_ == Clock::time_point::max()) return;
  if (now < deadline_) return arm();
  if (!graced_ && !probe_) {
    // What has come meanwhile is read first: the process may have been stopped past the deadline, with the request
    // waiting in the socket.
    graced_ = true;
    const double late = std::chrono::duration<double>(now - deadline_).count();
    const double grace = std::min(std::max(late, 0.25), std::max(deadline_seconds_, 0.25));
    deadline_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(grace));
    return arm();
  }
  expire();
}

void HttpConnection::expire() {
  clear_deadline();
  if (std::exchange(probe_, false)) {
    if (begun_ || writing_) return;
    interim_ = "HTTP/1.1 100 Continue\r\n\r\n";
    return pump();
  }
  switch (stage_) {
    case Stage::kHead:
      if (reader_.buffered() == 0) return kill();
      [[fallthrough]];
    case Stage::kBody:
      ++core_.counters.timeouts;
      return refuse(408, "the request came too slowly");
    case Stage::kHandshake:
      ++core_.counters.timeouts;
      return kill();
    case Stage::kAnswer:
      ++core_.counters.stalled;
      return kill();
    default:
      return kill();
  }
}

}  // namespace ingot
