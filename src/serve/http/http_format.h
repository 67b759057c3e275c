// Answers as bytes: first line and headers.
#pragma once

#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace ingot {

// How the end of an answer's body is told.
enum class HttpFraming {
  kLength,   // by Content-Length
  kChunked,  // by a last chunk
  kClose,    // by the connection's end (HTTP/1.0)
};

struct HttpFrame {
  HttpFraming framing = HttpFraming::kLength;
  size_t length = 0;
  bool keep_alive = true;
  int minor = 1;        // of the request's version
  std::string id = {};  // of the request; empty: none is named
};

// The head with its empty line. Control characters in values become spaces, so that a value cannot add a header.
std::string response_head(const HttpResponse& response, const HttpFrame& frame);

// "Not Found"; "Unknown" for a status without a name.
std::string_view reason_of(int status);

// Statuses whose answers have no body: 1xx, 204, 304.
bool bodyless(int status);

// The size line of a chunk.
std::string chunk_prefix(size_t bytes);

}  // namespace ingot
