// Fuzz target: the requests of one connection. The first byte says how the bytes are cut; however they are, the same
// requests come out, and nothing is larger than the limits.
// coverage: src/serve/http/http_parse.cpp src/serve/http/http_parse_body.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/http/http_parse.h"

namespace {

using ingot::HttpReader;
using Progress = ingot::HttpReader::Progress;

ingot::HttpLimits small_limits() {
  ingot::HttpLimits limits;
  limits.header_bytes = 600;
  limits.headers = 8;
  limits.target_bytes = 200;
  limits.body_bytes = 300;
  return limits;
}

void require(bool condition) {
  if (!condition) std::abort();
}

// What one request is to the rest of the server, as a text.
std::string tell(HttpReader& reader, const ingot::HttpLimits& limits) {
  const ingot::HttpHead& head = reader.head();
  const std::string body = reader.take_body();
  require(body.size() <= limits.body_bytes && head.headers.size() <= limits.headers);
  require(head.path.starts_with('/') && head.path.size() + head.query.size() <= limits.target_bytes);
  std::string text = head.method + " " + head.path + "?" + head.query + "\n";
  for (const auto& [name, value] : head.headers) {
    require(head.header(name).data() != nullptr && value.find_first_of("\r\n") == value.npos);
    text += name + ":" + value + "\n";
  }
  text += reader.keep_alive() ? "keep" : "close";
  text += reader.expects_continue() ? " expects" : "";
  text += std::to_string(reader.minor()) + "\n" + body + "\n";
  return text;
}

std::string requests_of(std::string_view bytes, size_t piece) {
  const ingot::HttpLimits limits = small_limits();
  HttpReader reader(limits);
  std::string text;
  bool in_body = false;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    reader.append(bytes.substr(at, piece));
    for (;;) {
      const Progress progress = in_body ? reader.read_body() : reader.read_head();
      if (progress == Progress::kRefused) return text + std::to_string(reader.problem().status);
      if (progress == Progress::kMore) break;
      if (in_body) {
        text += tell(reader, limits);
        reader.next();
      }
      in_body = !in_body;
    }
    require(in_body || reader.buffered() <= limits.header_bytes + 2);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  require(requests_of(bytes, size) == requests_of(bytes, size_t{data[0]} % 40 + 1));
  return 0;
}
