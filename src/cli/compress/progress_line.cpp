#include "cli/compress/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace ingot {

void ProgressLine::show(std::string_view stage, double done) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const auto now = Clock::now();
  if (!terminal || now - drawn_ < std::chrono::milliseconds(200)) return;
  drawn_ = now;
  if (stage != stage_) {
    stage_ = stage;
    start_.reset();
  }
  if (!start_) start_ = {now, done};
  std::string left;
  if (done > start_->done) {
    const double seconds = std::chrono::duration<double>(now - start_->time).count();
    const double more = seconds * (1 - done) / (done - start_->done);
    left = fmt::format(", {:.0f}:{:02.0f} left", std::floor(more / 60), std::floor(std::fmod(more, 60)));
  }
  fmt::print(stderr, "\r\033[K{} {:3.0f} %{}", stage_, 100 * done, left);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::end() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace ingot
