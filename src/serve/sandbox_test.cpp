#include "serve/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ingot {
namespace {

constexpr int kSkipped = 77;

// Runs `body` in a child that entered the sandbox; its exit status. The child never returns to the test.
int in_sandbox(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const bool inside = enter_sandbox().empty();
    _exit(inside ? body() : kSkipped);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
      if (read(stage[0], &byte, 1) == 1) result = denied(socket(AF_INET, SOCK_STREAM, 0) < 0);
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

}  // namespace
}  // namespace ingot
