// Sockets that listen: by address or as a file of the Unix domain.
#pragma once

#include <string>

#include "serve/http/http.h"

namespace ingot {

// Closes the socket in the end, and removes the file of a Unix one where it is still its own.
class HttpListener {
 public:
  // Binds and listens. Throws Error with the address and the reason. A Unix socket that a dead server has left is
  // taken over; one that is answered, or any other file, is not.
  explicit HttpListener(const HttpOptions& options);
  ~HttpListener() { close(); }
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  int fd() const { return fd_; }
  int family() const { return family_; }
  int port() const { return port_; }                   // 0: a Unix socket
  const std::string& where() const { return where_; }  // "127.0.0.1:8080", "[::1]:8080" or the path
  void close();

 private:
  void open_unix(const std::string& path);
  void open_tcp(const std::string& host, int port);

  int fd_ = -1, family_ = 0, port_ = 0;
  std::string where_, path_;
  unsigned long device_ = 0, inode_ = 0;
};

}  // namespace ingot
