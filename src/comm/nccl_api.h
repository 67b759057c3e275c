// The part of NCCL that is used, by its own declarations: a build needs no header of it, and the library is looked up
// when it is first asked for. A program without it runs wherever nobody asks.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

struct CUstream_st;

namespace ingot {

struct NcclApi {
  using Handle = void*;  // ncclComm_t
  using Stream = CUstream_st*;
  struct Id {
    char bytes[128];  // NCCL_UNIQUE_ID_BYTES
  };
  // ncclConfig_t as of 2.18: newer libraries take the older form by its size.
  struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef, version = 21800;
    int blocking = INT_MIN, cluster = INT_MIN, least_blocks = INT_MIN,
        most_blocks = INT_MIN;  // INT_MIN: its own choice
    const char* net = nullptr;
    int split_share = INT_MIN;
  };
  static constexpr int kOldest = 21800;  // 2.18: non-blocking calls in recorded work
  static constexpr int kSuccess = 0, kInProgress = 7, kFloat = 7, kBytes = 1, kSum = 0;

  int (*version)(int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*make_id)(Id*) = nullptr;
  int (*init)(Handle*, int ranks, Id, int rank, Config*) = nullptr;
  int (*async_error)(Handle, int*) = nullptr;
  int (*finalize)(Handle) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*abort)(Handle) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, Handle, Stream) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int type, Handle, Stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int type, int op, Handle, Stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, Handle, Stream) = nullptr;
  int (*send)(const void*, size_t, int type, int to, Handle, Stream) = nullptr;
  int (*recv)(void*, size_t, int type, int from, Handle, Stream) = nullptr;
};

// "2.28.9".
std::string nccl_version_text(int version);
// Throws Error in one line where there is none, or one older than kOldest. INGOT_NCCL names another file than
// libnccl.so.2. Any thread.
const NcclApi& nccl();

}  // namespace ingot
