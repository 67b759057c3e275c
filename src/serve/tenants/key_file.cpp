#include "serve/tenants/key_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

namespace {

constexpr int64_t kMostLimit = 1'000'000'000;
constexpr size_t kMaxListed = 64;  // models or routes of a line

// One setting of a line.
struct Word {
  const std::string& text;  // "tpm=500"
  std::string_view value;   // "500"
  size_t line;
  std::span<const std::string_view> routes;

  [[noreturn]] void refuse(std::string_view wants) const {
    throw Error("[keys] line {}: '{}' is not {}", line, utf8_printable(text, 60), wants);
  }
};

template <class T>
T number(const Word& word, T low, T high, std::string_view wants) {
  T value = 0;
  const char* const end = word.value.data() + word.value.size();
  const auto result = std::from_chars(word.value.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !(value >= low && value <= high)) word.refuse(wants);
  return value;
}

int64_t limit(const Word& word) { return number<int64_t>(word, 1, kMostLimit, "a limit from 1 to 1000000000"); }

std::vector<std::string> list(const Word& word) {
  std::vector<std::string> items;
  std::istringstream parts{std::string(word.value)};
  for (std::string part; std::getline(parts, part, ',');) {
    if (part.empty()) word.refuse("a list: A,B");
    items.push_back(std::move(part));
  }
  if (items.empty() || items.size() > kMaxListed) word.refuse("a list of 1 to 64: A,B");
  return items;
}

std::vector<std::string> known_routes(const Word& word) {
  std::vector<std::string> items = list(word);
  for (const std::string& item : items) {
    const bool known = word.routes.empty() ||
                       std::ranges::any_of(word.routes, [&](std::string_view r) { return route_means(item, r); });
    // One that is misspelt would lock its tenant out without a word.
    if (!item.starts_with('/') || !known) word.refuse("a list of routes that there are: /v1/chat/completions,/v1/*");
  }
  return items;
}

struct Setting {
  std::string_view name;
  void (*read)(const Word& word, TenantRights& rights);
};

constexpr std::array<Setting, 9> kSettings = {{
    {"weight=",
     [](const Word& w, TenantRights& r) { r.weight = number<double>(w, 0.01, 1000, "a weight from 0.01 to 1000"); }},
    {"tpm=", [](const Word& w, TenantRights& r) { r.tokens_per_minute = limit(w); }},
    {"rpm=", [](const Word& w, TenantRights& r) { r.requests_per_minute = limit(w); }},
    {"concurrency=", [](const Word& w, TenantRights& r) { r.concurrency = static_cast<int>(limit(w)); }},
    {"context=", [](const Word& w, TenantRights& r) { r.context = static_cast<int>(limit(w)); }},
    {"priority=",
     [](const Word& w, TenantRights& r) { r.priority = number<int>(w, -100, 100, "a priority from -100 to 100"); }},
    {"models=", [](const Word& w, TenantRights& r) { r.models = list(w); }},
    {"routes=", [](const Word& w, TenantRights& r) { r.routes = known_routes(w); }},
    {"admin",
     [](const Word& w, TenantRights& r) {
       if (!w.value.empty()) w.refuse("a setting; it is admin alone");
       r.admin = true;
     }},
}};

TenantRights read_rights(std::istringstream& words, size_t line, std::span<const std::string_view> routes) {
  TenantRights rights;
  for (std::string word; words >> word && word[0] != '#';) {
    const auto setting = std::ranges::find_if(kSettings, [&](const Setting& s) { return word.starts_with(s.name); });
    if (setting == kSettings.end()) {
      throw Error(
          "[keys] line {}: unknown setting; known are weight=X, tpm=N, rpm=N, concurrency=N, context=N, priority=N, "
          "models=A,B, routes=/A,/B and admin",
          line);
    }
    const std::string_view value = std::string_view(word).substr(setting->name.size());
    setting->read({.text = word, .value = value, .line = line, .routes = routes}, rights);
  }
  return rights;
}

bool valid_name(std::string_view name) {
  return name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
           return c == '-' || c == '_' || c == '.' || (c < 0x80 && std::isalnum(c) != 0);
         });
}

}  // namespace

bool route_means(std::string_view pattern, std::string_view route) {
  if (!pattern.ends_with("/*")) return pattern == route;
  return pattern == route || route.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool TenantRights::may_call(std::string_view route) const {
  return routes.empty() || std::ranges::any_of(routes, [&](const std::string& r) { return route_means(r, route); });
}

void KeyTable::add(const std::string& name, const std::string& key, const TenantRights& rights, size_t line) {
  if (key.size() < 8 || key.size() > kMaxKeyBytes) {
    throw Error("[keys] line {}: a key has 8 to {} characters", line, kMaxKeyBytes);
  }
  const auto [same, first] = names.emplace(key, name);
  // Of the two the request would be one's, and which cannot be seen.
  if (!first && same->second != name) throw Error("[keys] line {}: the key is that of '{}', too", line, same->second);
  const auto [at, fresh] = tenants.emplace(name, rights);
  if (!fresh && at->second != rights) throw Error("[keys] line {}: '{}' has other limits above", line, name);
  keys.push_back({.name = name, .key = key});
}

void read_key_lines(const std::string& text, std::span<const std::string_view> routes, KeyTable& table) {
  std::istringstream file(text);
  const size_t before = table.keys.size();
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    std::string name, key;
    if (!(words >> name) || name[0] == '#') continue;
    if (!valid_name(name)) throw Error("[keys] line {}: a name has letters, digits, '-', '_' and '.' only", number);
    if (!(words >> key) || key[0] == '#') throw Error("[keys] line {}: the key is missing behind the name", number);
    table.add(name, key, read_rights(words, number, routes), number);
  }
  if (table.keys.size() == before) throw Error("[keys] the key file has no key");
}

}  // namespace ingot
