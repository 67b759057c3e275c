// NCCL's end of a rank on a library that the test plays: what its answers become, and that no wait is without an end.
#include "comm/comm_nccl.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

namespace ingot {
namespace {

constexpr int kRemoteError = 6;

// What the library answers, and what it was asked.
struct Played {
  int init = 0, async = 0, call = 0;
  int looks_until_done = 0;  // calls go on for so many looks
  int aborted = 0, destroyed = 0, sums = 0;
  int blocking = -1;
};
Played g_played;

NcclApi played_api() {
  g_played = {};
  NcclApi api;
  api.error_text = [](int status) { return status == kRemoteError ? "remote process exited" : "bad call"; };
  api.make_id = [](NcclApi::Id* id) {
    std::memset(id->bytes, 7, sizeof(id->bytes));
    return 0;
  };
  api.init = [](NcclApi::Handle* handle, int, NcclApi::Id, int, NcclApi::Config* config) {
    g_played.blocking = config->blocking;
    *handle = &g_played;
    return g_played.init;
  };
  api.async_error = [](NcclApi::Handle, int* status) {
    *status = g_played.looks_until_done-- > 0 ? NcclApi::kInProgress : g_played.async;
    return 0;
  };
  api.finalize = [](NcclApi::Handle) { return 0; };
  api.destroy = [](NcclApi::Handle) { return ++g_played.destroyed, 0; };
  api.abort = [](NcclApi::Handle) { return ++g_played.aborted, 0; };
  api.all_reduce = [](const void*, void*, size_t, int, int, NcclApi::Handle, NcclApi::Stream) {
    return ++g_played.sums, g_played.call;
  };
  return api;
}

template <class F>
std::string told_by(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr std::chrono::milliseconds kSoon{20};

TEST(CommNccl, CallsGoOnUntilTheyHaveEnded) {
  const NcclApi api = played_api();
  g_played.init = NcclApi::kInProgress;
  g_played.looks_until_done = 3;
  {
    NcclComm comm(api, NcclComm::make_id(api), 1, 2, kSoon);
    EXPECT_EQ(g_played.blocking, 0);
    g_played.call = NcclApi::kInProgress;
    g_played.looks_until_done = 0;
    float x = 1;
    comm.all_reduce(&x, &x, 1, nullptr);
    EXPECT_EQ(g_played.sums, 1);
    int looks = 0;
    comm.await([&] { return ++looks == 3; });
  }
  EXPECT_EQ(g_played.destroyed, 1);
  EXPECT_EQ(g_played.aborted, 0);
}

TEST(CommNccl, ARankThatDoesNotCome) {
  const NcclApi api = played_api();
  g_played.init = NcclApi::kInProgress;
  g_played.looks_until_done = INT_MAX;
  EXPECT_EQ(told_by([&] { NcclComm(api, {}, 0, 2, kSoon); }),
            "[nccl] rank 0 of 2, step 0: in the meeting: not all have come in 20 ms");
  EXPECT_EQ(g_played.aborted, 1);
}

TEST(CommNccl, WorkThatDoesNotEndAndALostRank) {
  const NcclApi api = played_api();
  {
    NcclComm comm(api, {}, 0, 2, kSoon);
    comm.step = 9;
    EXPECT_EQ(told_by([&] { comm.await([] { return false; }); }),
              "[nccl] rank 0 of 2, step 9: in a collective: it has not ended in 20 ms");
    float x = 1;
    EXPECT_EQ(told_by([&] { comm.all_reduce(&x, &x, 1, nullptr); }),
              "[nccl] rank 0 of 2, step 9: in a call: it was given up");
  }
  NcclComm comm(api, {}, 0, 2, kSoon);
  g_played.async = kRemoteError;
  EXPECT_EQ(told_by([&] { comm.await([] { return false; }); }),
            "[nccl] rank 0 of 2, step 0: in a collective: remote process exited");
  EXPECT_EQ(g_played.aborted, 2);
  EXPECT_EQ(g_played.destroyed, 0);
}

TEST(CommNccl, NoLibraryIsOneLine) {
  setenv("INGOT_NCCL", "/nowhere/libnccl.so.2", 1);
  const std::string told = told_by([] { nccl(); });
  unsetenv("INGOT_NCCL");
  EXPECT_TRUE(told.starts_with("[nccl] /nowhere/libnccl.so.2 cannot be loaded (INGOT_NCCL names another): ")) << told;
  EXPECT_EQ(told.find('\n'), std::string::npos);
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
}

}  // namespace
}  // namespace ingot
