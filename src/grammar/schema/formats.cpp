#include "grammar/schema/formats.h"

#include <string>

#include "grammar/regex/pattern.h"

namespace ingot::grammar {

namespace {

// Patterns are joined as texts: each part stands in a group of its own.
std::string group(const std::string& pattern) { return "(?:" + pattern + ")"; }

const std::string kDate =
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|"
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";  // leap years
const std::string kTime =
    "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|"
    "23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))";
const std::string kClock = "(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
const std::string kDuration =
    "P(?:[0-9]+W|(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)(?:T" + kClock + ")?|T" + kClock + ")";

const std::string kByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kIpv4 = group(kByte + "(?:\\." + kByte + "){3}");

// RFC 3986: eight groups of 16 bits, of which one run of zeros is written as "::".
std::string ipv6() {
  const std::string h16 = "[0-9A-Fa-f]{1,4}";
  const std::string ls32 = group(h16 + ":" + h16 + "|" + kIpv4);
  std::string out = group(h16 + ":") + "{6}" + ls32 + "|::" + group(h16 + ":") + "{5}" + ls32;
  for (int before = 0; before <= 4; before++) {  // groups before the "::", at most before + 1
    const std::string head = group(group(h16 + ":") + "{0," + std::to_string(before) + "}" + h16) + "?::";
    const int after = 4 - before;
    out += "|" + head + (after == 0 ? std::string() : group(h16 + ":") + "{" + std::to_string(after) + "}") + ls32;
  }
  out += "|" + group(group(h16 + ":") + "{0,5}" + h16) + "?::" + h16;
  out += "|" + group(group(h16 + ":") + "{0,6}" + h16) + "?::";
  return group(out);
}

struct UriParts {
  std::string scheme = "[A-Za-z][A-Za-z0-9+.-]*:";
  std::string hier, relative, tail;
};

// `other`: further characters of IRIs, as the inside of a class.
UriParts uri_parts(const std::string& other) {
  const std::string percent = "%[0-9A-Fa-f]{2}";
  const std::string plain = "A-Za-z0-9._~!$&'()*+,;=" + other;  // a dash follows last
  const auto chars = [&](const std::string& more) { return group("[" + plain + more + "-]|" + percent); };
  const std::string pchar = chars(":@");
  const std::string authority =
      group(chars(":") + "*@") + "?" +
      group("\\[(?:" + ipv6() + "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|" + chars("") + "*") +
      "(?::[0-9]*)?";
  const std::string path = group("/" + pchar + "*") + "*";
  const std::string absolute = "/" + group(pchar + "+" + path) + "?";
  UriParts parts;
  parts.hier = group("//" + authority + path + "|" + absolute + "|" + pchar + "+" + path + "|");
  parts.relative = group("//" + authority + path + "|" + absolute + "|" + chars("@") + "+" + path + "|");
  const std::string rest = group("[" + plain + ":@/?-]|" + percent) + "*";
  parts.tail = group("\\?" + rest) + "?" + group("#" + rest) + "?";
  return parts;
}

const std::string kIriChars = "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{EFFFD}";

std::string uri(const std::string& other, bool may_be_relative) {
  const UriParts parts = uri_parts(other);
  const std::string full = parts.scheme + parts.hier + parts.tail;
  return may_be_relative ? full + "|" + parts.relative + parts.tail : full;
}

const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";

std::string uri_template() {
  const std::string name = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*";
  const std::string item = name + "(?::[1-9][0-9]{0,3}|\\*)?";
  const std::string literal = "[!#$&()*+,./:;=?@_~A-Za-z0-9\\[\\]-]|%[0-9A-Fa-f]{2}|[" + kIriChars + "]";
  return group(literal + "|\\{[+#./;?&=,!@|]?" + item + group("," + item) + "*\\}") + "*";
}

Expr whole(Regexes& pool, const std::string& pattern) { return parse_pattern(pool, pattern); }

Expr host_name(Regexes& pool) {
  const Expr plain = whole(pool, kLabel);
  const Expr reserved = whole(pool, "[A-Za-z0-9-]{2}--[A-Za-z0-9-]*");
  const Expr label = pool.without(plain, reserved);
  const Expr name = pool.concat(label, pool.star(pool.concat(pool.literal("."), label)));
  return pool.all_of({name, pool.repeat(pool.any_char(), 1, 253)});
}

Expr email(Regexes& pool) {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const Expr local = whole(pool, atom + "(?:\\." + atom + ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"");
  const Expr address = whole(pool, "\\[(?:" + kIpv4 + "|IPv6:" + ipv6() + ")\\]");
  return pool.concat({local, pool.literal("@"), pool.any_of({host_name(pool), address})});
}

}  // namespace

std::optional<Expr> format_expr(Regexes& pool, std::string_view name) {
  if (name == "date") return whole(pool, kDate);
  if (name == "time") return whole(pool, kTime);
  if (name == "date-time") return whole(pool, kDate + "[Tt]" + kTime);
  if (name == "duration") return whole(pool, kDuration);
  if (name == "email" || name == "idn-email") return email(pool);
  if (name == "hostname" || name == "idn-hostname") return host_name(pool);
  if (name == "ipv4") return whole(pool, kIpv4);
  if (name == "ipv6") return whole(pool, ipv6());
  if (name == "uri") return whole(pool, uri("", false));
  if (name == "uri-reference") return whole(pool, uri("", true));
  if (name == "iri") return whole(pool, uri(kIriChars, false));
  if (name == "iri-reference") return whole(pool, uri(kIriChars, true));
  if (name == "uri-template") return whole(pool, uri_template());
  if (name == "uuid") return whole(pool, "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}");
  if (name == "json-pointer") return whole(pool, "(?:/(?:[^/~]|~[01])*)*");
  if (name == "relative-json-pointer") return whole(pool, "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)");
  if (name == "regex") {
    return whole(
        pool, "\\^?(?:(?:[^\\\\()\\[\\]{}*+?|^$.]|\\.|\\\\[dDwWsS.*+?()\\[\\]{}|^$]|\\[[A-Za-z0-9_ ]+\\])[*+?]?)*\\$?");
  }
  return std::nullopt;
}

}  // namespace ingot::grammar
