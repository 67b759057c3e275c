// NCCL on a real device, where its library is there: one rank, called and inside of recorded work.
#include <gtest/gtest.h>

#include <vector>

#include "comm/comm_nccl.h"
#include "tensor/cuda.h"

namespace ingot {
namespace {

TEST(CommNcclOfADevice, OneRankInRecordedWork) {
  if (cuda::is_emulated() || cuda::device_count() == 0) GTEST_SKIP() << "NCCL needs a GPU";
  const NcclApi* api = nullptr;
  try {
    api = &nccl();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  cuda::use_device(0);
  const cuda::Stream stream;
  constexpr int64_t kCount = 1 << 20, kBytes = kCount * 4;
  const cuda::DeviceMemory x(kBytes), sum(kBytes), copy(kBytes);
  std::vector<float> values(kCount), got(kCount);
  NcclComm comm(*api, NcclComm::make_id(*api), 0, 1, std::chrono::seconds(30));
  const auto work = [&] {
    comm.all_reduce(reinterpret_cast<const float*>(x.data()), reinterpret_cast<float*>(sum.data()), kCount,
                    stream.ref());
    comm.all_gather(sum.data(), copy.data(), kBytes, stream.ref());
  };
  work();
  const cuda::RecordedGraph graph(stream.ref(), work);
  for (int turn = 0; turn < 3; ++turn) {
    for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i % 1000 + turn);
    cuda::copy_to_device(x.data(), values.data(), kBytes, stream.ref());
    cuda::fill_bytes(copy.data(), 0xff, kBytes, stream.ref());
    graph.launch(stream.ref());
    cuda::Event end;
    end.record(stream.ref());
    comm.await([&] { return end.done(); });
    cuda::copy_to_host(got.data(), copy.data(), kBytes, stream.ref());
    stream.synchronize();
    EXPECT_EQ(got, values) << turn;
  }
}

}  // namespace
}  // namespace ingot
