#include <fmt/format.h>

#include <algorithm>

#include "serve/http/http_parse.h"

namespace ingot {

namespace {

constexpr size_t kChunkLineBytes = 256;  // a size and its extensions
constexpr size_t kFramingFactor = 8;     // bytes with framing for one of the body: chunks of one byte take six
constexpr size_t kFramingRoom = 64 << 10;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool HttpReader::limit_body(size_t bytes) {
  body_limit_ = std::min(bytes, limits_.body_bytes);
  return chunked_ ? body_limit_ > 0 : length_ <= body_limit_;
}

void HttpReader::drop_body() {
  dropped_ = true;
  body_ = {};
}

void HttpReader::take_body_bytes(size_t count) {
  if (!dropped_) body_.append(in_, begin_, count);
  body_size_ += count;
  begin_ += count;
  scan_ = begin_;
}

HttpReader::Progress HttpReader::read_body() {
  const size_t before = begin_;
  const Progress progress = chunked_ ? read_chunks() : read_plain();
  raw_bytes_ += begin_ - before;
  compact();
  if (progress == Progress::kMore && raw_bytes_ > kFramingFactor * body_limit_ + kFramingRoom) {
    return refuse(413, "the body has more framing than content");
  }
  return progress;
}

HttpReader::Progress HttpReader::read_plain() {
  take_body_bytes(static_cast<size_t>(std::min<uint64_t>(length_ - body_size_, in_.size() - begin_)));
  return body_size_ == length_ ? Progress::kReady : Progress::kMore;
}

HttpReader::Progress HttpReader::read_chunks() {
  for (;;) {
    const Chunk before = chunk_;
    Progress progress = Progress::kMore;
    switch (chunk_) {
      case Chunk::kSize:
        progress = read_chunk_size();
        break;
      case Chunk::kData:
        progress = read_chunk_data();
        break;
      case Chunk::kDataEnd:
        progress = read_chunk_end();
        break;
      case Chunk::kTrailer:
        progress = read_trailer();
        break;
    }
    if (progress != Progress::kMore || chunk_ == before) return progress;
  }
}

// A whole line without its CR LF, of at most `most` bytes. Ready: `line` is valid until the next append().
HttpReader::Progress HttpReader::take_line(size_t most, std::string_view& line) {
  const size_t end = in_.find('\n', scan_);
  const size_t length = (end == in_.npos ? in_.size() : end) - begin_;
  if (length > most) return refuse(400, "a line of the chunked body is too long");
  if (end == in_.npos) {
    scan_ = in_.size();
    return Progress::kMore;
  }
  if (length == 0 || in_[end - 1] != '\r') return refuse(400, "a line does not end with CR LF");
  line = std::string_view(in_).substr(begin_, length - 1);
  for (const char c : line) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t')
      return refuse(400, "a control character in the chunked body");
  }
  begin_ = scan_ = end + 1;
  return Progress::kReady;
}

HttpReader::Progress HttpReader::read_chunk_size() {
  std::string_view line;
  const Progress progress = take_line(kChunkLineBytes, line);
  if (progress != Progress::kReady) return progress;
  uint64_t size = 0;
  size_t digits = 0;
  for (; digits < line.size() && hex_digit(line[digits]) >= 0; ++digits) {
    if (digits == 15) return refuse(400, "bad size of a chunk");
    size = size * 16 + static_cast<uint64_t>(hex_digit(line[digits]));
  }
  if (digits == 0 || (digits < line.size() && line[digits] != ';')) return refuse(400, "bad size of a chunk");
  if (size > body_limit_ - body_size_) {
    return refuse(413, fmt::format("the body is longer than {} bytes", body_limit_));
  }
  chunk_left_ = size;
  chunk_ = size > 0 ? Chunk::kData : Chunk::kTrailer;
  return Progress::kMore;
}

HttpReader::Progress HttpReader::read_chunk_data() {
  const auto count = static_cast<size_t>(std::min<uint64_t>(chunk_left_, in_.size() - begin_));
  take_body_bytes(count);
  chunk_left_ -= count;
  if (chunk_left_ == 0) chunk_ = Chunk::kDataEnd;
  return Progress::kMore;
}

HttpReader::Progress HttpReader::read_chunk_end() {
  if (in_.size() > begin_ && in_[begin_] != '\r') return refuse(400, "a chunk is longer than its size");
  if (in_.size() - begin_ < 2) return Progress::kMore;
  if (in_[begin_ + 1] != '\n') return refuse(400, "a chunk is longer than its size");
  begin_ += 2;
  scan_ = begin_;
  chunk_ = Chunk::kSize;
  return Progress::kMore;
}

// Trailers are read over: nothing of a request is taken from behind its body.
HttpReader::Progress HttpReader::read_trailer() {
  for (;;) {
    std::string_view line;
    const Progress progress = take_line(limits_.header_bytes, line);
    if (progress != Progress::kReady) return progress;
    if (line.empty()) return Progress::kReady;
    trailer_bytes_ += line.size();
    if (trailer_bytes_ > limits_.header_bytes) return refuse(431, "the trailers are too long");
  }
}

}  // namespace ingot
