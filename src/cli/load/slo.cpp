#include "cli/load/slo.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace ingot {

Slo parse_slo(const std::string& text) {
  Slo slo;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view part = std::string_view(text).substr(at, comma - at);
    at = comma + 1;
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    double* limit = name == "ttft" ? &slo.ttft_ms : name == "itl" ? &slo.itl_ms : name == "e2e" ? &slo.e2e_ms : nullptr;
    if (limit == nullptr || equals == part.size()) throw Error("'{}' is not ttft=MS, itl=MS or e2e=MS", part);
    const std::string_view value = part.substr(equals + 1);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *limit);
    const std::string_view unit(end, static_cast<size_t>(value.data() + value.size() - end));
    if (unit == "s") *limit *= 1e3;
    const bool known = unit.empty() || unit == "ms" || unit == "s";
    if (error != std::errc() || !known || !(*limit > 0 && *limit <= 1e9)) {
      throw Error("'{}' is not a time such as 500, 500ms or 0.5s", value);
    }
  }
  return slo;
}

}  // namespace ingot
