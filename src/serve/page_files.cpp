#include "serve/page_files.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/ui_files.h"

namespace ingot {

const char* const kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

namespace {

const char* type_of(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 6> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".json", "application/json"},
  }};
  for (const auto& [suffix, type] : kTypes) {
    if (name.ends_with(suffix)) return type;
  }
  return "application/octet-stream";
}

}  // namespace

void handle_page_file(Server&, HttpRequest request, std::shared_ptr<Responder> responder) {
  std::string_view name = std::string_view(request.head.path).substr(1);
  if (name.empty()) name = "index.html";
  for (const UiFile& file : ui_files()) {
    if (file.name != name) continue;
    responder->send({.content_type = type_of(name),
                     .body = std::string(file.bytes),
                     .headers = {{"content-security-policy", kPagePolicy},
                                 {"referrer-policy", "no-referrer"},
                                 {"x-frame-options", "DENY"},
                                 {"cross-origin-opener-policy", "same-origin"},
                                 {"cache-control", "no-cache"}}});
    return;
  }
  throw no_route(request.head.path);
}

}  // namespace ingot
