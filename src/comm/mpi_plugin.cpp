// The plug-in of comm/mpi_plugin.h, compiled once for each MPI (cmake/mpi.cmake). Links that MPI and nothing of Ingot.
#include "comm/mpi_plugin.h"

#include <mpi.h>

#include <climits>
#include <cstdio>
#include <cstring>

namespace {

// An MPI_Request is a pointer in Open MPI and an int in MPICH.
static_assert(sizeof(MPI_Request) <= sizeof(uint64_t));

void keep(MPI_Request request, uint64_t* out) {
  *out = 0;
  std::memcpy(out, &request, sizeof(request));
}

int init(int* rank, int* ranks) {
  int provided = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided); code != 0) return code;
  if (provided < MPI_THREAD_SERIALIZED) return kIngotMpiThreads;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

int send(const void* data, int64_t bytes, int to, int tag, uint64_t* out) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request);
  keep(request, out);
  return code;
}

int recv(void* data, int64_t bytes, int from, int tag, uint64_t* out) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  const int source = from < 0 ? MPI_ANY_SOURCE : from;
  const int code = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, source, tag, MPI_COMM_WORLD, &request);
  keep(request, out);
  return code;
}

int test(uint64_t* out, int* done, int64_t* bytes) {
  MPI_Request request;
  std::memcpy(&request, out, sizeof(request));
  MPI_Status status{};
  const int code = MPI_Test(&request, done, &status);
  keep(request, out);
  if (code != 0 || *done == 0) return code;
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = count;
  return 0;
}

int cancel(uint64_t* out) {
  MPI_Request request;
  std::memcpy(&request, out, sizeof(request));
  if (const int code = MPI_Cancel(&request); code != 0) return code;
  const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  keep(request, out);
  return code;
}

void describe(int code, char* text, int64_t room) {
  char words[MPI_MAX_ERROR_STRING] = "threads cannot take turns in this MPI library";
  int length = 0;
  if (code != kIngotMpiThreads) MPI_Error_string(code, words, &length);
  std::snprintf(text, static_cast<size_t>(room), "%s", words);
}

void abort_world(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

int finalize() { return MPI_Finalize(); }

#ifdef OPEN_MPI
#define INGOT_MPI_TEXT(x) #x
#define INGOT_MPI_NUMBER(x) INGOT_MPI_TEXT(x)
constexpr const char* kLibrary = "Open MPI " INGOT_MPI_NUMBER(OMPI_MAJOR_VERSION) "." INGOT_MPI_NUMBER(
    OMPI_MINOR_VERSION) "." INGOT_MPI_NUMBER(OMPI_RELEASE_VERSION);
#else
constexpr const char* kLibrary = "MPICH " MPICH_VERSION;
#endif

constexpr IngotMpi kPlugin = {.version = kIngotMpiVersion,
                              .library = kLibrary,
                              .init = init,
                              .send = send,
                              .recv = recv,
                              .test = test,
                              .cancel = cancel,
                              .describe = describe,
                              .abort = abort_world,
                              .finalize = finalize};

}  // namespace

extern "C" __attribute__((visibility("default"))) const IngotMpi* ingot_mpi_plugin(void) { return &kPlugin; }
