// Keys and values in the device's cache, plain and rotated.
#include "ops/cuda/kv_test_support.h"
#include "ops/cuda/large_test_support.h"

namespace ingot {
namespace {

using namespace test;

// A cache on the host, or a copy of a device's.
struct Cache {
  KvLayer layer;
  std::vector<std::byte> k, v;

  Cache(KvLayer of, size_t pages) : layer(of) {
    const size_t rows = pages * static_cast<size_t>(of.page_rows * of.kv_heads);
    k.assign(rows * static_cast<size_t>(of.k_bytes()), std::byte{0xff});
    v.assign(rows * static_cast<size_t>(of.v_bytes()), std::byte{0xff});
    layer.k = k.data();
    layer.v = v.data();
  }
};

size_t pages_of(const Batch& batch) { return batch.groups[0].page_table.size(); }

KvLayer layer_of(DType dtype, int kv_heads, int dim) {
  KvLayer layer;
  layer.group = 0;
  layer.kv_heads = kv_heads;
  layer.k_dim = layer.v_dim = dim;
  layer.page_rows = 16;
  layer.dtype = dtype;
  return layer;
}

// The reference's values are rows, too: the device's rows of values must have their bytes, and its rows of keys where
// keys and values are equal.
TEST(CudaKvWrite, BytesAreTheReferences) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0})
    for (const int dim : {1, 41, 64, 80, 96, 128, 256}) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << dim);
      Batch batch = make_batch({{9, 3}, {1, 40}, {20, 0}});
      const KvLayer layer = layer_of(dtype, 2, dim);
      Buffer x(batch.n_rows, 2 * dim, kTokenRows, 2 * dim + 3);
      Random random(static_cast<uint64_t>(dim));
      x.fill_outliers(random);
      x.at(0, 0) = 1e6f;  // beyond the largest of f16, of fp8 and of what q8_0 has
      x.at(1, dim) = 0;
      Cache want(layer, pages_of(batch));
      run_ref(KvWrite{x.tensor(), x.tensor(), want.layer}, batch);
      const int32_t skipped = batch.groups[0].slot[4];
      batch.groups[0].slot[4] = -1;
      for (int h = 0; h < 2; ++h) std::memset(want.layer.v_row(skipped, h), 0xff, static_cast<size_t>(layer.v_bytes()));
      DeviceRig rig(batch, {.more_rows = 5});
      KvLayer placed = layer;
      rig.place_kv(placed, static_cast<int64_t>(pages_of(batch)));
      rig.run(KvWrite{x.tensor(), x.tensor(), placed});
      Cache got(layer, pages_of(batch));
      rig.download(got.k.data(), placed.k, static_cast<int64_t>(got.k.size()));
      rig.download(got.v.data(), placed.v, static_cast<int64_t>(got.v.size()));
      for (int64_t slot = 0; slot < static_cast<int64_t>(pages_of(batch)) * 16; ++slot)
        for (int h = 0; h < 2; ++h) {
          const std::byte* row = want.layer.v_row(slot, h);
          const std::vector<std::byte> expected(row, row + layer.v_bytes());
          ASSERT_EQ(device_row(layer, got.v.data(), dim, slot, h), expected) << "value of slot " << slot;
          ASSERT_EQ(device_row(layer, got.k.data(), dim, slot, h), expected) << "key of slot " << slot;
        }
    }
}

// Pages that hold more than one layer's keys, or keys beside values.
TEST(CudaKvWrite, PagesApart) {
  INGOT_NEEDS_DEVICE();
  const Batch batch = make_batch({{20, 0}, {7, 0}});
  KvLayer layer = layer_of(DType::kBF16, 2, 64);
  Buffer k(batch.n_rows, 128), v(batch.n_rows, 128);
  Random random(3);
  k.fill_outliers(random);
  v.fill_outliers(random);
  DeviceRig rig(batch);
  KvLayer plain = layer, apart = layer;
  const int64_t pages = static_cast<int64_t>(pages_of(batch)), of_page = 2 * 16 * layer.k_bytes();
  rig.place_kv(plain, pages);
  apart.page_bytes = 3 * of_page;
  apart.k = rig.allocate(pages * apart.page_bytes);
  apart.v = apart.k + 2 * of_page;
  rig.run(KvWrite{k.tensor(), v.tensor(), plain});
  rig.run(KvWrite{k.tensor(), v.tensor(), apart});
  std::vector<std::byte> want(static_cast<size_t>(of_page)), got(want);
  for (int64_t page = 0; page < pages; ++page)
    for (const bool values : {false, true}) {
      rig.download(want.data(), (values ? plain.v : plain.k) + page * of_page, of_page);
      rig.download(got.data(), (values ? apart.v : apart.k) + page * apart.page_bytes, of_page);
      EXPECT_EQ(got, want) << page;
    }
  rig.download(got.data(), apart.k + of_page, of_page);
  EXPECT_EQ(got, std::vector<std::byte>(got.size(), std::byte{0xff})) << "between keys and values";
}

// Bit for bit what Rope and KvWrite give on the device, and q as the reference rotates it.
TEST(CudaRopeKvWrite, IsRopeAndKvWrite) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kFp8, DType::kQ8_0})
    for (const bool interleaved : {false, true})
      for (const int rotary : {64, 40}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << rotary << (interleaved ? " interleaved" : ""));
        const Batch batch = make_batch({{5, 9}, {1, 30}, {13, 0}});
        Buffer q(batch.n_rows, 3 * 64), k(batch.n_rows, 64), v(batch.n_rows, 64), table(batch.n_rows, rotary);
        Random random(7);
        for (Buffer* b : {&q, &k, &v}) b->fill_outliers(random);
        table.fill([&] { return static_cast<float>(random.uniform() * 2 - 1); });
        const auto queries = q.save();
        DeviceRig rig(batch, {.more_rows = 3});
        KvLayer fused = layer_of(dtype, 1, 64), plain = fused;
        rig.place_kv(fused, static_cast<int64_t>(pages_of(batch)));
        rig.place_kv(plain, static_cast<int64_t>(pages_of(batch)));
        rig.run(RopeKvWrite{q.tensor(), k.tensor(), v.tensor(), table.tensor(), fused, 64, interleaved});
        const std::vector<float> got = q.values();
        q.restore(queries);
        rig.run(Rope{q.tensor(), k.tensor(), table.tensor(), 64, interleaved});
        rig.run(KvWrite{k.tensor(), v.tensor(), plain});
        expect_same_bits(got, q.values(), "q");
        const size_t bytes = pages_of(batch) * 16 * static_cast<size_t>(fused.k_bytes());
        std::vector<std::byte> a(bytes), b(bytes);
        for (const bool values : {false, true}) {
          rig.download(a.data(), values ? fused.v : fused.k, static_cast<int64_t>(bytes));
          rig.download(b.data(), values ? plain.v : plain.k, static_cast<int64_t>(bytes));
          EXPECT_EQ(a, b) << (values ? "values" : "keys");
        }
        q.restore(queries);
        run_ref(Rope{q.tensor(), k.tensor(), table.tensor(), 64, interleaved}, batch);
        // Two products of up to 200 · 1 each are rounded once or twice.
        expect_near(got, q.values(), q.cols(), relative(4, 400 * kEps), "q against the reference");
      }
}

// What is written to pages far into a cache are the bytes that are written to its first.
void check_far(DType dtype, int dim, int first) {
  SCOPED_TRACE(dtype_name(dtype));
  const Batch near = make_batch({{37, 0}, {20, 0}}), far = with_pages_from(near, first);
  Buffer q(near.n_rows, 2 * dim), k(near.n_rows, dim), v(near.n_rows, dim), table(near.n_rows, dim);
  Random random(9);
  for (Buffer* b : {&q, &k, &v}) b->fill_outliers(random);
  table.fill([&] { return static_cast<float>(random.uniform() * 2 - 1); });
  DeviceRig near_rig(near), far_rig(far);
  KvLayer here = layer_of(dtype, 1, dim), there = here;
  near_rig.place_kv(here, std::ssize(near.groups[0].page_table));
  far_rig.place_kv(there, first + std::ssize(near.groups[0].page_table));
  const size_t bytes = pages_of(near) * 16 * static_cast<size_t>(here.k_bytes());
  std::vector<std::byte> a(bytes), b(bytes);
  const auto expect_equal = [&](const char* op) {
    for (const bool values : {false, true}) {
      near_rig.download(a.data(), values ? here.v : here.k, std::ssize(a));
      far_rig.download(b.data(), values ? there.v_page(first, 0) : there.k_page(first, 0), std::ssize(b));
      EXPECT_EQ(a, b) << op << (values ? ", values" : ", keys");
    }
  };
  near_rig.run(KvWrite{k.tensor(), v.tensor(), here});
  far_rig.run(KvWrite{k.tensor(), v.tensor(), there});
  expect_equal("KvWrite");
  near_rig.run(RopeKvWrite{q.tensor(), v.tensor(), k.tensor(), table.tensor(), here, dim, false});
  far_rig.run(RopeKvWrite{q.tensor(), v.tensor(), k.tensor(), table.tensor(), there, dim, false});
  expect_equal("RopeKvWrite");
}
TEST(CudaKvWrite, FarPagesInSmall) {
  INGOT_NEEDS_DEVICE();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kFp8, DType::kQ8_0}) check_far(dtype, 64, 3);
}
// On both sides of the element 2^31.
TEST(CudaKvWrite, FarPages) {
  INGOT_NEEDS_ROOM(18 * kGib);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kFp8, DType::kQ8_0})
    check_far(dtype, 128, static_cast<int>(kTooMany / (16 * 128)) - 3);
}

}  // namespace
}  // namespace ingot
