// The cache of models: <cache>/models/<name>/ holds a complete model's files, <cache>/partial/ what is
// being fetched. A model appears under models/ by one rename, so what is there is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

inline constexpr const char* kDefaultModel = "default";

// $INGOT_HOME, or $XDG_CACHE_HOME/ingot, or ~/.cache/ingot. Not created by this call. Throws Error
// where none of them is known or the path is relative.
std::string cache_dir();

// A model's name: `name` or `org/name`, each part of letters, digits and . _ - that begins with a letter, a
// digit or _ and has at most 96 characters. Nothing else reaches the file system.
bool valid_model_name(const std::string& name);
// Throws Error "[cache] …" unless valid_model_name.
void check_model_name(const std::string& name);

struct CachedModel {
  std::string name;
  std::string path;      // usable as MODEL: the .gguf file (the first part of a split one), or the directory
  std::string format;    // of the container: "gguf" or "safetensors"
  std::string revision;  // the commit it was pulled at; empty where there is none
  uint64_t bytes = 0;    // of all its files
};

// All models of the cache, by name. A directory without weights is not a model.
std::vector<CachedModel> list_cached();
// The path usable as MODEL, or nothing. A name that is not valid is simply not found.
std::optional<std::string> find_cached(const std::string& name);

// The default model's path. Where it is not in the cache: fetched with a line on stderr when `fetch` is set,
// otherwise Error that says how to fetch it.
std::string default_model_path(bool fetch);

// Removes the model and what was partly fetched of it. Symbolic links are removed, never followed.
// Throws Error when there is no such model. Returns the bytes of its files.
uint64_t remove_cached(const std::string& name);

// A directory under construction that becomes models/<name> as a whole. Holds the name's lock, so
// that two programs never fetch the same model at once; the second waits, with a line on stderr.
class Staging {
 public:
  explicit Staging(const std::string& name);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Survives the program, so that a broken download is resumed by the next one.
  const std::string& dir() const { return dir_; }
  // Moves dir() to models/<name>, atomically in place of what was there. What is in dir() and not among `files` is
  // removed first. Returns the model as list_cached() gives it.
  CachedModel publish(const std::vector<std::string>& files);
  // Removes dir() with all that was fetched.
  void discard();

 private:
  std::string name_;
  std::string dir_;
  int lock_ = -1;
};

}  // namespace ingot
