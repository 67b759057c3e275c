// The formats of the drafts as languages, by the RFCs that the drafts name. Narrower than these: a leap second only as
// 23:59:60Z; a host name (and the domain of an email) without labels that have "--" at their third place, and
// idn-hostname and idn-email as hostname and email; `regex` without groups.
#pragma once

#include <optional>
#include <string_view>

#include "grammar/regex/regex.h"

namespace ingot::grammar {

// The texts of a format; nullopt where the name is no format of the drafts, which constrains nothing.
std::optional<Expr> format_expr(Regexes& pool, std::string_view name);

}  // namespace ingot::grammar
