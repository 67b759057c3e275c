#include "serve/http/http_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <charconv>
#include <utility>

namespace ingot {

namespace {

namespace beast = boost::beast;

constexpr size_t kRequestLineRest = 64;  // method, version and spaces beside the target
constexpr size_t kMethodBytes = 32;
constexpr size_t kKept = 16 << 10;  // room that an idle connection may keep

bool is_token(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Hands the parts of a head that is there as a whole to an HttpHead.
class HeadParser : public beast::http::basic_parser<true> {
 public:
  HeadParser(HttpHead& head, std::string& target) : head_(head), target_(target) {}
  int version() const { return version_; }

 private:
  using View = beast::string_view;
  using Code = beast::error_code;

  void on_request_impl(beast::http::verb, View method, View target, int version, Code&) override {
    head_.method.assign(method.data(), method.size());
    target_.assign(target.data(), target.size());
    version_ = version;
  }
  void on_response_impl(int, View, int, Code&) override {}
  void on_field_impl(beast::http::field, View name, View value, Code&) override {
    head_.headers.emplace_back(lower({name.data(), name.size()}), std::string(value.data(), value.size()));
  }
  void on_header_impl(Code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}
  std::size_t on_body_impl(View body, Code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, View, Code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, View body, Code&) override { return body.size(); }
  void on_finish_impl(Code&) override {}

  HttpHead& head_;
  std::string& target_;
  int version_ = 11;
};

HttpProblem problem_of(const beast::error_code& code) {
  using beast::http::error;
  if (code == error::bad_version) return {400, "only HTTP/1.1 and HTTP/1.0 are spoken"};
  if (code == error::bad_content_length) return {400, "bad Content-Length"};
  if (code == error::multiple_content_length) return {400, "more than one Content-Length"};
  if (code == error::bad_transfer_encoding) return {400, "bad Transfer-Encoding"};
  if (code == error::bad_target) return {400, "bad request target"};
  if (code == error::bad_method) return {400, "bad method"};
  return {400, "bad header"};
}

}  // namespace

std::string_view HttpHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

HttpReader::Progress HttpReader::refuse(int status, std::string why) {
  problem_ = {status, std::move(why)};
  return Progress::kRefused;
}

void HttpReader::next() {
  compact();
  head_ = {};
  target_.clear();
  body_ = {};
  body_size_ = 0;
  body_limit_ = limits_.body_bytes;
  dropped_ = false;
  problem_ = {};
  scan_ = line_begin_ = begin_;
  lines_ = raw_bytes_ = trailer_bytes_ = 0;
  empty_lines_ = 0;
  minor_ = 1;
  keep_alive_ = true;
  expects_continue_ = chunked_ = false;
  length_ = chunk_left_ = 0;
  chunk_ = Chunk::kSize;
}

std::string_view HttpReader::path() const {
  std::string_view target = target_;
  if (target.empty()) {
    const std::string_view rest = std::string_view(in_).substr(begin_);
    const std::string_view line = rest.substr(0, rest.find("\r\n"));
    if (line.size() == rest.size()) return {};
    const size_t begin = line.find(' '), end = line.rfind(' ');
    if (begin == end) return {};
    target = line.substr(begin + 1, end - begin - 1);
  }
  return target.substr(0, target.find('?'));
}

// Moves the rest to the front, at most once for as many bytes as are moved, so that the whole stays linear.
void HttpReader::compact() {
  if (begin_ == 0 || begin_ < in_.size() - begin_) return;
  in_.erase(0, begin_);
  scan_ -= std::min(scan_, begin_);
  line_begin_ -= std::min(line_begin_, begin_);
  begin_ = 0;
  if (in_.empty() && in_.capacity() > kKept) in_ = {};
}

HttpReader::Progress HttpReader::read_head() {
  const Progress found = find_head_end();
  if (found != Progress::kReady) return found;
  const Progress parsed = parse_head();
  if (parsed != Progress::kReady) return parsed;
  return examine_head();
}

// Empty lines before a request: some clients send one after a body. False: more bytes are needed to know.
bool HttpReader::skip_empty_lines() {
  while (begin_ < in_.size() && in_[begin_] == '\r' && empty_lines_ < 2) {
    if (begin_ + 1 == in_.size()) return false;
    if (in_[begin_ + 1] != '\n') return true;
    begin_ += 2;
    ++empty_lines_;
  }
  return begin_ < in_.size();
}

// Ready where [begin_, scan_) is the whole head with its empty line. What can be refused is refused at once, not when
// the client stops sending.
HttpReader::Progress HttpReader::find_head_end() {
  if (scan_ == begin_) {
    const bool begun = skip_empty_lines();
    scan_ = line_begin_ = begin_;
    if (!begun) return Progress::kMore;
    if (!is_token(static_cast<unsigned char>(in_[begin_]))) return refuse(400, "not HTTP");
  }
  for (; scan_ < in_.size(); ++scan_) {
    const char c = in_[scan_];
    const bool after_cr = scan_ > begin_ && in_[scan_ - 1] == '\r';
    if (scan_ - begin_ >= limits_.header_bytes) {
      return refuse(431, fmt::format("the headers are longer than {} bytes", limits_.header_bytes));
    }
    if (lines_ == 0 && scan_ - begin_ > limits_.target_bytes + kRequestLineRest) {
      return refuse(414, fmt::format("the target is longer than {} bytes", limits_.target_bytes));
    }
    if ((c == '\n') != after_cr) return refuse(400, "a line does not end with CR LF");
    if (c == '\0') return refuse(400, "a NUL byte in the headers");
    if (c == '\n') {
      const Progress line = end_line(scan_ + 1);
      if (line != Progress::kMore) return line;
    } else if (scan_ == line_begin_ && (c == ' ' || c == '\t')) {
      return refuse(400, "a folded header");
    }
  }
  return Progress::kMore;
}

// The line [line_begin_, end) is whole. Ready: it is the empty one.
HttpReader::Progress HttpReader::end_line(size_t end) {
  const bool empty = end - line_begin_ == 2;
  line_begin_ = end;
  if (empty) {
    scan_ = end;
    return Progress::kReady;
  }
  if (++lines_ > limits_.headers + 1) return refuse(431, fmt::format("more than {} headers", limits_.headers));
  return Progress::kMore;
}

HttpReader::Progress HttpReader::parse_head() {
  HeadParser parser(head_, target_);
  parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes + 1));
  parser.body_limit(boost::none);
  beast::error_code code;
  parser.put(boost::asio::buffer(in_.data() + begin_, scan_ - begin_), code);
  if (code && code != beast::http::error::need_more) {
    problem_ = problem_of(code);
    return Progress::kRefused;
  }
  if (!parser.is_header_done()) return refuse(400, "bad header");
  if (parser.version() != 10 && parser.version() != 11) return refuse(400, "only HTTP/1.1 and HTTP/1.0 are spoken");
  minor_ = parser.version() - 10;
  keep_alive_ = parser.keep_alive();
  begin_ = scan_;
  return Progress::kReady;
}

HttpReader::Progress HttpReader::examine_head() {
  if (head_.method.size() > kMethodBytes) return refuse(400, "bad method");
  size_t hosts = 0;
  for (const auto& [name, value] : head_.headers) {
    hosts += name == "host" ? 1 : 0;
    const bool text = std::all_of(value.begin(), value.end(), [](char c) {
      const auto u = static_cast<unsigned char>(c);
      return u == '\t' || (u >= 0x20 && u != 0x7f);
    });
    if (!text) return refuse(400, "a control character in a header");
  }
  if (hosts > 1) return refuse(400, "more than one Host");
  if (hosts == 0 && minor_ == 1) return refuse(400, "no Host");
  const Progress target = examine_target();
  if (target != Progress::kReady) return target;
  const std::string encoding = lower(head_.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity") return refuse(415, "compressed bodies are not read");
  const std::string expect = lower(head_.header("expect"));
  if (!expect.empty() && expect != "100-continue") return refuse(417, "unknown expectation");
  expects_continue_ = !expect.empty() && minor_ == 1;
  return examine_lengths();
}

// Splits the target. An absolute one takes the place of Host, as the standard asks.
HttpReader::Progress HttpReader::examine_target() {
  if (target_.size() > limits_.target_bytes) {
    return refuse(414, fmt::format("the target is longer than {} bytes", limits_.target_bytes));
  }
  std::string_view target = target_;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (lower(target.substr(0, scheme.size())) != scheme) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
    if (authority.empty() || authority.find('@') != authority.npos) return refuse(400, "bad request target");
    for (auto& [name, value] : head_.headers) {
      if (name == "host") value.assign(authority);
    }
    target = rest.substr(authority.size());
    if (target.empty()) target = "/";
    break;
  }
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
  if (!printable || !target.starts_with('/')) return refuse(400, "bad request target");
  const size_t mark = target.find('?');
  head_.path.assign(target.substr(0, mark));
  if (mark != target.npos) head_.query.assign(target.substr(mark + 1));
  return Progress::kReady;
}

HttpReader::Progress HttpReader::examine_lengths() {
  size_t lengths = 0, codings = 0;
  for (const auto& [name, value] : head_.headers) {
    lengths += name == "content-length" ? 1 : 0;
    codings += name == "transfer-encoding" ? 1 : 0;
  }
  if (lengths > 1) return refuse(400, "more than one Content-Length");
  if (codings > 1) return refuse(400, "more than one Transfer-Encoding");
  if (lengths > 0 && codings > 0) return refuse(400, "both Content-Length and Transfer-Encoding");
  if (codings > 0) {
    if (minor_ == 0) return refuse(400, "Transfer-Encoding in HTTP/1.0");
    if (lower(head_.header("transfer-encoding")) != "chunked") return refuse(400, "only chunked bodies are read");
    chunked_ = true;
  }
  if (lengths > 0) {
    const std::string_view text = head_.header("content-length");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length_);
    if (error != std::errc() || end != text.data() + text.size()) return refuse(400, "bad Content-Length");
    if (length_ > limits_.body_bytes) {
      return refuse(413, fmt::format("the body is longer than {} bytes", limits_.body_bytes));
    }
  }
  scan_ = begin_;
  return Progress::kReady;
}

}  // namespace ingot
