#include "engine/mask/mask_pool.h"

#include <gtest/gtest.h>

#include <future>

namespace ingot {
namespace {

// What is dropped goes on a worker's thread, and all of it: the pool's end waits for nobody.
TEST(MaskPool, FreesBesideTheThreadThatDrops) {
  std::promise<std::thread::id> freed;
  std::atomic<int> n = 0;
  {
    MaskPool pool(2, 4);
    pool.drop(std::shared_ptr<const void>(&freed, [&](const void*) { freed.set_value(std::this_thread::get_id()); }));
    EXPECT_NE(freed.get_future().get(), std::this_thread::get_id());
    for (int i = 0; i < 100; ++i) pool.drop(std::shared_ptr<const void>(&n, [&](const void*) { ++n; }));
  }
  EXPECT_EQ(n, 100);
}

}  // namespace
}  // namespace ingot
