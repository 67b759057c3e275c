#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/http/http.h"
#include "serve/http/http_connection.h"
#include "serve/http/http_format.h"
#include "serve/http/http_listen.h"
#include "serve/http/http_stream.h"

namespace ingot {

namespace {

namespace asio = boost::asio;

constexpr int kBeyond = 128;            // places beyond the limit: for probes, and to be told that there are too many
constexpr int kAcceptedAtOnce = 64;     // then others have a turn
constexpr int kOtherFiles = 64;         // descriptors that are not connections
constexpr double kAcceptPause = 0.1;    // seconds, where there are no descriptors
constexpr int kSendBuffer = 128 << 10;  // of the kernel: what a slow reader costs beside unsent_bytes

std::chrono::steady_clock::duration seconds_of(double seconds) {
  using Duration = std::chrono::steady_clock::duration;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9)));
}

// As many connections as were asked for and as there are descriptors: beyond that accept() would fail, and the client
// would wait instead of being told.
int connection_limit(int asked) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return asked;
  const auto room = static_cast<long>(std::min<rlim_t>(files.rlim_cur, 1 << 30)) - kOtherFiles - kBeyond;
  return static_cast<int>(std::clamp<long>(room, 1, std::max(asked, 1)));
}

// Tells a client that there are too many, without waiting for it. What it has sent is read first: closing on bytes that
// were not read would make the kernel throw the answer away.
void say_busy(int fd, HttpCore& core) {
  const std::string id = core.next_id();
  HttpResponse response = core.refusal({.status = 503, .why = "too many connections", .path = {}, .id = id});
  const std::string head =
      response_head(response, {.length = response.body.size(), .keep_alive = false, .minor = 1, .id = id});
  char sent[16 << 10];
  (void)!::recv(fd, sent, sizeof(sent), MSG_DONTWAIT);
  (void)!::send(fd, (head + response.body).data(), head.size() + response.body.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(fd, SHUT_WR);
}

void set_options(int fd, int family) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof(value)); };
  set(SOL_SOCKET, SO_SNDBUF, kSendBuffer);
  if (family == AF_UNIX) return;
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A client whose machine has vanished is noticed after a minute, also while nothing is sent.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string new_id_prefix() {
  std::random_device random;
  return fmt::format("req-{:08x}", random());
}

}  // namespace

HttpResponse HttpCore::refusal(const HttpRefusal& refused) const {
  try {
    if (callbacks.refusal) return callbacks.refusal(refused);
  } catch (...) {  // the plain one will do
  }
  HttpResponse response;
  response.status = refused.status;
  return response;
}

std::string HttpCore::next_id() { return fmt::format("{}{:x}", id_prefix, ++last_id); }

struct HttpServer::Impl {
  Impl(const HttpOptions& options, HttpCallbacks callbacks);
  ~Impl();

  void accept_soon();
  void accept_some();
  void accept_later();
  void take_in(int fd, const sockaddr_storage& from);
  template <class F>
  void for_each(F&& f);
  void close_listener();
  void close_all();
  void drain();

  // Connections and their handlers end with `io`, so what they use stands before it.
  HttpCore core;
  HttpListener listener;
  std::optional<HttpTls> tls;
  std::atomic<bool> stopped = false;
  bool accepting = false;  // a wait for the next client is pending
  asio::io_context io{1};
  asio::posix::stream_descriptor acceptor{io};
  asio::steady_timer pause{io};
};

HttpServer::Impl::Impl(const HttpOptions& options, HttpCallbacks callbacks) : listener(options) {
  if (options.tls_cert.empty() != options.tls_key.empty()) throw Error("[tls] a certificate and its key are needed");
  const int places = connection_limit(options.limits.connections);
  // All connections of one address may wait at once: each can have as many as it leaves free.
  const size_t most_handshakes = 2 * (static_cast<size_t>(places) + kBeyond);
  if (!options.tls_cert.empty()) tls.emplace(options.tls_cert, options.tls_key, most_handshakes);
  core.limits = options.limits;
  core.callbacks = std::move(callbacks);
  core.id_prefix = new_id_prefix();
  core.mailbox = std::make_shared<HttpMailbox>([this](std::function<void()> body) { asio::post(io, std::move(body)); },
                                               [this] { io.stop(); });
  core.outbox = std::make_shared<HttpOutbox>(options.limits.answers_bytes);
  core.places.emplace(places, kBeyond, options.limits.address_connections);
}

HttpServer::Impl::~Impl() {
  core.mailbox->close();
  if (tls) tls->stop();
  close_all();
}

// Of a copy, because connections leave the set while it is walked over.
template <class F>
void HttpServer::Impl::for_each(F&& f) {
  std::vector<std::shared_ptr<HttpConnection>> all;
  for (HttpConnection* connection : core.connections) {
    if (auto owner = connection->weak_from_this().lock()) all.push_back(std::move(owner));
  }
  for (const auto& connection : all) f(*connection);
}

void HttpServer::Impl::close_all() {
  close_listener();
  for_each([](HttpConnection& connection) { connection.kill(); });
}

void HttpServer::Impl::close_listener() {
  pause.cancel();
  if (acceptor.is_open()) acceptor.release();  // the listener closes it
  listener.close();
}

void HttpServer::Impl::drain() {
  core.draining = true;
  close_listener();
  for_each([](HttpConnection& connection) { connection.drain(); });
}

void HttpServer::Impl::accept_soon() {
  if (!acceptor.is_open()) return;
  accepting = false;  // if the wait cannot be begun, run() tries again
  acceptor.async_wait(asio::posix::stream_descriptor::wait_read, [this](HttpCode code) {
    if (code == asio::error::operation_aborted || !acceptor.is_open()) return;
    try {
      accept_some();
    } catch (...) {  // no memory: perhaps later
      accept_later();
    }
  });
  accepting = true;
}

void HttpServer::Impl::accept_later() {
  accepting = false;
  pause.expires_after(seconds_of(kAcceptPause));
  pause.async_wait([this](HttpCode code) {
    if (code != asio::error::operation_aborted) accept_soon();
  });
  accepting = true;
}

void HttpServer::Impl::accept_some() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    const int fd = ::accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      take_in(fd, from);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    return accept_later();  // no descriptor or no memory
  }
  accept_soon();
}

void HttpServer::Impl::take_in(int fd, const sockaddr_storage& from) {
  HttpSocket socket(io);
  HttpCode code;
  try {
    socket.assign({listener.family(), listener.family() == AF_UNIX ? 0 : IPPROTO_TCP}, fd, code);
  } catch (...) {
    ::close(fd);  // it is not the socket's yet
    throw;
  }
  if (code) {
    ::close(fd);
    return;
  }
  set_options(fd, listener.family());
  socket.non_blocking(true, code);
  ++core.counters.accepted;
  std::string address = client_address(from);
  const HttpPlaces::Place place = core.places->find(core, address);
  if (place == HttpPlaces::Place::kNone) {
    ++core.counters.refused;
    // Behind TLS a client could only be told after a handshake, which is the costly part.
    if (!tls) say_busy(fd, core);
    return;
  }
  auto stream = tls ? tls->make_stream(std::move(socket), address) : make_plain_stream(std::move(socket));
  std::make_shared<HttpConnection>(core, io, std::move(stream), place, std::move(address))->start();
}

HttpServer::HttpServer(const HttpOptions& options, HttpCallbacks callbacks)
    : impl_(std::make_unique<Impl>(options, std::move(callbacks))) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const {
  if (impl_->listener.port() == 0) return "unix:" + impl_->listener.where();
  return (impl_->tls ? "https://" : "http://") + impl_->listener.where();
}

int HttpServer::port() const { return impl_->listener.port(); }

void HttpServer::run() {
  Impl& impl = *impl_;
  const auto work = asio::make_work_guard(impl.io);
  impl.acceptor.assign(impl.listener.fd());
  while (!impl.stopped) {
    try {
      if (!impl.accepting) impl.accept_soon();
      impl.core.mailbox->wake_lost();
      impl.io.run();
    } catch (...) {  // of a body that was posted, or no memory: the others are served all the same
    }
    if (impl.io.stopped() && !impl.stopped) impl.io.restart();  // the mailbox's kick
  }
  impl.core.mailbox->close();
  if (impl.tls) impl.tls->stop();
  impl.close_all();
}

void HttpServer::stop() {
  impl_->stopped = true;
  impl_->io.stop();
}

void HttpServer::close_listener() {
  impl_->core.mailbox->post([impl = impl_.get()] { impl->drain(); });
}

void HttpServer::post(std::function<void()> body, double seconds) {
  if (seconds <= 0) {
    impl_->core.mailbox->post(std::move(body));
    return;
  }
  impl_->core.mailbox->post([impl = impl_.get(), body = std::move(body), seconds] {
    const auto timer = std::make_shared<asio::steady_timer>(impl->io, seconds_of(seconds));
    timer->async_wait([timer, body](HttpCode code) {
      if (!code) body();
    });
  });
}

HttpCounters HttpServer::counters() const {
  const auto& c = impl_->core.counters;
  return {.accepted = c.accepted,
          .refused = c.refused,
          .gave_way = c.gave_way,
          .open = c.open,
          .requests = c.requests,
          .bad_requests = c.bad_requests,
          .timeouts = c.timeouts,
          .stalled = c.stalled,
          .body_bytes = static_cast<int64_t>(impl_->core.body_bytes.load()),
          .answer_bytes = static_cast<int64_t>(impl_->core.outbox->held()),
          .bytes_in = c.bytes_in,
          .bytes_out = c.bytes_out};
}

}  // namespace ingot
