#ifdef INGOT_TLS
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <csignal>
#include <optional>
#endif
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/http/http_stream.h"
#include "serve/http/workers.h"

namespace ingot {

#ifdef INGOT_TLS

namespace {

namespace asio = boost::asio;

constexpr size_t kReadBytes = 16 << 10;  // the most that one record holds

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

// Until the handshake is over its steps, which compute for half a millisecond, are jobs of `workers`; the io thread
// only waits for the socket between two of them. So strangers who connect without end hold up each other, and nobody
// who has a connection.
class TlsStream : public HttpStream {
 public:
  TlsStream(HttpSocket socket, std::string address, SSL_CTX* context, Workers& workers)
      : socket_(std::move(socket)), address_(std::move(address)), context_(context), workers_(workers) {}

  void start(std::function<void(HttpCode)> done) override { wait(HttpSocket::wait_read, std::move(done)); }

  void read(size_t most, std::function<void(HttpCode, std::string_view)> done) override {
    room_.resize(std::min(most, kReadBytes));
    stream_->async_read_some(asio::buffer(room_), [this, done = std::move(done)](HttpCode code, size_t count) {
      if (code == asio::error::operation_aborted) return;
      if (code == asio::ssl::error::stream_truncated) code = asio::error::eof;
      done(code, {room_.data(), count});
    });
  }

  void write(const HttpBuffers& buffers, std::function<void(HttpCode, size_t)> done) override {
    stream_->async_write_some(buffers, [done = std::move(done)](HttpCode code, size_t count) {
      if (code != asio::error::operation_aborted) done(code, count);
    });
  }

  void wait_for_reset(std::function<void()> done) override {
    stream_->lowest_layer().async_wait(HttpSocket::wait_error, [done = std::move(done)](HttpCode code) {
      if (code != asio::error::operation_aborted) done();
    });
  }

  void shutdown_send(std::shared_ptr<void> owner) override {
    stream_->async_shutdown([owner = std::move(owner)](HttpCode) {});
  }

  void say(std::string_view) override {}

  void close() override {
    closed_ = true;
    // A step that runs has the socket: it is closed after that. One that waits for its turn finds that it has none.
    Turn turn = Turn::kWaits;
    if (!turn_.compare_exchange_strong(turn, Turn::kNone) && turn == Turn::kRuns) return;
    close_socket();
  }

  bool half_closes() const override { return false; }

 private:
  using Done = std::function<void(HttpCode)>;
  enum class Turn : unsigned char { kNone, kWaits, kRuns };  // of a step
  enum class Next : unsigned char { kRead, kWrite, kReady, kFailed };

  void close_socket() {
    HttpCode ignored;
    stream_ ? stream_->lowest_layer().close(ignored) : socket_.close(ignored);
  }

  // The next step, once the socket is ready for it.
  void wait(HttpSocket::wait_type what, Done done) {
    socket_.async_wait(what, [this, done = std::move(done)](HttpCode code) mutable {
      if (code == asio::error::operation_aborted || closed_) return;
      if (code) return done(code);
      turn_ = Turn::kWaits;
      // As a large job: these have a thread of lower priority than the engine's.
      const JobCost cost{.payer = address_, .bytes = Workers::kLargeBytes + 1};
      auto job = [this, done]() mutable { step(std::move(done)); };
      if (workers_.post(std::move(job), cost)) return;
      turn_ = Turn::kNone;
      done(asio::error::no_buffer_space);
    });
  }

  // A worker's. Its `done` goes back to the io thread in any case: with it, the connection may end.
  void step(Done done) {
    Turn turn = Turn::kWaits;
    const bool open = turn_.compare_exchange_strong(turn, Turn::kRuns);
    const Next next = open ? shake() : Next::kFailed;
    if (open) turn_ = Turn::kNone;
    asio::post(executor_, [this, next, done = std::move(done)]() mutable { after(next, std::move(done)); });
  }

  Next shake() {
    if (!handshake_) {
      handshake_.reset(SSL_new(context_));
      if (!handshake_ || SSL_set_fd(handshake_.get(), fd_) != 1) return Next::kFailed;
      SSL_set_accept_state(handshake_.get());
    }
    ERR_clear_error();
    const int result = SSL_do_handshake(handshake_.get());
    if (result == 1) return Next::kReady;
    const int error = SSL_get_error(handshake_.get(), result);
    return error == SSL_ERROR_WANT_READ ? Next::kRead : error == SSL_ERROR_WANT_WRITE ? Next::kWrite : Next::kFailed;
  }

  void after(Next next, Done done) {
    if (closed_) return close_socket();
    if (next == Next::kRead) return wait(HttpSocket::wait_read, std::move(done));
    if (next == Next::kWrite) return wait(HttpSocket::wait_write, std::move(done));
    if (next == Next::kFailed) return done(asio::error::connection_aborted);
    stream_.emplace(std::move(socket_), handshake_.release());
    done({});
  }

  HttpSocket socket_;  // until the handshake is over
  const HttpSocket::executor_type executor_ = socket_.get_executor();
  const int fd_ = socket_.native_handle();
  const std::string address_;
  SSL_CTX* const context_;
  Workers& workers_;
  std::unique_ptr<SSL, SslFree> handshake_;  // a step's while one waits or runs
  std::atomic<Turn> turn_{Turn::kNone};
  bool closed_ = false;
  std::optional<asio::ssl::stream<HttpSocket>> stream_;
  std::vector<char> room_;
};

// One thread, whose writes to sockets that are gone raise no signal.
class Handshakes {
 public:
  explicit Handshakes(size_t most) {
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    try {
      workers_.emplace(0, most);
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  Workers& workers() { return *workers_; }

 private:
  std::optional<Workers> workers_;
};

}  // namespace

struct HttpTls::Impl {
  explicit Impl(size_t most_handshakes) : handshakes(most_handshakes) {}
  asio::ssl::context context{asio::ssl::context::tls_server};
  Handshakes handshakes;
};

HttpTls::HttpTls(const std::string& cert, const std::string& key, size_t most_handshakes)
    : impl_(std::make_unique<Impl>(most_handshakes)) {
  using Context = asio::ssl::context;
  Context& context = impl_->context;
  context.set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 | Context::no_tlsv1 |
                      Context::no_tlsv1_1 | Context::no_compression);
  SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // 34 KiB that an idle connection does not hold
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_read_ahead(context.native_handle(), 0);  // a handshake leaves what follows it in the socket
  HttpCode code;
  context.use_certificate_chain_file(cert, code);
  if (code) throw Error("[tls] certificate '{}': {}", cert, code.message());
  context.use_private_key_file(key, Context::pem, code);
  if (code) throw Error("[tls] key '{}': {}", key, code.message());
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    throw Error("[tls] key '{}' does not belong to certificate '{}'", key, cert);
  }
}

HttpTls::~HttpTls() = default;

std::unique_ptr<HttpStream> HttpTls::make_stream(HttpSocket socket, std::string address) {
  return std::make_unique<TlsStream>(std::move(socket), std::move(address), impl_->context.native_handle(),
                                     impl_->handshakes.workers());
}

void HttpTls::stop() { impl_->handshakes.workers().stop(); }

#else

struct HttpTls::Impl {};

HttpTls::HttpTls(const std::string& cert, const std::string&, size_t) {
  throw Error("[tls] certificate '{}': this build has no TLS (OpenSSL was not found)", cert);
}

HttpTls::~HttpTls() = default;

std::unique_ptr<HttpStream> HttpTls::make_stream(HttpSocket, std::string) { return nullptr; }

void HttpTls::stop() {}

#endif

}  // namespace ingot
