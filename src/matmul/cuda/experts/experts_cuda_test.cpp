// The list of places by expert: stable, of any number of rows, and the same whatever the threads do first.
#include "cuda/device_test_support.h"
#include "matmul/cuda/experts/experts_list.h"
#include "matmul/matmul_test_support.h"

namespace ingot {
namespace {

using test::Random;
using test::TestDevice;

struct Listed {
  std::vector<int32_t> place;
  std::vector<cuda::ExpertTile> tiles;
};

// Experts of each row, different ones in order.
std::vector<int32_t> choose(Random& random, int rows, int used, int count) {
  std::vector<int32_t> experts;
  for (int r = 0; r < rows; ++r) {
    std::vector<bool> taken(static_cast<size_t>(count), false);
    for (int n = 0; n < used;) {
      const auto e = static_cast<size_t>(random.below(r % 3 == 0 ? std::min(count, used + 1) : count));
      if (!taken[e]) taken[e] = true, ++n;
    }
    for (int e = 0; e < count; ++e)
      if (taken[static_cast<size_t>(e)]) experts.push_back(e);
  }
  return experts;
}

Listed list_on_host(const std::vector<int32_t>& experts, int count, int tile) {
  Listed want;
  for (int e = 0; e < count; ++e) {
    const auto first = static_cast<int32_t>(want.place.size());
    for (size_t p = 0; p < experts.size(); ++p)
      if (experts[p] == e) want.place.push_back(static_cast<int32_t>(p));
    const auto end = static_cast<int32_t>(want.place.size());
    for (int32_t at = first; at < end; at += tile) want.tiles.push_back({e, at, std::min(tile, end - at), 0});
  }
  return want;
}

void check_list(int rows, int more_rows, int used, int count, int tile) {
  SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(used) + " of " + std::to_string(count));
  Random random(static_cast<uint64_t>(rows * 1000 + count));
  const std::vector<int32_t> experts = choose(random, rows, used, count);
  const Listed want = list_on_host(experts, count, tile);
  TestDevice device;
  std::vector<int32_t> padded = experts;
  padded.resize(static_cast<size_t>((rows + more_rows) * used), 0);
  const int32_t true_rows = rows;
  const int64_t places = int64_t{rows + more_rows} * used, most = cuda::most_tiles(places, count, tile);
  cuda::ExpertList list;
  list.place = reinterpret_cast<int32_t*>(device.allocate(places * 4));
  list.n_tiles = reinterpret_cast<int32_t*>(device.allocate(4));
  list.tiles = reinterpret_cast<cuda::ExpertTile*>(device.allocate(most * 16));
  const cuda::ExpertChoice choice{.experts = reinterpret_cast<const int32_t*>(device.upload(padded.data(), places * 4)),
                                  .stride = used,
                                  .used = used,
                                  .count = count,
                                  .true_rows = reinterpret_cast<const int32_t*>(device.upload(&true_rows, 4))};
  cuda::list_experts(choice, rows + more_rows, tile, list, device.ctx());
  device.synchronize();
  int32_t n_tiles = 0;
  device.download(&n_tiles, reinterpret_cast<const std::byte*>(list.n_tiles), 4);
  ASSERT_EQ(static_cast<size_t>(n_tiles), want.tiles.size());
  ASSERT_LE(n_tiles, most);
  Listed got{std::vector<int32_t>(want.place.size()), std::vector<cuda::ExpertTile>(want.tiles.size())};
  device.download(got.place.data(), reinterpret_cast<const std::byte*>(list.place),
                  static_cast<int64_t>(got.place.size()) * 4);
  device.download(got.tiles.data(), reinterpret_cast<const std::byte*>(list.tiles),
                  static_cast<int64_t>(got.tiles.size()) * 16);
  EXPECT_EQ(got.place, want.place);
  for (size_t i = 0; i < want.tiles.size(); ++i) {
    EXPECT_EQ(got.tiles[i].expert, want.tiles[i].expert);
    EXPECT_EQ(got.tiles[i].first, want.tiles[i].first);
    EXPECT_EQ(got.tiles[i].count, want.tiles[i].count);
  }
}

TEST(ExpertListCuda, IsStableAndComplete) {
  INGOT_NEEDS_DEVICE();
  check_list(1, 0, 8, 128, 8);
  check_list(1, 7, 1, 1, 8);
  check_list(33, 15, 4, 32, 8);
  check_list(300, 0, 2, 8, 32);
  check_list(70, 2, 6, 1024, 8);    // bits of 512 rows at a time
  check_list(1100, 9, 2, 700, 64);  // and of 736: two rounds
}

TEST(ExpertListCuda, NoRowsMakeNoTiles) {
  INGOT_NEEDS_DEVICE();
  check_list(0, 4, 2, 8, 8);
}

}  // namespace
}  // namespace ingot
