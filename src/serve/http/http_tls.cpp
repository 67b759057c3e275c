#ifdef INGOT_TLS
#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl.hpp>
#endif
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/http/http_stream.h"

namespace ingot {

#ifdef INGOT_TLS

namespace {

namespace asio = boost::asio;

constexpr size_t kReadBytes = 16 << 10;  // the most that one record holds

class TlsStream : public HttpStream {
 public:
  TlsStream(HttpSocket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}

  void start(std::function<void(HttpCode)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, [done = std::move(done)](HttpCode code) {
      if (code != asio::error::operation_aborted) done(code);
    });
  }

  void read(size_t most, std::function<void(HttpCode, std::string_view)> done) override {
    room_.resize(std::min(most, kReadBytes));
    stream_.async_read_some(asio::buffer(room_), [this, done = std::move(done)](HttpCode code, size_t count) {
      if (code == asio::error::operation_aborted) return;
      if (code == asio::ssl::error::stream_truncated) code = asio::error::eof;
      done(code, {room_.data(), count});
    });
  }

  void write(const HttpBuffers& buffers, std::function<void(HttpCode, size_t)> done) override {
    stream_.async_write_some(buffers, [done = std::move(done)](HttpCode code, size_t count) {
      if (code != asio::error::operation_aborted) done(code, count);
    });
  }

  void wait_for_reset(std::function<void()> done) override {
    stream_.lowest_layer().async_wait(HttpSocket::wait_error, [done = std::move(done)](HttpCode code) {
      if (code != asio::error::operation_aborted) done();
    });
  }

  void shutdown_send(std::shared_ptr<void> owner) override {
    stream_.async_shutdown([owner = std::move(owner)](HttpCode) {});
  }

  void say(std::string_view) override {}

  void close() override {
    HttpCode ignored;
    stream_.lowest_layer().close(ignored);
  }

  bool half_closes() const override { return false; }

 private:
  asio::ssl::stream<HttpSocket> stream_;
  std::vector<char> room_;
};

}  // namespace

struct HttpTls::Impl {
  asio::ssl::context context{asio::ssl::context::tls_server};
};

HttpTls::HttpTls(const std::string& cert, const std::string& key) : impl_(std::make_unique<Impl>()) {
  using Context = asio::ssl::context;
  Context& context = impl_->context;
  context.set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 | Context::no_tlsv1 |
                      Context::no_tlsv1_1 | Context::no_compression);
  SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // 34 KiB that an idle connection does not hold
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
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

std::unique_ptr<HttpStream> HttpTls::make_stream(HttpSocket socket) {
  return std::make_unique<TlsStream>(std::move(socket), impl_->context);
}

#else

struct HttpTls::Impl {};

HttpTls::HttpTls(const std::string& cert, const std::string&) {
  throw Error("[tls] certificate '{}': this build has no TLS (OpenSSL was not found)", cert);
}

HttpTls::~HttpTls() = default;

std::unique_ptr<HttpStream> HttpTls::make_stream(HttpSocket) { return nullptr; }

#endif

}  // namespace ingot
