// Which names of this server a browser may use, so that a foreign page cannot reach it through the person's browser:
// neither by a name that it makes point here (Host), nor by calling from its own page (Origin).
#pragma once

#include <string_view>

namespace ingot {

struct ServerOptions;

// "127.0.0.1" and the rest of its net, "::1", "localhost".
bool is_loopback(std::string_view host);

// `host` as the header has it, with or without a port. Without the header there is no browser. On a Unix socket any
// name will do, and so it does on an address that other machines can reach, where only the administrator knows its
// names and a key is needed anyway; a list of allowed hosts holds there too.
bool host_allowed(std::string_view host, const ServerOptions& options);

// Our own page, or one of --cors.
bool origin_allowed(std::string_view origin, std::string_view host, const ServerOptions& options);

}  // namespace ingot
