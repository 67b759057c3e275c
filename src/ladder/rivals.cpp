#include "ladder/rivals.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "files/json.h"

extern char** environ;

namespace ingot::ladder {
namespace {

constexpr int kPatienceMs = 120'000;  // torch compiles for a while

JsonObject object_of(const std::string& answer, const std::string& file) {
  const Json value = parse_json(answer, "[bench] " + file);
  if (!value.is_object()) throw Error("[bench] {} does not answer with an object", file);
  return value.as_object();
}

}  // namespace

Rivals::Rivals(const std::string& file) : file_(file) {
  int to[2], from[2];
  if (pipe(to) != 0 || pipe(from) != 0) throw Error("[bench] no pipe to {}: {}", file, std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  for (const int end : {to[0], to[1], from[0], from[1]}) posix_spawn_file_actions_addclose(&actions, end);
  const char* arguments[] = {"python3", file_.c_str(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, "python3", &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
  pid_ = pid;
  std::signal(SIGPIPE, SIG_IGN);  // a rival that dies is an error of write()
  if (error == 0) return;
  pid_ = -1;
  close(to_);
  close(from_);
  throw Error("[bench] cannot start python3 {}: {}", file, std::strerror(error));
}

Rivals::~Rivals() {
  close(to_);  // it ends at the end of its input
  close(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

std::string Rivals::ask(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(to_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error("[bench] {} has ended", file_);
    sent += static_cast<size_t>(n);
  }
  for (size_t end = buffer_.find('\n');; end = buffer_.find('\n')) {
    if (end != std::string::npos) {
      const std::string answer = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return answer;
    }
    pollfd ready{from_, POLLIN, 0};
    const int answers = poll(&ready, 1, kPatienceMs);
    if (answers < 0 && errno == EINTR) continue;
    if (answers == 0) {
      kill(pid_, SIGKILL);  // or its late answer would be taken for that of the next question
      throw Error("[bench] {} does not answer", file_);
    }
    char piece[4096];
    const ssize_t n = read(from_, piece, sizeof(piece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error("[bench] {} has ended", file_);
    buffer_.append(piece, static_cast<size_t>(n));
  }
}

std::vector<RivalTime> Rivals::begin(const std::string& op, const std::vector<int64_t>& size, const std::string& dtype,
                                     const std::string& variant, const std::string& device) {
  JsonArray sizes;
  for (const int64_t n : size) sizes.push_back(n);
  std::vector<RivalTime> rivals;
  try {
    const JsonObject question{{"op", op},           {"size", sizes},    {"dtype", dtype},
                              {"variant", variant}, {"device", device}, {"threads", threads_}};
    const JsonObject answer = object_of(ask(to_json(question)), file_);
    const JsonArray* all = find_array(answer, "rivals");
    if (all == nullptr) throw Error("[bench] {} names no rivals", file_);
    for (const Json& one : *all) {
      if (!one.is_object()) throw Error("[bench] {}: a rival is an object", file_);
      rivals.push_back(
          {.name = get_string(one.as_object(), "name"), .absent = get_string(one.as_object(), "absent", "")});
    }
  } catch (const Error& e) {
    return {{.name = file_, .absent = e.what()}};
  }
  return rivals;
}

double Rivals::run(RivalTime& rival) {
  if (!rival.absent.empty()) return 0;
  try {
    const JsonObject answer = object_of(ask(to_json(JsonObject{{"run", rival.name}})), file_);
    rival.absent = get_string(answer, "absent", "");
    if (rival.absent.empty()) return get_float(answer, "seconds");
  } catch (const Error& e) {
    rival.absent = e.what();
  }
  return 0;
}

}  // namespace ingot::ladder
