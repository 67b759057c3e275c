#include "serve/http/http_format.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <iterator>

namespace ingot {

namespace {

// "Sun, 06 Nov 1994 08:49:37 GMT". Not by strftime: the names of days depend on the locale there.
std::string date_of(std::time_t now) {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t{};
  if (gmtime_r(&now, &t) == nullptr) return "Thu, 01 Jan 1970 00:00:00 GMT";
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(t.tm_wday)], t.tm_mday,
                     kMonths[static_cast<size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

void add_header(std::string& text, std::string_view name, std::string_view value) {
  text += name;
  text += ": ";
  for (const char c : value) {
    const auto u = static_cast<unsigned char>(c);
    text += u < 0x20 || u == 0x7f ? ' ' : c;
  }
  text += "\r\n";
}

}  // namespace

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 529:
      return "Overloaded";
    default:
      return "Unknown";
  }
}

bool bodyless(int status) { return status / 100 == 1 || status == 204 || status == 304; }

std::string chunk_prefix(size_t bytes) { return fmt::format("{:x}\r\n", bytes); }

std::string response_head(const HttpResponse& response, const HttpFrame& frame) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  add_header(text, "date", date_of(std::time(nullptr)));
  add_header(text, "server", "ingot");
  if (!frame.id.empty()) add_header(text, "x-request-id", frame.id);
  if (!bodyless(response.status)) {
    if (!response.content_type.empty()) add_header(text, "content-type", response.content_type);
    if (frame.framing == HttpFraming::kLength) add_header(text, "content-length", std::to_string(frame.length));
    if (frame.framing == HttpFraming::kChunked) add_header(text, "transfer-encoding", "chunked");
  }
  for (const auto& [name, value] : response.headers) add_header(text, name, value);
  if (!frame.keep_alive) {
    add_header(text, "connection", "close");
  } else if (frame.minor == 0) {
    add_header(text, "connection", "keep-alive");
  }
  text += "\r\n";
  return text;
}

}  // namespace ingot
