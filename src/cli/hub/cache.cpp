#include "cli/hub/cache.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cli/hub/model_files.h"
#include "cli/hub/pull.h"
#include "cli/interrupt.h"
#include "cli/strings.h"
#include "files/json.h"

namespace fs = std::filesystem;

namespace ingot {

namespace {

// ASCII only, whatever the locale says.
bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool valid_part(std::string_view part) {
  if (part.empty() || part.size() > 96) return false;
  if (!is_alnum(part[0]) && part[0] != '_') return false;
  return std::all_of(part.begin(), part.end(), [](char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-'; });
}

std::string models_dir() { return cache_dir() + "/models"; }

// One path component for a name. Hub names never hold "--", so two names never meet.
std::string flat_name(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == std::string::npos ? name : name.substr(0, slash) + "--" + name.substr(slash + 1);
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error("[cache] cannot create {}: {}", path, error.message());
}

// The model in `dir`, or nothing where the directory holds no weights. Links are not followed.
std::optional<CachedModel> read_model(const std::string& name, const std::string& dir) {
  CachedModel model{.name = name, .path = dir, .format = "", .revision = "", .bytes = 0};
  std::vector<std::string> names;
  std::error_code error;
  if (fs::symlink_status(dir, error).type() != fs::file_type::directory) return std::nullopt;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->symlink_status(ignored).type() != fs::file_type::regular) continue;
    names.push_back(it->path().filename().string());
    const uintmax_t bytes = it->file_size(ignored);
    if (!ignored) model.bytes += bytes;
  }
  std::sort(names.begin(), names.end());
  const auto has = [&](bool (*test)(std::string_view)) { return std::find_if(names.begin(), names.end(), test); };
  if (has(is_safetensors) != names.end()) {
    model.format = "safetensors";
  } else if (const auto gguf = has(is_gguf); gguf != names.end()) {
    model.format = "gguf";  // names are sorted: the first part of a split file comes first
    model.path = dir + "/" + *gguf;
  } else {
    return std::nullopt;
  }
  try {
    if (fs::exists(dir + "/" + kSourceFile)) {
      const Json source = read_json_file(dir + "/" + kSourceFile);
      model.revision = get_string(as_object(source, kSourceFile), "revision", "");
    }
  } catch (const Error&) {
    // Only the revision is lost: the model itself is whole.
  }
  return model;
}

// Puts `from` in the place of `to`, which may exist; what was there ends up at `from`.
void swap_directories(const std::string& from, const std::string& to) {
  if (!fs::exists(fs::symlink_status(to))) {
    if (std::rename(from.c_str(), to.c_str()) == 0) return;
    throw Error("[cache] cannot move {} to {}: {}", from, to, std::strerror(errno));
  }
  if (syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  // Some file systems cannot exchange. Between the two renames the model is missing, never half there.
  const std::string old = from + ".old";
  std::error_code ignored;
  fs::remove_all(old, ignored);
  if (std::rename(to.c_str(), old.c_str()) != 0 || std::rename(from.c_str(), to.c_str()) != 0) {
    throw Error("[cache] cannot move {} to {}: {}", from, to, std::strerror(errno));
  }
  std::rename(old.c_str(), from.c_str());
}

int open_lock(const std::string& path, const std::string& name) {
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0) throw Error("[cache] cannot create {}: {}", path, std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  fmt::print(stderr, "ingot: waiting for another program that fetches {}\n", name);
  while (flock(fd, LOCK_EX) != 0) {
    if (errno == EINTR && !interrupted()) continue;
    const int reason = errno;
    ::close(fd);
    throw_if_interrupted();
    throw Error("[cache] cannot lock {}: {}", path, std::strerror(reason));
  }
  return fd;
}

}  // namespace

std::string cache_dir() {
  std::string dir = environment("INGOT_HOME");
  if (dir.empty()) {
    // The XDG convention: a relative value is to be ignored.
    const std::string xdg = environment("XDG_CACHE_HOME");
    if (!xdg.empty() && xdg[0] == '/') dir = xdg + "/ingot";
  }
  if (dir.empty()) {
    std::string home = environment("HOME");
    if (home.empty()) {
      const passwd* user = getpwuid(getuid());
      if (user != nullptr && user->pw_dir != nullptr) home = user->pw_dir;
    }
    if (home.empty()) throw Error("[cache] no home directory: set INGOT_HOME to a directory for models");
    dir = home + "/.cache/ingot";
  }
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  if (dir[0] != '/') throw Error("[cache] '{}' is not an absolute path: check INGOT_HOME and HOME", dir);
  return dir;
}

bool valid_model_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return valid_part(name);
  return valid_part(std::string_view(name).substr(0, slash)) && valid_part(std::string_view(name).substr(slash + 1));
}

void check_model_name(const std::string& name) {
  if (!valid_model_name(name)) {
    throw Error("[cache] '{}' is not a model's name: expected NAME or ORG/NAME of letters, digits and . _ -", name);
  }
}

std::vector<CachedModel> list_cached() {
  std::vector<CachedModel> models;
  std::error_code error;
  const auto add = [&](const std::string& name, const std::string& dir) {
    std::optional<CachedModel> model = valid_model_name(name) ? read_model(name, dir) : std::nullopt;
    if (model) models.push_back(std::move(*model));
    return model.has_value();
  };
  for (fs::directory_iterator it(models_dir(), error), end; !error && it != end; it.increment(error)) {
    const std::string first = it->path().filename().string();
    std::error_code ignored;
    if (add(first, it->path().string()) || !it->is_directory(ignored) || it->is_symlink(ignored)) continue;
    for (fs::directory_iterator inner(it->path(), ignored); !ignored && inner != end; inner.increment(ignored)) {
      add(first + "/" + inner->path().filename().string(), inner->path().string());
    }
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

std::optional<std::string> find_cached(const std::string& name) {
  if (!valid_model_name(name)) return std::nullopt;
  const std::optional<CachedModel> model = read_model(name, models_dir() + "/" + name);
  return model ? std::optional(model->path) : std::nullopt;
}

std::string default_model_path(bool fetch) {
  if (const std::optional<std::string> path = find_cached(kDefaultModel)) return *path;
  if (!fetch) throw Error("[cache] the default model is not in the cache: fetch it with 'ingot pull default'");
  return pull_default().path;
}

uint64_t remove_cached(const std::string& name) {
  check_model_name(name);
  const std::string dir = models_dir() + "/" + name;
  const std::optional<CachedModel> model = read_model(name, dir);
  const bool partial = fs::exists(cache_dir() + "/partial/" + flat_name(name));
  if (!model && !partial) throw Error("[cache] no model '{}' in the cache (see ingot ls)", name);
  Staging staging(name);
  if (model) {
    // Moved out of models/ first: a removal that is cut short leaves no half model behind.
    const std::string grave = staging.dir() + "/removed";
    if (std::rename(dir.c_str(), grave.c_str()) != 0) {
      throw Error("[cache] cannot remove {}: {}", dir, std::strerror(errno));
    }
    if (const size_t slash = name.find('/'); slash != std::string::npos) {
      rmdir((models_dir() + "/" + name.substr(0, slash)).c_str());  // stays where other models are in it
    }
  }
  staging.discard();
  return model ? model->bytes : 0;
}

Staging::Staging(const std::string& name) : name_(name) {
  check_model_name(name);
  const std::string partial = cache_dir() + "/partial";
  dir_ = partial + "/" + flat_name(name);
  make_directories(partial);
  lock_ = open_lock(dir_ + ".lock", name);
  make_directories(dir_);
}

Staging::~Staging() {
  // The lock's file stays: removing it could part two programs that wait on the same name.
  if (lock_ >= 0) ::close(lock_);
}

CachedModel Staging::publish(const std::vector<std::string>& files) {
  const std::string target = models_dir() + "/" + name_;
  const size_t slash = name_.find('/');
  if (slash != std::string::npos) {
    const std::string org = name_.substr(0, slash);
    if (find_cached(org)) throw Error("[cache] '{}' is a model: remove it before '{}' can be stored", org, name_);
    make_directories(models_dir() + "/" + org);
  } else {
    make_directories(models_dir());
    std::error_code ignored;
    if (!find_cached(name_) && fs::is_directory(target, ignored) && !fs::is_empty(target, ignored)) {
      throw Error("[cache] {} holds other models: '{}' cannot be stored there", target, name_);
    }
  }
  std::vector<fs::path> strangers;  // of an earlier try with another revision or choice
  for (const auto& entry : fs::directory_iterator(dir_)) {
    if (std::find(files.begin(), files.end(), entry.path().filename()) == files.end()) strangers.push_back(entry);
  }
  for (const fs::path& path : strangers) fs::remove_all(path);
  const std::optional<CachedModel> staged = read_model(name_, dir_);
  if (!staged) throw Error("[cache] '{}' has no weights", name_);
  swap_directories(dir_, target);
  discard();  // what the swap left in dir_
  return *read_model(name_, target);
}

void Staging::discard() {
  std::error_code error;
  fs::remove_all(dir_, error);  // removes links themselves, not what they point to
  if (error) throw Error("[cache] cannot remove {}: {}", dir_, error.message());
}

}  // namespace ingot
