// A connection's bytes: plain or through TLS. Callbacks run on the io thread, never before the call that took them has
// returned; one that was in flight at close() may still come. They must keep the stream alive. One read and one write
// may be in flight at a time.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ingot {

using HttpSocket = boost::asio::generic::stream_protocol::socket;
using HttpCode = boost::system::error_code;
using HttpBuffers = std::array<boost::asio::const_buffer, 2>;

class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // The handshake, where there is one.
  virtual void start(std::function<void(HttpCode)> done) = 0;
  // Some bytes, at most `most`, valid during the callback, or an error; boost::asio::error::eof at the end.
  virtual void read(size_t most, std::function<void(HttpCode, std::string_view)> done) = 0;
  // Some bytes of the buffers, which must live until then.
  virtual void write(const HttpBuffers& buffers, std::function<void(HttpCode, size_t)> done) = 0;
  // When the other side is gone for writing, too: reset or closed in both directions.
  virtual void wait_for_reset(std::function<void()> done) = 0;
  // Tells the other side that nothing follows. `owner` keeps the stream alive meanwhile.
  virtual void shutdown_send(std::shared_ptr<void> owner) = 0;
  // Sends these bytes without waiting, as far as they are taken, before close(): the last words to whoever may not even
  // listen. Nothing behind TLS, where a handshake may not be over.
  virtual void say(std::string_view bytes) = 0;
  virtual void close() = 0;
  // Whether the other side may end its half and still wait for the answer.
  virtual bool half_closes() const = 0;
};

std::unique_ptr<HttpStream> make_plain_stream(HttpSocket socket);

// The certificate and key of a server, and streams that use them. Handshakes are computed by a thread of its own, in
// turns by the clients' addresses.
class HttpTls {
 public:
  // `most_handshakes`: that wait for that thread; of one address at most as many as are left free. Beyond, a handshake
  // fails. Throws Error: a file cannot be read, they do not belong together, or this build has no TLS.
  HttpTls(const std::string& cert, const std::string& key, size_t most_handshakes);
  ~HttpTls();
  // `address`: client_address() of the other side.
  std::unique_ptr<HttpStream> make_stream(HttpSocket socket, std::string address);
  // Ends the thread: no handshake goes on. Before the sockets' io_context ends.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot
