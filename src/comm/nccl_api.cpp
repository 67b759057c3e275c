#include "comm/nccl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <bit>
#include <cstdlib>

#include "base/error.h"

namespace ingot {
namespace {

template <class F>
void find(void* file, const std::string& name, const char* symbol, F*& function) {
  function = std::bit_cast<F*>(dlsym(file, symbol));
  if (function == nullptr) throw Error("[nccl] {} has no {}", name, symbol);
}

NcclApi load() {
  const char* named = std::getenv("INGOT_NCCL");
  const std::string name = named != nullptr && *named != '\0' ? named : "libnccl.so.2";
  void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // for the life of the process: it has threads
  if (file == nullptr) throw Error("[nccl] {} cannot be loaded (INGOT_NCCL names another): {}", name, dlerror());
  NcclApi api;
  find(file, name, "ncclGetVersion", api.version);
  int version = 0;
  if (api.version(&version) != NcclApi::kSuccess || version < NcclApi::kOldest)
    throw Error("[nccl] {} is {}, and {} or newer is needed", name, nccl_version_text(version),
                nccl_version_text(NcclApi::kOldest));
  find(file, name, "ncclGetErrorString", api.error_text);
  find(file, name, "ncclGetUniqueId", api.make_id);
  find(file, name, "ncclCommInitRankConfig", api.init);
  find(file, name, "ncclCommGetAsyncError", api.async_error);
  find(file, name, "ncclCommFinalize", api.finalize);
  find(file, name, "ncclCommDestroy", api.destroy);
  find(file, name, "ncclCommAbort", api.abort);
  find(file, name, "ncclAllReduce", api.all_reduce);
  find(file, name, "ncclAllGather", api.all_gather);
  find(file, name, "ncclReduceScatter", api.reduce_scatter);
  find(file, name, "ncclBroadcast", api.broadcast);
  find(file, name, "ncclSend", api.send);
  find(file, name, "ncclRecv", api.recv);
  return api;
}

}  // namespace

std::string nccl_version_text(int version) {
  // Up to 2.8 the minor number has two digits less.
  if (version < 10'000) return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

const NcclApi& nccl() {
  static const NcclApi api = load();
  return api;
}

}  // namespace ingot
