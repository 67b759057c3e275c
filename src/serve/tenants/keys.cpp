#include "serve/tenants/keys.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "files/json.h"

namespace ingot {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr const char* kDefaultName = "default";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

KeyOptions with_clock(KeyOptions options) {
  if (!options.now) options.now = steady_seconds;
  return options;
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

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

Keys::Keys(KeyOptions options)
    : options_(with_clock(std::move(options))),
      salt_(random_salt()),
      required_(!options_.file.empty() || !options_.keys.empty()),
      nobody_(new ApiKey{.tenant = std::make_shared<Tenant>("", TenantRights{}, book_.of(""), options_.now)}) {
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

KeyTable Keys::read() const {
  KeyTable table;
  for (const std::string& key : options_.keys) table.add(kDefaultName, key, {}, 0);
  if (!options_.file.empty()) {
    read_key_lines(read_text_file(options_.file, kMaxFileBytes), options_.routes, table);
  }
  return table;
}

void Keys::take(const KeyTable& table) {
  std::map<std::string, std::shared_ptr<Tenant>> tenants;
  for (const KeyTable::Key& key : table.keys) {  // in the file's order: the first names are told apart in the book
    std::shared_ptr<Tenant>& tenant = tenants[key.name];
    if (tenant) continue;
    const TenantRights& rights = table.tenants.at(key.name);
    const auto known = tenants_.find(key.name);
    if (known == tenants_.end()) {
      tenant = std::make_shared<Tenant>(key.name, rights, book_.of(key.name), options_.now);
    } else {
      tenant = known->second;
      tenant->set(rights);
    }
  }
  const std::shared_ptr<const Entries> before = entries();
  auto fresh = std::make_shared<Entries>();
  std::vector<const ApiKey*> kept;
  for (const KeyTable::Key& key : table.keys) {
    const Digest given = digest(key.key);
    const std::shared_ptr<Tenant>& tenant = tenants.at(key.name);
    const auto same = [&](const Entry& e) { return e.digest == given && e.key->tenant == tenant; };
    const auto old = before ? std::ranges::find_if(*before, same) : Entries::const_iterator();
    const bool known = before && old != before->end();
    fresh->push_back(
        {.key = known ? old->key : std::shared_ptr<ApiKey>(new ApiKey{.tenant = tenant}), .digest = given});
    kept.push_back(fresh->back().key.get());
  }
  {
    const std::lock_guard lock(mutex_);
    entries_ = std::move(fresh);
  }
  tenants_ = std::move(tenants);
  for (size_t i = 0; before && i < before->size(); ++i) {
    ApiKey& key = *(*before)[i].key;
    if (std::ranges::find(kept, &key) == kept.end()) key.revoked = true;
  }
}

std::shared_ptr<const Keys::Entries> Keys::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::shared_ptr<const ApiKey> Keys::find(const HttpHead& head) const {
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view key = head.header("x-api-key");
  const std::string_view authorization = head.header("authorization");
  if (authorization.size() > kBearer.size() && same_word(authorization.substr(0, kBearer.size()), kBearer)) {
    key = authorization.substr(kBearer.size());
  }
  if (key.empty() || key.size() > kMaxKeyBytes) return nullptr;
  const Digest given = digest(key);
  const std::shared_ptr<const Entries> all = entries();
  // All of them, whichever fits: the time tells nothing of where, and a digest nothing of how much.
  const Entry* found = nullptr;
  for (const Entry& entry : *all) {
    if (equal(entry.digest, given)) found = &entry;
  }
  return found == nullptr ? nullptr : found->key;
}

std::optional<std::string> Keys::name_of(const HttpHead& head) const {
  const std::shared_ptr<const ApiKey> key = find(head);
  return key ? std::optional(key->tenant->name()) : std::nullopt;
}

bool Keys::reload(bool anyway) {
  if (options_.file.empty()) return false;
  const std::lock_guard lock(reload_mutex_);
  const Stamp stamp = stamp_of(options_.file);
  if (stamp == stamp_ && !anyway) return false;
  if (!std::ifstream(options_.file).good()) throw Error("[keys] the key file cannot be read");  // it is tried again
  // Remembered even where the file turns out to be wrong: it is said once, not every time.
  stamp_ = stamp;
  take(read());
  return true;
}

}  // namespace ingot
