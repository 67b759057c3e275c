// The processes that mpirun or srun started together, as the ranks of one model. MPI is loaded at run time, from a
// plug-in beside the program (comm/mpi_plugin.h). The world is the process's, as it is MPI's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/comm_mpi.h"

namespace ingot {

// Thrown on a rank other than 0 where its engine has ended: it has nothing more to do.
struct RankEnded {};

// What a launcher says of this process in the environment.
struct Launched {
  int ranks = 1;
  int rank = 0;
  bool one_machine = false;          // all of them are on this one
  std::vector<std::string> plugins;  // that may serve, best first: "openmpi", "mpich", or a path
};
// INGOT_MPI may name a plug-in, or be `off`: then each process is one of its own. Throws Error where srun started tasks
// without MPI.
Launched launched();

class World {
 public:
  // Meets the others. Null where this process was started alone. Throws Error where there is no plug-in, or MPI fails;
  // where not all come within a minute (INGOT_MEET_SECONDS) the process ends with a line that says so. Once, before
  // other threads.
  static World* join();
  // Null where join() was not called or returned null. Any thread may ask.
  static World* joined();

  MpiComm& comm() { return *comm_; }
  // A further end, of the ranks [first, first + ranks): MpiComm's. It lives as long as this.
  MpiComm& part(int first, int ranks);
  int rank() const { return comm_->rank(); }
  int ranks() const { return comm_->ranks(); }
  // Ranks that may use the same cores of the same machine as this one, itself too.
  int sharers() const { return sharers_; }

  // An error of this rank: the others are told. Returns whether another prints it, so that this one need not.
  bool tell(const std::string& error);
  // The end of the process with this status. After a failure every process of the world is ended, and it may not
  // return.
  void leave(int status);

  World(const World&) = delete;
  World& operator=(const World&) = delete;

 private:
  World(const IngotMpi& mpi, int rank, int ranks);
  void meet();
  // Until all have come to their end; false where one does not.
  bool meet_to_leave();

  const IngotMpi& mpi_;
  std::unique_ptr<MpiComm> comm_;
  std::vector<std::unique_ptr<MpiComm>> parts_;
  std::vector<MpiPeer> peers_;
  int sharers_ = 1;
  std::string error_;  // that was told to rank 0
};

}  // namespace ingot
