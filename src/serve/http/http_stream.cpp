#include "serve/http/http_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

namespace ingot {

namespace {

namespace asio = boost::asio;

constexpr size_t kReadBytes = 64 << 10;

class PlainStream : public HttpStream {
 public:
  explicit PlainStream(HttpSocket socket) : socket_(std::move(socket)) {}

  void start(std::function<void(HttpCode)> done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}); });
  }

  // Waits, and then reads into a buffer that all connections of the thread share: an idle one holds none.
  void read(size_t most, std::function<void(HttpCode, std::string_view)> done) override {
    socket_.async_wait(HttpSocket::wait_read, [this, most, done = std::move(done)](HttpCode code) mutable {
      if (code == asio::error::operation_aborted) return;
      static thread_local std::vector<char> room;
      try {
        room.resize(kReadBytes);
      } catch (...) {
        code = asio::error::no_memory;  // thrown from here, it would be known to nobody but the connection's timer
      }
      size_t count = 0;
      if (!code) count = socket_.read_some(asio::buffer(room.data(), std::min(most, room.size())), code);
      if (code == asio::error::would_block || code == asio::error::interrupted) return read(most, std::move(done));
      done(code, {room.data(), count});
    });
  }

  void write(const HttpBuffers& buffers, std::function<void(HttpCode, size_t)> done) override {
    socket_.async_write_some(buffers, [done = std::move(done)](HttpCode code, size_t count) {
      if (code != asio::error::operation_aborted) done(code, count);
    });
  }

  void wait_for_reset(std::function<void()> done) override {
    socket_.async_wait(HttpSocket::wait_error, [done = std::move(done)](HttpCode code) {
      if (code != asio::error::operation_aborted) done();
    });
  }

  void shutdown_send(std::shared_ptr<void>) override {
    HttpCode ignored;
    socket_.shutdown(HttpSocket::shutdown_send, ignored);
  }

  // What was sent is read first: closing on bytes that were not read would make the kernel throw the answer away.
  void say(std::string_view bytes) override {
    char sent[16 << 10];
    (void)!::recv(socket_.native_handle(), sent, sizeof(sent), MSG_DONTWAIT);
    (void)!::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown_send(nullptr);
  }

  void close() override {
    HttpCode ignored;
    socket_.close(ignored);
  }

  bool half_closes() const override { return true; }

 private:
  HttpSocket socket_;
};

}  // namespace

std::unique_ptr<HttpStream> make_plain_stream(HttpSocket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace ingot
