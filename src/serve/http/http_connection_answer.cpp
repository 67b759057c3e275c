// The half of a connection that writes: what is to be sent, and who reads it too slowly.
#include <algorithm>
#include <new>
#include <utility>

#include "serve/http/http_connection.h"
#include "serve/http/http_format.h"

namespace ingot {

namespace {

constexpr std::chrono::seconds kStallGrace{1};
constexpr double kFreshSeconds = 0.25;
constexpr double kLingerSeconds = 2;
constexpr size_t kFreeBytes = 1 << 20;  // of an answer that has been sent: worth a copy of the rest

}  // namespace

std::shared_ptr<HttpExchange> HttpConnection::open_exchange() {
  stage_ = Stage::kAnswer;
  stop_resting();
  clear_deadline();
  if (writing_) set_deadline(core_.limits.write_seconds);
  begun_ = chunked_ = no_body_ = finished_ = aborted_ = false;
  exchange_ = std::make_shared<HttpExchange>(
      core_.mailbox, core_.outbox,
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
    core_.keep_outbox();
  });
}

double HttpConnection::unsent_seconds(Clock::time_point now) const {
  const size_t held = unsent_bytes();
  if (held == 0) return 0;
  const double age = writing_ ? answer_pace_.age(now) : 0;
  if (age > kFreshSeconds) return age + answer_pace_.seconds_for(held, now);
  // Nothing is known of these yet: they come last, by what they hold and for how long.
  return 1e-12 * static_cast<double>(held) * (1e-3 + age);
}

void HttpConnection::cut_reader() {
  ++core_.counters.stalled;
  kill();
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
  core_.keep_outbox();
  read_more();
}

// Takes what there is to send, unless something is being sent: so many small writes become one.
void HttpConnection::pump() {
  if (writing_ || stage_ == Stage::kClosed || stage_ == Stage::kLinger) return;
  out_head_.clear();
  out_body_.clear();
  out_done_ = out_answer_ = out_held_ = 0;
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
  out_answer_ = out_held_ = output.bytes.size();
  if (no_body_) {
    exchange_->taken(std::exchange(out_answer_, 0));
    exchange_->freed(std::exchange(out_held_, 0));
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
  progress_ = Clock::now();
  if (!std::exchange(writing_, true)) {
    answer_pace_.begin(progress_, HttpPace::kReaderCredit);
    if (stage_ == Stage::kAnswer) set_deadline(core_.limits.write_seconds);
  }
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
  answer_pace_.moved(count, Clock::now());
  out_done_ += count;
  const size_t of_answer = std::min(out_answer_, count);
  out_answer_ -= of_answer;
  if (exchange_) exchange_->taken(of_answer);
  free_sent();
  if (out_done_ < out_head_.size() + out_body_.size()) return write_some();
  writing_ = false;
  if (stage_ == Stage::kAnswer) clear_deadline();
  after_write();
}

// What has been sent of a large answer goes while the rest waits for its reader. Whenever half of it is sent, so that
// all copies together are no more than the answer.
void HttpConnection::free_sent() {
  const bool all = out_done_ == out_head_.size() + out_body_.size();
  const size_t sent = out_done_ - std::min(out_done_, out_head_.size());
  if (!all && (sent < kFreeBytes || sent < out_body_.size() / 2)) return;
  try {
    out_body_ = all ? std::string() : out_body_.substr(sent);
  } catch (const std::bad_alloc&) {
    return;  // it stays whole
  }
  out_head_ = {};
  out_done_ = 0;
  const size_t freed = std::min(all ? out_held_ : sent, out_held_);
  out_held_ -= freed;
  if (exchange_) exchange_->freed(freed);
}

void HttpConnection::after_write() {
  if (aborted_) return kill();
  if (finished_) return complete_answer();
  pump();
}

void HttpConnection::complete_answer() {
  if (exchange_) exchange_->free_all();
  exchange_.reset();
  out_head_ = {};
  out_body_ = {};
  if (!keep_alive_ || core_.draining) return linger();
  finished_ = head_begun_ = head_only_ = false;
  minor_ = 1;
  id_.clear();
  path_.clear();
  reader_.next();
  rest();
  enter(Stage::kHead, core_.limits.idle_seconds);
  advance();
}

// Ends our half, and reads over what still comes: closing with unread bytes would make the kernel reset the connection,
// and the client could lose the answer.
void HttpConnection::linger() {
  if (ended_) return kill();
  rest();
  enter(Stage::kLinger, kLingerSeconds);
  stream_->shutdown_send(shared_from_this());
  read_more();
}

}  // namespace ingot
