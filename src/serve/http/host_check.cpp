#include "serve/http/host_check.h"

#include <algorithm>
#include <cctype>

#include "serve/server.h"

namespace ingot {

namespace {

// "[::1]:80" → "::1", "a:80" → "a".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Of dotted numbers alone: "127.0.0.1.example.com" is a name that anybody may own.
bool loopback_number(std::string_view host) {
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](unsigned char c) { return c == '.' || std::isdigit(c) != 0; });
}

}  // namespace

bool is_loopback(std::string_view host) {
  return same_name(host, "localhost") || host == "::1" || host == "[::1]" || loopback_number(host);
}

bool host_allowed(std::string_view host, const ServerOptions& options) {
  if (host.empty() || !options.http.unix_socket.empty()) return true;
  const std::string_view name = without_port(host);
  const auto allowed = [&](const std::string& one) {
    return one == "*" || same_name(one, name) || same_name(one, host);
  };
  if (std::ranges::any_of(options.allowed_hosts, allowed)) return true;
  if (is_loopback(name) || same_name(name, options.http.host)) return true;
  return options.allowed_hosts.empty() && !is_loopback(options.http.host);
}

bool origin_allowed(std::string_view origin, std::string_view host, const ServerOptions& options) {
  if (!options.cors_origin.empty() && (options.cors_origin == "*" || same_name(origin, options.cors_origin)))
    return true;
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && !host.empty() && same_name(origin.substr(scheme + 3), host);
}

}  // namespace ingot
