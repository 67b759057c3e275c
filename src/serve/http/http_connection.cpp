#include "serve/http/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <string_view>
#include <utility>

#include "serve/http/http_format.h"

namespace ingot {

namespace {

constexpr size_t kPipelinedBytes = 16 << 10;  // read ahead while an answer is in flight
constexpr size_t kReadBytes = 16 << 10;       // at a time, of heads: what a client sends unasked is memory
constexpr size_t kReadBodyBytes = 64 << 10;
constexpr size_t kLingerBytes = 16 << 20;
constexpr size_t kReadOver = 64 << 10;  // of the body of a request that is refused by its head
constexpr double kProbeSeconds = 0.05;
constexpr double kBeyondSeconds = 2;    // to a whole head, where all places are taken
constexpr double kFreshSeconds = 0.25;  // of a reader: nothing is known of it yet
constexpr double kSlowSeconds = 5;      // before a body or a reader may have to give way to a new connection

}  // namespace

HttpConnection::HttpConnection(HttpCore& core, boost::asio::io_context& io, std::unique_ptr<HttpStream> stream,
                               HttpPlaces::Place place, std::string address)
    : core_(core),
      stream_(std::move(stream)),
      place_(place),
      address_(std::move(address)),
      reader_(core.limits),
      timer_(io) {
  core_.connections.insert(this);
}

HttpConnection::~HttpConnection() { kill(); }

// Guarded as all else: its timer would keep a connection that could not begin until its time is over.
void HttpConnection::start() {
  guarded([&] {
    const bool ordinary = place_ == HttpPlaces::Place::kOrdinary;
    core_.places->enter(place_, address_);
    counted_ = true;
    if (ordinary) ++core_.counters.open;
    rest();
    const double seconds = ordinary ? core_.limits.header_seconds : kBeyondSeconds;
    enter(Stage::kHandshake, seconds);
    stream_->start([self = shared_from_this(), seconds](HttpCode code) {
      self->guarded([&] {
        if (code || self->core_.draining) return self->kill();
        self->enter(Stage::kHead, std::min(seconds, self->core_.limits.idle_seconds));
        self->advance();
      });
    });
  });
}

void HttpConnection::drain() {
  if (stage_ == Stage::kHead && reader_.buffered() == 0 && !writing_) kill();
}

void HttpConnection::kill() {
  if (stage_ == Stage::kClosed) return;
  stop_resting();
  if (counted_) core_.places->leave(place_, address_);
  if (counted_ && place_ == HttpPlaces::Place::kOrdinary) --core_.counters.open;
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

void HttpConnection::give_way() noexcept {
  try {
    const bool beyond = place_ == HttpPlaces::Place::kBeyond;
    if (stage_ == Stage::kHead && (beyond || head_begun_)) {
      if (beyond) ++core_.counters.refused;
      const HttpResponse response = refusal(503, "too many connections");
      const HttpFrame frame{.length = response.body.size(), .keep_alive = false, .minor = 1, .id = id_};
      stream_->say(response_head(response, frame) + response.body);
    }
  } catch (...) {  // no memory for words
  }
  kill();
}

// ---- Reading ----

void HttpConnection::enter(Stage stage, double seconds) {
  stage_ = stage;
  set_deadline(seconds);
}

// Until something of a request has come, or where nothing is wanted of it any more: others may have its place.
void HttpConnection::rest() {
  stop_resting();
  resting_ = core_.places->rest(this, place_);
}

void HttpConnection::stop_resting() {
  if (resting_) core_.places->wake(*resting_, place_);
  resting_.reset();
}

double HttpConnection::seconds_slow(Clock::time_point now) const {
  const bool body = stage_ == Stage::kBody, reader = stage_ == Stage::kAnswer && writing_;
  const double seconds = body ? body_pace_.age(now) : reader ? answer_pace_.age(now) : 0;
  return seconds > kSlowSeconds ? seconds : 0;
}

// Of a reader only once it is seen to be slow: a write that the kernel takes whole is reported a moment later, and a
// step of the engine begins hundreds of those at once.
double HttpConnection::wait_age(Clock::time_point now) const {
  if (stage_ == Stage::kBody) return body_pace_.age(now);
  const double seconds = stage_ == Stage::kAnswer && writing_ ? answer_pace_.age(now) : 0;
  return seconds > kFreshSeconds ? seconds : 0;
}

// A read is always in flight, also while an answer is: so it is seen when the client goes.
void HttpConnection::read_more() {
  if (reading_ || ended_ || stage_ == Stage::kClosed) return;
  if (stage_ == Stage::kAnswer && reader_.buffered() >= kPipelinedBytes) return watch_for_reset();
  reading_ = true;
  const size_t most = stage_ == Stage::kBody ? kReadBodyBytes : kReadBytes;
  stream_->read(most, [self = shared_from_this()](HttpCode code, std::string_view bytes) {
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
    if (place_ != HttpPlaces::Place::kOrdinary) return;
    rest();
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
  HttpAdmission admission;
  try {
    if (core_.callbacks.admit) admission = core_.callbacks.admit(head);
  } catch (...) {
    admission.answer = refusal(500, "internal error");
  }
  payer_ = std::move(admission.payer);  // also of whoever is refused at once: it may be slow to read that
  if (place_ == HttpPlaces::Place::kBeyond) {
    keep_alive_ = false;
    if (!admission.probe) return refuse_beyond();
  }
  if (!admission.answer && !reader_.limit_body(admission.body_bytes)) {
    return refuse(413, admission.body_bytes == 0
                           ? "this route reads no body"
                           : fmt::format("the body is longer than {} bytes", admission.body_bytes));
  }
  begin_body(std::move(admission));
}

void HttpConnection::begin_body(HttpAdmission admission) {
  if (admission.answer) {
    // A small body is read over, so that the connection can go on: under overload a new one for each refusal would
    // cost more than the refusal. Otherwise what follows is not a request.
    const bool read_over = reader_.body_within(kReadOver) && !reader_.expects_continue() && keep_alive_;
    if (!read_over) admission.answer->close = true;
    if (!read_over || !reader_.has_body()) return answer(std::move(*admission.answer));
    early_ = std::move(admission.answer);
    reader_.drop_body();
    rest();
  } else {
    stop_resting();
  }
  const auto now = Clock::now();
  body_pace_.begin(now, HttpPace::kBodyCredit);
  body_seen_ = 0;
  body_end_ =
      now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(core_.limits.body_seconds));
  enter(Stage::kBody, std::min(core_.limits.body_seconds, core_.limits.rate_seconds));
  if (reader_.expects_continue() && reader_.has_body() && reader_.buffered() == 0) {
    interim_ = "HTTP/1.1 100 Continue\r\n\r\n";
    pump();
  }
}

void HttpConnection::read_body() {
  const auto progress = reader_.read_body();
  if (progress == HttpReader::Progress::kRefused) return refuse(reader_.problem().status, reader_.problem().why);
  body_pace_.moved(reader_.body_size() - body_seen_, Clock::now());
  body_seen_ = reader_.body_size();
  const size_t held = reader_.body_held();
  core_.keep_room(held > counted_body_ ? held - counted_body_ : 0);
  if (stage_ != Stage::kBody) return;
  count_body(held);
  if (progress != HttpReader::Progress::kReady) return;
  if (!early_) return hand_over();
  answer(*std::exchange(early_, std::nullopt));
}

void HttpConnection::count_body(size_t bytes) {
  core_.body_bytes += bytes;
  core_.body_bytes -= counted_body_;
  counted_body_ = bytes;
}

void HttpConnection::drop_body() {
  guarded([&] { refuse(503, "too many bodies are being read, and this one came the slowest"); });
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

void HttpConnection::refuse_beyond() {
  ++core_.counters.refused;
  refuse(503, "too many connections");
}

void HttpConnection::refuse(int status, std::string_view why) {
  ++core_.counters.bad_requests;
  early_.reset();
  reader_.drop_body();
  count_body(0);
  HttpResponse response = refusal(status, why);
  response.close = true;
  answer(std::move(response));
}

HttpResponse HttpConnection::refusal(int status, std::string_view why) {
  if (id_.empty()) id_ = core_.next_id();  // its head was not read, or not to its end
  return core_.refusal({.status = status, .why = why, .path = path_.empty() ? reader_.path() : path_, .id = id_});
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

// Whether what is to come, or to be taken, comes fast enough for more time.
bool HttpConnection::in_time() {
  const auto now = Clock::now();
  if (stage_ == Stage::kBody) {
    const double left = std::chrono::duration<double>(body_end_ - now).count();
    if (left <= 0 || !body_pace_.keeps(core_.limits.rate_seconds, core_.limits.min_rate, now)) return false;
    set_deadline(std::min(left, body_pace_.window_left(core_.limits.rate_seconds, now)));
    return true;
  }
  const double seconds = core_.limits.write_seconds;
  if (stage_ != Stage::kAnswer || !writing_ || !answer_pace_.keeps(seconds, core_.limits.min_rate, now)) return false;
  set_deadline(answer_pace_.window_left(seconds, now));
  return true;
}

void HttpConnection::expire() {
  clear_deadline();
  if (std::exchange(probe_, false)) {
    if (begun_ || writing_) return;
    interim_ = "HTTP/1.1 100 Continue\r\n\r\n";
    return pump();
  }
  if (in_time()) return;
  switch (stage_) {
    case Stage::kHead:
      if (place_ == HttpPlaces::Place::kBeyond) return refuse_beyond();
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
