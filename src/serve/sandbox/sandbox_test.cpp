#include "serve/sandbox/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ingot {
namespace {

constexpr int kSkipped = 77;

// Runs `body` in a child for which `enter` entered the sandbox; its exit status. The child never returns to the test.
int in_child(const std::function<std::string()>& enter, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const bool inside = enter().empty();
    _exit(inside ? body() : kSkipped);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int in_sandbox(const std::function<int()>& body) {
  return in_child([] { return enter_sandbox(); }, body);
}

int denied(bool failed) { return failed && errno == EPERM ? 0 : 1; }

void expect_ok(int status) {
  if (status == kSkipped) GTEST_SKIP() << "this machine or build has no sandbox";
  EXPECT_EQ(status, 0);
}

TEST(Sandbox, NoProgramCanBeStarted) {
  expect_ok(in_sandbox([] {
    char* const args[] = {const_cast<char*>("/bin/true"), nullptr};
    return denied(execve("/bin/true", args, nullptr) != 0);
  }));
}

TEST(Sandbox, NoNewRights) {
  expect_ok(in_sandbox([] {
    std::ifstream status("/proc/self/status");
    bool no_new = false, filtered = false;
    for (std::string line; std::getline(status, line);) {
      no_new |= line == "NoNewPrivs:\t1";
      filtered |= line == "Seccomp:\t2";
    }
    return no_new && filtered ? 0 : 1;
  }));
}

TEST(Sandbox, NoConnectionOfItsOwn) {
  expect_ok(in_sandbox([] { return denied(socket(AF_INET, SOCK_STREAM, 0) < 0); }));
}

TEST(Sandbox, NoFileForWriting) {
  expect_ok(in_sandbox([] {
    if (denied(open("/dev/null", O_WRONLY) < 0) != 0) return 1;
    if (denied(open("/tmp/ingot-never", O_CREAT | O_RDWR, 0600) < 0) != 0) return 2;
    return open("/dev/null", O_RDONLY) >= 0 ? 0 : 3;
  }));
}

TEST(Sandbox, NoMemoryToExecute) {
  expect_ok(in_sandbox([] {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
    return denied(mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0);
  }));
}

TEST(Sandbox, NoOtherProcess) {
  expect_ok(in_sandbox([] {
    if (denied(fork() < 0) != 0) return 1;
    if (denied(kill(getppid(), 0) != 0) != 0) return 2;
    const rlimit limit{16, 16};
    return denied(setrlimit(RLIMIT_NOFILE, &limit) != 0);
  }));
}

TEST(Sandbox, WhatServingNeedsStillWorks) {
  expect_ok(in_sandbox([] {
    int sum = 0;
    std::thread thread([&] { sum = static_cast<int>(std::vector<char>(8 << 20, 1)[5]); });
    thread.join();
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    std::ifstream file("/proc/self/statm");
    long long pages = 0;
    file >> pages;
    return sum == 1 && pages > 0 ? 0 : 3;
  }));
}

TEST(Sandbox, ThreadsThatRunAlreadyAreInsideToo) {
  const pid_t child = fork();
  if (child == 0) {
    int stage[2];
    if (pipe(stage) != 0) _exit(9);
    int result = 1;
    std::thread early([&] {
      char byte = 0;
      if (::read(stage[0], &byte, 1) == 1) result = denied(socket(AF_INET, SOCK_STREAM, 0) < 0);
    });
    const bool inside = enter_sandbox().empty();
    if (write(stage[1], "x", 1) != 1) _exit(8);
    early.join();
    _exit(inside ? result : kSkipped);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  expect_ok(WEXITSTATUS(status));
}

int no_program_and_no_connection() {
  char* const args[] = {const_cast<char*>("/bin/true"), nullptr};
  if (denied(execve("/bin/true", args, nullptr) != 0) != 0) return 1;
  if (denied(socket(AF_INET, SOCK_STREAM, 0) < 0) != 0) return 2;
  if (denied(socket(AF_UNIX, SOCK_STREAM, 0) < 0) != 0) return 3;
  return denied(fork() < 0) == 0 ? 0 : 4;
}

bool can_execute_memory() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED;
}

bool can_write(const std::string& path) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

TEST(Sandbox, WhileAModelIsLoadedThereIsNoProgramConnectionOrFile) {
  expect_ok(in_child([] { return enter_loading_sandbox(); },
                     [] {
                       if (const int failed = no_program_and_no_connection(); failed != 0) return failed;
                       if (can_write("/tmp/ingot-never") || can_execute_memory()) return 10;
                       if (open("/dev/null", O_RDWR) >= 0) return 11;
                       // What reading a model needs.
                       cpu_set_t cores;
                       if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 12;
                       bool pinned = false;
                       std::thread thread([&] { pinned = sched_setaffinity(0, sizeof cores, &cores) == 0; });
                       thread.join();
                       const int file = open("/proc/self/status", O_RDONLY);
                       if (!pinned || file < 0) return 13;
                       if (denied(unlink("/tmp/ingot-never") != 0) != 0) return 15;
                       // And then the second stage.
                       if (!enter_sandbox().empty()) return 14;
                       return no_program_and_no_connection();
                     }));
}

TEST(Sandbox, ASocketCanBeRemovedAtTheEnd) {
  const std::string path = testing::TempDir() + "/ingot-socket";
  std::ofstream(path) << "x";
  const int status = in_child(
      [] {
        const std::string why = enter_loading_sandbox({.unlink = true});
        return why.empty() ? enter_sandbox({.unlink = true}) : why;
      },
      [&] { return unlink(path.c_str()) == 0 ? 0 : 1; });
  std::filesystem::remove(path);
  expect_ok(status);
}

// The libraries of a device map code and write their caches; nothing else may be written.
TEST(Sandbox, WithADeviceFilesAreWrittenWhereItWasAllowed) {
  const std::string folder = testing::TempDir() + "/ingot-sandbox";
  std::filesystem::create_directories(folder);
  const std::string outside = testing::TempDir() + "/ingot-outside";
  std::ofstream(outside) << "x";
  const int status = in_child(
      [&] {
        return enter_loading_sandbox({.device = true, .writable = {folder, "/dev", "/not/there"}});
      },
      [&] {
        if (const int failed = no_program_and_no_connection(); failed != 0) return failed;
        if (!can_write(folder + "/a") || open("/dev/null", O_RDWR) < 0) return 10;
        if (rename((folder + "/a").c_str(), (folder + "/b").c_str()) != 0) return 11;
        bool elsewhere = false;
        std::thread thread([&] { elsewhere = can_write(outside) || can_write(outside + "-new"); });
        thread.join();
        if (elsewhere || rename(outside.c_str(), (outside + "-moved").c_str()) == 0) return 12;
        if (unlink(outside.c_str()) == 0 || truncate(outside.c_str(), 0) == 0) return 13;
        if (!can_execute_memory()) return 14;
        if (!enter_sandbox({.device = true}).empty()) return 15;
        if (can_write(folder + "/a") || can_execute_memory()) return 16;
        return no_program_and_no_connection();
      });
  std::filesystem::remove_all(folder);
  std::filesystem::remove(outside);
  expect_ok(status);
}

}  // namespace
}  // namespace ingot
