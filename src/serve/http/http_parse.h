// Requests of one connection out of its bytes, however they are cut: strict HTTP/1.1, no sockets. What two parsers
// could read differently (two lengths, a length beside chunks, a bare LF, folded lines, space before a colon) is
// refused, so that nothing can be smuggled past a proxy. Time is linear in the bytes, memory bounded by the limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace ingot {

// What is wrong with a request, as a status and one sentence.
struct HttpProblem {
  int status = 0;
  std::string why;
};

class HttpReader {
 public:
  enum class Progress { kMore, kReady, kRefused };

  explicit HttpReader(const HttpLimits& limits) : limits_(limits), body_limit_(limits.body_bytes) {}

  void append(std::string_view bytes) { in_.append(bytes); }

  // kReady: head() and the facts about it are there. REQUIRES: not called again before next().
  Progress read_head();
  // kReady: the body is whole. After read_head() was ready.
  Progress read_body();
  // Starts over with the bytes that follow.
  void next();
  // The largest body of this request, where that is less than the limit of all. False: by its head it is larger.
  bool limit_body(size_t bytes);
  // What has come of the body goes, and what comes is counted and not kept.
  void drop_body();

  HttpHead& head() { return head_; }
  // Of the target, also where the head was refused, or did not come to its end, after a whole first line; else empty.
  std::string_view path() const;
  std::string take_body() { return std::move(body_); }
  // Bytes of the body that have come.
  size_t body_size() const { return body_size_; }
  // Bytes of it that are held.
  size_t body_held() const { return body_.size(); }
  const HttpProblem& problem() const { return problem_; }

  bool has_body() const { return chunked_ || length_ > 0; }
  // A body of at most so many bytes, by its head.
  bool body_within(size_t bytes) const { return !chunked_ && length_ <= bytes; }
  bool keep_alive() const { return keep_alive_; }
  bool expects_continue() const { return expects_continue_; }
  int minor() const { return minor_; }  // of the version: HTTP/1.minor
  // Bytes that were appended and not yet used.
  size_t buffered() const { return in_.size() - begin_; }

 private:
  enum class Chunk { kSize, kData, kDataEnd, kTrailer };

  Progress refuse(int status, std::string why);
  bool skip_empty_lines();
  Progress find_head_end();
  Progress end_line(size_t end);
  Progress parse_head();
  Progress examine_head();
  Progress examine_target();
  Progress examine_lengths();
  Progress read_plain();
  Progress read_chunks();
  Progress read_chunk_size();
  Progress read_chunk_data();
  Progress read_chunk_end();
  Progress read_trailer();
  Progress take_line(size_t most, std::string_view& line);
  void take_body_bytes(size_t count);
  void compact();

  const HttpLimits limits_;
  std::string in_;
  size_t begin_ = 0;       // in_ before it is used up
  size_t scan_ = 0;        // in_ from begin_ to here holds no end of the head, or of the line that is looked for
  size_t line_begin_ = 0;  // of the head's line that is scanned
  size_t lines_ = 0;       // of the head, whole ones
  int empty_lines_ = 0;

  HttpHead head_;
  std::string target_;
  std::string body_;
  size_t body_size_ = 0;
  size_t body_limit_;
  bool dropped_ = false;
  HttpProblem problem_;
  int minor_ = 1;
  bool keep_alive_ = true;
  bool expects_continue_ = false;
  bool chunked_ = false;
  uint64_t length_ = 0;

  Chunk chunk_ = Chunk::kSize;
  uint64_t chunk_left_ = 0;
  size_t raw_bytes_ = 0;  // of the body with its framing
  size_t trailer_bytes_ = 0;
};

}  // namespace ingot
