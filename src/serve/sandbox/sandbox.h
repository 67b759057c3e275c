// What the process gives up before it reads a model, and once it serves: new rights, new programs, new files, new
// connections of its own. Each returns empty where it is done, else why not: the kernel, or a build with sanitizers,
// which need more.
#pragma once

#include <string>
#include <vector>

namespace ingot {

struct SandboxOptions {
  bool unlink = false;                     // it has a Unix socket to remove at its end
  bool device = false;                     // it computes on a GPU: every request to an open device is allowed
  std::vector<std::string> writable = {};  // with a device: where its libraries may write while a model is loaded
};

// Before the first byte of a model is parsed: no_new_privs, and a seccomp filter on all threads, for good. execve,
// socket, connect, ptrace and files opened for writing fail with EPERM, memory that can be executed too. With a device
// the last two cannot be forbidden yet: then Landlock allows this thread, and those that it starts, to write beneath
// `writable` alone.
// REQUIRES: log and key file are open, the sockets are bound. The threads that run already read no model.
std::string enter_loading_sandbox(const SandboxOptions& options = {});

// Once the model is loaded: a seccomp filter that allows what serving needs, on all threads and for good; all else
// fails with EPERM, with a device from now on also memory that can be executed and every file opened for writing. What
// the first stage refuses stays refused.
std::string enter_sandbox(const SandboxOptions& options = {});

}  // namespace ingot
