// The calls of MpiComm run where this program is started by mpirun (tests/e2e/test_mpi.py), and are skipped elsewhere.
#include "comm/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "comm/comm_checks_test_support.h"

namespace ingot {
namespace {

// The environment that launchers fill, emptied and put back.
class Environment {
 public:
  Environment() {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.emplace_back(value != nullptr ? value : "");
      unsetenv(name);
    }
  }
  ~Environment() {
    for (size_t i = 0; i < before_.size(); ++i)
      before_[i].empty() ? unsetenv(kNames[i]) : setenv(kNames[i], before_[i].c_str(), 1);
  }

 private:
  static constexpr const char* kNames[] = {
      "INGOT_MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
      "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};
  std::vector<std::string> before_;
};

TEST(World, WhoStartedIt) {
  const Environment empty;
  EXPECT_EQ(launched().ranks, 1);
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  setenv("SLURM_PROCID", "3", 1);
  EXPECT_THROW(launched(), Error);  // tasks that cannot meet
  setenv("PMIX_RANK", "3", 1);
  EXPECT_EQ(launched().ranks, 4);
  EXPECT_EQ(launched().rank, 3);
  setenv("PMI_SIZE", "5", 1);
  EXPECT_EQ(launched().plugins, std::vector<std::string>{"mpich"});
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_EQ(launched().ranks, 2);
  EXPECT_EQ(launched().rank, 1);
  EXPECT_EQ(launched().plugins, std::vector<std::string>{"openmpi"});
  setenv("OMPI_COMM_WORLD_SIZE", "two", 1);
  EXPECT_EQ(launched().ranks, 5);
  setenv("INGOT_MPI", "/some/where.so", 1);
  EXPECT_EQ(launched().plugins, std::vector<std::string>{"/some/where.so"});
  setenv("INGOT_MPI", "off", 1);
  EXPECT_EQ(launched().ranks, 1);
}

TEST(CommMpi, EveryCallAndRandomSequences) {
  World* const world = World::joined() != nullptr ? World::joined() : World::join();
  if (world == nullptr) GTEST_SKIP() << "not started by mpirun";
  MpiComm& comm = world->comm();
  for (const int64_t n : {0, 1, 2, 3, 7, 64, 1001, 40'000, 700'001})
    for (uint64_t kind = 0; kind < test::kKinds; ++kind)
      test::check_call(comm, kind, static_cast<uint64_t>(n) + kind, n);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    test::Random random(seed);
    const uint64_t kind = static_cast<uint64_t>(random.below(static_cast<int64_t>(test::kKinds))), key = random.bits();
    test::check_call(comm, kind, key, random.below(random.below(200) == 0 ? 30'000 : 60));
  }
  // Ends of their own for two threads, one of them of some ranks alone.
  MpiComm& whole = world->part(0, comm.ranks());
  MpiComm& half = world->part(comm.rank() / 2 * 2, std::min(2, comm.ranks() - comm.rank() / 2 * 2));
  EXPECT_EQ(half.rank(), comm.rank() % 2);
  EXPECT_EQ(half.name(half.rank()), comm.name(comm.rank()));
  const auto calls = [](MpiComm& end) {
    end.step = 2;  // silence counts from the second step on
    for (uint64_t i = 0; i < 600; ++i) test::check_call(end, i % test::kKinds, i, static_cast<int64_t>(i));
  };
  std::thread other([&] { calls(half); });
  calls(whole);
  other.join();
  world->leave(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace
}  // namespace ingot
