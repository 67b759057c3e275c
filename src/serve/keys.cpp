#include "serve/keys.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "files/json.h"

namespace ingot {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxKeyBytes = 512;
constexpr const char* kDefaultName = "default";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::array<uint8_t, 32> random_salt() {
  std::array<uint8_t, 32> salt{};
  if (getentropy(salt.data(), salt.size()) != 0) throw Error("[keys] the system gives no random bytes");
  return salt;
}

// Every byte is looked at whatever the first ones say.
bool equal(const std::array<uint8_t, 32>& a, const std::array<uint8_t, 32>& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

int64_t parse_limit(const std::string& word, size_t value_at, size_t line) {
  int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data() + value_at, end, value);
  if (result.ec != std::errc() || result.ptr != end || value < 1 || value > 1'000'000'000) {
    throw Error("[keys] line {}: '{}' is not a limit from 1 to 1000000000", line, utf8_printable(word, 60));
  }
  return value;
}

KeyLimits parse_limits(std::istringstream& words, size_t line) {
  KeyLimits limits;
  for (std::string word; words >> word && word[0] != '#';) {
    if (word.starts_with("concurrency=")) {
      limits.concurrency = static_cast<int>(parse_limit(word, 12, line));
    } else if (word.starts_with("tpm=")) {
      limits.tokens_per_minute = parse_limit(word, 4, line);
    } else {
      throw Error("[keys] line {}: unknown setting; known are concurrency=N and tpm=N", line);
    }
  }
  return limits;
}

bool valid_name(std::string_view name) {
  return name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
           return c == '-' || c == '_' || c == '.' || (c < 0x80 && std::isalnum(c) != 0);
         });
}

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

Keys::Keys(KeyOptions options)
    : options_(std::move(options)), salt_(random_salt()), required_(!options_.file.empty() || !options_.keys.empty()) {
  if (!options_.file.empty()) stamp_ = stamp_of(options_.file);
  take(read());
}

Keys::Digest Keys::digest(std::string_view key) const {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(salt_)));
  sha.update(std::as_bytes(std::span(key)));
  return sha.finish();
}

Keys::Stamp Keys::stamp_of(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) throw Error("[keys] the key file cannot be read");
  // Of the last change of any kind: new rights count as well.
  return {.seconds = info.st_ctim.tv_sec,
          .nanoseconds = info.st_ctim.tv_nsec,
          .bytes = info.st_size,
          .inode = static_cast<uint64_t>(info.st_ino)};
}

Keys::Table Keys::read() const {
  Table table;
  const auto add = [&](const std::string& name, std::string_view key, const KeyLimits& limits, size_t line) {
    if (key.size() < 8 || key.size() > kMaxKeyBytes) {
      throw Error("[keys] line {}: a key has 8 to {} characters", line, kMaxKeyBytes);
    }
    const auto [at, fresh] = table.limits.emplace(name, limits);
    if (!fresh && at->second != limits) throw Error("[keys] line {}: '{}' has other limits above", line, name);
    table.entries.push_back({.name = name, .digest = digest(key)});
  };
  for (const std::string& key : options_.keys) add(kDefaultName, key, {}, 0);
  if (options_.file.empty()) return table;

  std::istringstream file(read_text_file(options_.file, kMaxFileBytes));
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    std::string name, key;
    if (!(words >> name) || name[0] == '#') continue;
    if (!valid_name(name)) throw Error("[keys] line {}: a name has letters, digits, '-', '_' and '.' only", number);
    if (!(words >> key) || key[0] == '#') throw Error("[keys] line {}: the key is missing behind the name", number);
    add(name, key, parse_limits(words, number), number);
  }
  if (table.entries.empty()) throw Error("[keys] the key file has no key");
  return table;
}

void Keys::take(Table table) {
  auto entries = std::make_shared<const std::vector<Entry>>(std::move(table.entries));
  const double now = options_.now ? options_.now() : steady_seconds();
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
  // A name that is gone stays while its requests run, so that their places can be given back.
  std::erase_if(uses_, [&](const auto& use) { return !table.limits.contains(use.first) && use.second.active == 0; });
  for (const auto& [name, limits] : table.limits) {
    const auto [at, fresh] = uses_.try_emplace(name);
    Use& use = at->second;
    if (fresh || use.limits.tokens_per_minute != limits.tokens_per_minute) {
      use.balance = static_cast<double>(limits.tokens_per_minute);
      use.updated = now;
    }
    use.limits = limits;
  }
}

std::optional<std::string> Keys::name_of(const HttpHead& head) const {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view key = head.header("x-api-key");
  const std::string_view authorization = head.header("authorization");
  if (authorization.size() > kBearer.size() && same_word(authorization.substr(0, kBearer.size()), kBearer)) {
    key = authorization.substr(kBearer.size());
  }
  if (key.empty() || key.size() > kMaxKeyBytes) return std::nullopt;
  const Digest given = digest(key);
  std::shared_ptr<const std::vector<Entry>> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = entries_;
  }
  // All of them, whichever fits: the time tells nothing of where, and a digest nothing of how much.
  const Entry* found = nullptr;
  for (const Entry& entry : *entries) {
    if (equal(entry.digest, given)) found = &entry;
  }
  return found == nullptr ? std::nullopt : std::optional(found->name);
}

void Keys::refill(Use& use) const {
  const double now = options_.now ? options_.now() : steady_seconds();
  const auto per_minute = static_cast<double>(use.limits.tokens_per_minute);
  use.balance = std::min(per_minute, use.balance + (now - use.updated) * per_minute / 60);
  use.updated = now;
}

std::optional<ApiError> Keys::enter(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = uses_.find(name);
  if (at == uses_.end()) return no_key();  // revoked since it was looked up
  Use& use = at->second;
  if (use.limits.concurrency > 0 && use.active >= use.limits.concurrency) {
    return key_limit("this key has as many requests under way as it may", 1);
  }
  if (use.limits.tokens_per_minute > 0) {
    refill(use);
    if (use.balance <= 0) {
      const double rate = static_cast<double>(use.limits.tokens_per_minute) / 60;
      return key_limit("this key has used its tokens of this minute", (1 - use.balance) / rate);
    }
  }
  ++use.active;
  return std::nullopt;
}

void Keys::leave(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = uses_.find(name);
  if (at != uses_.end() && at->second.active > 0) --at->second.active;
}

void Keys::charge(const std::string& name, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  const auto at = uses_.find(name);
  if (at == uses_.end() || at->second.limits.tokens_per_minute == 0) return;
  refill(at->second);
  at->second.balance -= static_cast<double>(tokens);
}

bool Keys::reload() {
  if (options_.file.empty()) return false;
  const Stamp stamp = stamp_of(options_.file);
  const bool readable = std::ifstream(options_.file).good();  // or else it is tried again
  {
    const std::lock_guard lock(mutex_);
    if (stamp == stamp_) return false;
    // Remembered even where the file turns out to be wrong: it is said once, not every time.
    if (readable) stamp_ = stamp;
  }
  if (!readable) throw Error("[keys] the key file cannot be read");
  take(read());
  return true;
}

}  // namespace ingot
