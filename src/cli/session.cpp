#include "cli/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "app/device.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/engine_options.h"
#include "cli/hub/cache.h"
#include "cli/interrupt.h"
#include "cli/strings.h"
#include "files/directory.h"
#include "weights/model_files.h"

namespace ingot {

namespace {

// Says that the model is being loaded, with the seconds so far: on a terminal, and only after one second.
class LoadNotice {
 public:
  explicit LoadNotice(std::string name) : name_(std::move(name)) {
    if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
  }
  ~LoadNotice() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  LoadNotice(const LoadNotice&) = delete;
  LoadNotice& operator=(const LoadNotice&) = delete;

 private:
  void show() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    std::unique_lock lock(mutex_);
    const auto done = [this] { return done_; };
    if (wake_.wait_for(lock, std::chrono::seconds(1), done)) return;
    do {
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      fmt::print(stderr, "\r\033[Kloading {} … {:.0f} s", name_, seconds);
      std::fflush(stderr);
    } while (!wake_.wait_for(lock, std::chrono::milliseconds(500), done));
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

bool names_model(const std::string& arg) {
  return arg.empty() || arg == kDefaultModel || exists(arg) || find_cached(arg).has_value();
}

std::string resolve_model(const std::string& arg) {
  if (!arg.empty() && exists(arg)) return arg;
  if (arg.empty() || arg == kDefaultModel) {
    const InterruptGuard guard;  // a download that is stopped keeps what it has
    return default_model_path(true);
  }
  if (std::optional<std::string> path = find_cached(arg)) return *std::move(path);
  const std::string name = utf8_printable(arg, 300);
  if (!valid_model_name(arg) || arg.find('/') == std::string::npos || arg.ends_with(".gguf")) {
    throw Error("[model] '{}' is neither a path nor a model of the cache (see ingot ls)", name);
  }
  throw Error("[model] '{}' is neither a path nor a model of the cache; fetch it with 'ingot pull {}'", name, name);
}

void add_session_options(CLI::App& app, SessionOptions& options) {
  add_engine_options(app, OptionsOf::kSession, options.open);
  add_engine_options(app, OptionsOf::kEngine, options.open);
  add_verbose_option(app, options.common);
}

Session open_session(const SessionOptions& options) {
  const std::string path = resolve_model(options.model);
  if (choose_device(options.open.device, options.open.ref) >= 0 &&
      Model::read_numbers(ModelFiles::open(path)).experts.count > 0)
    fmt::print(stderr, "experts run on plain kernels on a GPU: right, but slower than the rest of the model\n");
  const LoadNotice notice(base_name(path));
  return Session(path, options.open);
}

}  // namespace ingot
