#include "cli/report/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cli/strings.h"

namespace ingot {

std::optional<std::string> find_program(const std::vector<std::string>& names) {
  const std::string path = environment("PATH");
  for (const std::string& name : names) {
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find(':', begin), path.size());
      const std::string file = path.substr(begin, end - begin) + "/" + name;
      if (end > begin && access(file.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(file)) return file;
      begin = end + 1;
    }
  }
  return std::nullopt;
}

Child::Child(const std::vector<std::string>& args) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw Error("[report] no pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int problem = posix_spawn(&pid_, args[0].c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  out_ = pipe_ends[0];
  if (problem == 0) return;
  close(out_);
  pid_ = -1;
  throw Error("[report] cannot start {}: {}", args[0], std::strerror(problem));
}

bool Child::read_some(int milliseconds) {
  pollfd wanted{.fd = out_, .events = POLLIN, .revents = 0};
  if (poll(&wanted, 1, milliseconds) <= 0) return true;
  std::array<char, 4096> buffer;
  const ssize_t n = read(out_, buffer.data(), buffer.size());
  if (n > 0) text_.append(buffer.data(), static_cast<size_t>(n));
  return n > 0;
}

std::string Child::wait(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  bool open = true;
  while (Clock::now() < end) {
    if (open) open = read_some(50);
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      if (WIFEXITED(status)) status_ = WEXITSTATUS(status);
      break;
    }
    if (!open) usleep(10'000);
  }
  return stop();
}

std::string Child::stop() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    for (int i = 0; i < 200 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
      usleep(10'000);
      if (i == 150) kill(pid_, SIGKILL);
    }
    pid_ = -1;
  }
  if (out_ >= 0) {
    pollfd wanted{.fd = out_, .events = POLLIN, .revents = 0};
    while (poll(&wanted, 1, 0) > 0 && (wanted.revents & POLLIN) != 0 && read_some(0)) {
    }
    close(out_);
    out_ = -1;
  }
  return std::move(text_);
}

}  // namespace ingot
