// What `ingot` asks of an MPI library: a plug-in, one for each MPI that was found when Ingot was built, so that the
// program itself links none. A C interface: the plug-in shares no C++ with the program.
//
// Calls are made by one thread at a time. None waits, but for init and finalize.
#pragma once

#include <stdint.h>

extern "C" {

struct IngotMpi {
  uint32_t version;     // kIngotMpiVersion of the one that built it
  const char* library;  // "Open MPI 4.1.4"
  // All that return int: 0, or a code that describe() puts in words.
  int (*init)(int* rank, int* ranks);
  int (*send)(const void* data, int64_t bytes, int to, int tag, uint64_t* request);
  // At most `bytes`. `from` < 0: of any rank.
  int (*recv)(void* data, int64_t bytes, int from, int tag, uint64_t* request);
  // Whether it has ended; then the bytes that were received, and the request is gone.
  int (*test)(uint64_t* request, int* done, int64_t* bytes);
  // Gives up a receive that has not ended.
  int (*cancel)(uint64_t* request);
  void (*describe)(int code, char* text, int64_t room);
  // Ends every process of the world. Does not return.
  void (*abort)(int status);
  int (*finalize)(void);
};

// The one symbol of a plug-in.
typedef const struct IngotMpi* (*IngotMpiPlugin)(void);
}

inline constexpr uint32_t kIngotMpiVersion = 1;
inline constexpr const char* kIngotMpiSymbol = "ingot_mpi_plugin";
inline constexpr int kIngotMpiThreads = -1;  // a code: the library does not let threads take turns
