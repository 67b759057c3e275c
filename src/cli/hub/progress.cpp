#include "cli/hub/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace ingot {

namespace {

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string format_seconds(double seconds) {
  const auto total = static_cast<int64_t>(std::min(seconds, 359999.0));
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, kUnits[unit]);
}

Progress::Progress(std::string label, uint64_t total)
    : label_(std::move(label)), total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}

std::string Progress::line(uint64_t done, uint64_t skipped, double seconds, int columns) const {
  const double speed = seconds > 0 ? static_cast<double>(done - std::min(skipped, done)) / seconds : 0;
  std::string text = fmt::format("{}/s", format_bytes(static_cast<uint64_t>(speed)));
  if (total_ == 0) return fmt::format("{}  {}  {}", label_, format_bytes(done), text);
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  if (speed > 0 && done <= total_) {
    text += fmt::format("  {} left", format_seconds(static_cast<double>(total_ - done) / speed));
  }
  text = fmt::format("{} / {}  {}", format_bytes(done), format_bytes(total_), text);
  const std::string percent = fmt::format("{:3.0f} %", std::floor(part * 100));
  // The bar takes what the other fields leave, and gives way entirely on a narrow terminal.
  const int room = std::min(columns - static_cast<int>(label_.size() + text.size() + percent.size()) - 9, 40);
  if (room < 5) return fmt::format("{} {}  {}", label_, percent, text);
  const auto full = static_cast<size_t>(part * room);
  return fmt::format("{} {} [{}{}]  {}", label_, percent, std::string(full, '#'),
                     std::string(static_cast<size_t>(room) - full, '.'), text);
}

void Progress::update(uint64_t done, uint64_t skipped) {
  using std::chrono::milliseconds;
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - start_ < milliseconds(1000) || now - last_drawn_ < milliseconds(100)) return;
  last_drawn_ = now;
  drawn_ = true;
  const int columns = terminal_columns();
  std::string text = line(done, skipped, std::chrono::duration<double>(now - start_).count(), columns);
  if (text.size() >= static_cast<size_t>(columns)) text.resize(static_cast<size_t>(columns) - 1);
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
}

void Progress::finish() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace ingot
