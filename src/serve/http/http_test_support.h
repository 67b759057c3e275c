// A server on a free port of the loopback and a client of plain bytes, for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http/http.h"

namespace ingot {

// Waits until `condition` holds; false after a time that only a broken server needs.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

inline HttpResponse plain_text(std::string body, int status = 200) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Keeps the responders, so that a test answers from its own thread, and counts the clients that went. "/quick" is
// answered at once.
struct HeldRequests {
  HttpCallbacks callbacks() {
    HttpCallbacks result;
    result.handle = [this](HttpRequest request, std::shared_ptr<Responder> responder) {
      if (request.head.path == "/quick") return responder->send(plain_text("quick"));
      responder->on_close([this] { ++gone; });
      const std::lock_guard lock(mutex);
      responders.push_back(std::move(responder));
      arrived.notify_all();
    };
    return result;
  }
  // Null where it does not come.
  std::shared_ptr<Responder> wait(size_t index = 0) {
    std::unique_lock lock(mutex);
    arrived.wait_for(lock, std::chrono::seconds(60), [&] { return responders.size() > index; });
    return responders.size() > index ? responders[index] : nullptr;
  }
  void drop() {
    const std::lock_guard lock(mutex);
    responders.clear();
  }

  std::atomic<int> gone = 0;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<std::shared_ptr<Responder>> responders;
};

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  // From an address of the loopback other than 127.0.0.1.
  RawClient(int port, const std::string& from) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from.c_str(), &address.sin_addr);
    ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  explicit RawClient(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  // False where the other side does not take it.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // Reads until the bytes received hold `what`, the connection ends, or a long time has passed; all bytes so far.
  const std::string& read_until(std::string_view what) {
    size_t from = 0;
    while (received_.find(what, from) == received_.npos) {
      from = received_.size() > what.size() ? received_.size() - what.size() : 0;
      if (!read_some()) break;
    }
    return received_;
  }
  // All bytes until the connection ends.
  const std::string& read_all() {
    while (read_some()) {
    }
    return received_;
  }
  // Whether the other side has ended the connection, and not just been silent.
  bool ended() const { return ended_; }
  void forget() { received_.clear(); }
  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
  void shutdown_both() { ::shutdown(fd_, SHUT_RDWR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Closes with a reset.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close();
  }

 private:
  bool read_some() {
    if (ended_) return false;
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 60'000) <= 0) return false;
    char room[16384];
    const ssize_t count = ::recv(fd_, room, sizeof(room), 0);
    if (count <= 0) {
      ended_ = true;
      return false;
    }
    received_.append(room, static_cast<size_t>(count));
    return true;
  }

  int fd_;
  bool connected_ = false, ended_ = false;
  std::string received_;
};

// The body that belongs to an answer with chunks; empty where its end is missing.
inline std::string unchunk(std::string_view answer) {
  std::string body;
  size_t at = answer.find("\r\n\r\n");
  if (at == answer.npos) return {};
  for (at += 4; at < answer.size();) {
    const size_t size = std::stoul(std::string(answer.substr(at)), nullptr, 16);
    at = answer.find("\r\n", at) + 2;
    if (size == 0) return body;
    body += answer.substr(at, size);
    at += size + 2;
  }
  return {};
}

// A server whose io thread runs as long as it lives.
class RunningServer {
 public:
  explicit RunningServer(HttpCallbacks callbacks, HttpOptions options = {}) {
    options.port = 0;
    if (!callbacks.refusal) {
      callbacks.refusal = [](const HttpRefusal& refused) {
        return plain_text(std::string(refused.why), refused.status);
      };
    }
    server_ = std::make_unique<HttpServer>(options, std::move(callbacks));
    thread_ = std::thread([this] { server_->run(); });
  }
  ~RunningServer() { end(); }
  void end() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  int port() const { return server_->port(); }

 private:
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace ingot
