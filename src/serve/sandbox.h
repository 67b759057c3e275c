// What the process gives up once it serves: new rights, new programs, new files, new connections of its own.
#pragma once

#include <string>

namespace ingot {

struct SandboxOptions {
  bool unlink = false;  // it has a Unix socket to remove at its end
  bool device = false;  // it computes on a GPU: every request to an open device is allowed
};

// no_new_privs, and a seccomp filter that allows what serving needs, on all threads and for good; all else fails with
// EPERM: execve, socket, connect, ptrace, files opened for writing, memory that can be executed. Empty: done. Else why
// not: the kernel, or a build with sanitizers, which need more.
// REQUIRES: model and key file are open or only read from now on, the log is open, the sockets are bound.
std::string enter_sandbox(const SandboxOptions& options = {});

}  // namespace ingot
