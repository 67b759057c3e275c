#include "serve/http/http_listen.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace ingot {

namespace {

constexpr int kBacklog = 1024;

[[noreturn]] void fail(const std::string& where, int error) {
  throw Error("[http] cannot listen on {}: {}", where, std::generic_category().message(error));
}

int new_socket(int family) { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

// Whether somebody accepts on the socket of this name.
bool answered(const sockaddr_un& address) {
  const int fd = new_socket(AF_UNIX);
  if (fd < 0) return true;
  const int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool refused = result != 0 && errno == ECONNREFUSED;
  ::close(fd);
  return !refused;
}

std::string name_of(const sockaddr_storage& address, socklen_t length, int& port) {
  char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof(host), service, sizeof(service),
                NI_NUMERICHOST | NI_NUMERICSERV);
  port = address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace

HttpListener::HttpListener(const HttpOptions& options) {
  try {
    if (options.unix_socket.empty()) {
      open_tcp(options.host, options.port);
    } else {
      open_unix(options.unix_socket);
    }
  } catch (...) {
    close();
    throw;
  }
}

void HttpListener::open_tcp(const std::string& host, int port) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  where_ = fmt::format("{}:{}", host, port);
  if (port < 0 || port > 65535) throw Error("[http] cannot listen on {}: no such port", where_);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw Error("[http] cannot listen on {}: {}", where_, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  // A name may stand for both families; most clients try 127.0.0.1.
  for (addrinfo* other = found; other != nullptr && found->ai_family != AF_INET; other = other->ai_next) {
    if (other->ai_family == AF_INET) found = other;
  }
  family_ = found->ai_family;
  fd_ = new_socket(family_);
  if (fd_ < 0) fail(where_, errno);
  const int on = 1;
  ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd_, found->ai_addr, found->ai_addrlen) != 0) fail(where_, errno);
  if (::listen(fd_, kBacklog) != 0) fail(where_, errno);
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) fail(where_, errno);
  where_ = name_of(address, length, port_);
}

void HttpListener::open_unix(const std::string& path) {
  where_ = path;
  family_ = AF_UNIX;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw Error("[http] cannot listen on {}: the path is longer than {} bytes", path, sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) throw Error("[http] cannot listen on {}: a file that is no socket is there", path);
    if (answered(address)) fail(path, EADDRINUSE);
    if (::unlink(path.c_str()) != 0) fail(path, errno);
  }
  fd_ = new_socket(AF_UNIX);
  if (fd_ < 0) fail(path, errno);
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fail(path, errno);
  path_ = path;
  // For this user only, and before anybody can connect.
  if (::chmod(path.c_str(), 0600) != 0 || ::stat(path.c_str(), &status) != 0) fail(path, errno);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (::listen(fd_, kBacklog) != 0) fail(path, errno);
}

void HttpListener::close() {
  if (fd_ < 0) return;
  ::close(fd_);
  fd_ = -1;
  struct stat status {};
  if (path_.empty() || ::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace ingot
