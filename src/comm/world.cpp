#include "comm/world.h"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/printable.h"
#include "base/thread_pool.h"
#include "comm/launcher_watch.h"
#include "comm/rank_card.h"

namespace ingot {
namespace {

using namespace std::chrono_literals;

World* g_world = nullptr;  // never destroyed: MPI may write into its memory until the process ends

constexpr int kMeetSeconds = 60;
// Rank 0 says first that not all have come: then its launcher ends the others, which would say the same.
constexpr auto kAfterRank0 = 1s;
constexpr auto kFinalizeTime = 2s;
// Until a launcher has read the line of a rank that ends all: MPICH's drops what it has not, once in five runs.
constexpr auto kReadTime = 200ms;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int number(const char* name, int otherwise) {
  const std::string text = variable(name);
  int value = otherwise;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

// Ends the process with a line where a call of MPI, which has no deadline, does not return in time.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds time, int status, std::string line)
      : thread_([this, time, status, text = std::move(line)] {
          std::unique_lock lock(mutex_);
          if (wake_.wait_for(lock, time, [this] { return done_; })) return;
          if (!text.empty()) std::fprintf(stderr, "ingot: %s\n", text.c_str());
          _exit(status);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// How long the meeting may take; tests do not wait for a minute.
std::chrono::seconds meet_time() {
  return std::chrono::seconds(std::clamp(number("INGOT_MEET_SECONDS", kMeetSeconds), 1, 3600));
}

// Threads that are started meanwhile get no signals: the program's own decide what those do.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// As cards have it: a host's name may be anything.
std::string card_text(std::string_view text, size_t room) { return printable(text.substr(0, room - 1)); }

std::string host_name() {
  std::array<char, kHostBytes> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

RankCard own_card() {
  RankCard card;
  card.host = card_text(host_name(), kHostBytes);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  card.place = card_text(boot + std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string(), kPlaceBytes);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof(mask), &mask);
  std::memcpy(card.cores.data(), &mask, std::min(sizeof(mask), sizeof(card.cores)));
  card.pid = getpid();
  return card;
}

std::filesystem::path plugin_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / ("libingot_" + name + ".so");
}

// Both libraries copy large messages by process_vm_readv where they may, which neither containers nor our sandbox
// allow: a copy more of some 100 KiB costs less than the failure. On one machine memory is all that they need: a rank
// would otherwise listen at every address for connections that nobody makes.
void choose_transports(const Launched& launch) {
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  if (launch.one_machine) setenv("OMPI_MCA_btl", "^tcp,ofi", 0);
  setenv("UCX_TLS", launch.one_machine ? "posix,self" : "^cma", 0);
}

// MPI maps files there and dies by a signal where they cannot grow.
void check_shared_memory(const Launched& launch) {
  const int ranks = launch.one_machine ? launch.ranks : 1;  // at least this one is here
  struct statvfs facts {};
  if (statvfs("/dev/shm", &facts) != 0) return;
  const uint64_t room = uint64_t{facts.f_bavail} * facts.f_frsize, need = uint64_t(ranks) * (16 << 20);
  if (room < need)
    throw Error("[mpi] /dev/shm has {} MiB free, and {} ranks need {}: its size is set by --shm-size of a container",
                room >> 20, ranks, need >> 20);
}

// MPICH's launcher leaves its ranks the socket at which it listens: nobody here accepts at it, and it would listen for
// as long as they live.
void close_inherited_listeners() {
  std::error_code ignored;
  std::vector<int> listens;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int is = 0;
    socklen_t bytes = sizeof(is);
    if (fd > 2 && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &bytes) == 0 && is != 0) listens.push_back(fd);
  }
  for (const int fd : listens) ::close(fd);
}

const IngotMpi& load_plugin(const Launched& launch) {
  std::string why;
  for (const std::string& name : launch.plugins) {
    const std::filesystem::path path = plugin_path(name);
    // Open MPI's own parts look for its symbols among all.
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      why += (why.empty() ? "" : "; ") + std::string(dlerror());
      continue;
    }
    const auto plugin = reinterpret_cast<IngotMpiPlugin>(dlsym(library, kIngotMpiSymbol));
    const IngotMpi* const mpi = plugin != nullptr ? plugin() : nullptr;
    if (mpi == nullptr || mpi->version != kIngotMpiVersion)
      throw Error("[mpi] {} is of another version of Ingot: build it again", path.string());
    return *mpi;
  }
  throw Error("[mpi] {} processes were started together, and no MPI can be loaded: {} (docs/multi-device.md)",
              launch.ranks, why);
}

}  // namespace

Launched launched() {
  const std::string asked = variable("INGOT_MPI");
  Launched found;
  if (asked == "off") return found;
  if (const int ranks = number("OMPI_COMM_WORLD_SIZE", 0); ranks > 0) {
    found = {ranks, number("OMPI_COMM_WORLD_RANK", 0), number("OMPI_COMM_WORLD_LOCAL_SIZE", 0) == ranks, {"openmpi"}};
  } else if (const int of_pmi = number("PMI_SIZE", 0); of_pmi > 0) {
    found = {of_pmi, number("PMI_RANK", 0), number("MPI_LOCALNRANKS", 0) == of_pmi, {"mpich"}};
  } else if (const int tasks = number("SLURM_STEP_NUM_TASKS", 0); tasks > 1) {
    if (variable("PMIX_RANK").empty())
      throw Error("[mpi] srun started {} tasks without MPI: --mpi=pmix or --mpi=pmi2, or INGOT_MPI=off for tasks apart",
                  tasks);
    found = {tasks, number("SLURM_PROCID", 0), number("SLURM_STEP_NUM_NODES", 0) == 1, {"openmpi", "mpich"}};
  }
  if (!asked.empty()) found.plugins = {asked};
  return found;
}

World::World(const IngotMpi& mpi, int rank, int ranks)
    : mpi_(mpi), comm_(std::make_unique<MpiComm>(mpi, rank, ranks)) {}

MpiComm& World::part(int first, int ranks) {
  return *parts_.emplace_back(std::make_unique<MpiComm>(*comm_, first, ranks));
}

World* World::joined() { return g_world; }

World* World::join() {
  const Launched launch = launched();
  if (launch.ranks <= 1) return nullptr;
  check_shared_memory(launch);
  choose_transports(launch);
  close_inherited_listeners();
  const NoSignals no_signals;  // MPI has threads of its own
  const IngotMpi& mpi = load_plugin(launch);
  LauncherWatch& launcher = LauncherWatch::start();
  const auto time = meet_time();
  const Watchdog watchdog(time + (launch.rank > 0 ? kAfterRank0 : 0s), 1,
                          fmt::format("[mpi] rank {} on {}, in the meeting: not all of {} ranks have come in {} s",
                                      launch.rank, host_name(), launch.ranks, time.count()));
  int rank = 0, ranks = 0;
  if (const int code = mpi.init(&rank, &ranks); code != 0) {
    char text[256] = "";
    mpi.describe(code, text, sizeof(text));
    throw Error("[mpi] {}: {}", mpi.library, text);
  }
  if (ranks != launch.ranks)
    throw Error("[mpi] {} sees {} ranks where {} were started: another MPI's mpirun? INGOT_MPI chooses the library",
                mpi.library, ranks, launch.ranks);
  std::unique_ptr<World> world(new World(mpi, rank, ranks));
  world->meet();
  launcher.add_shared_memory();
  g_world = world.release();
  return g_world;
}

// Every pair has spoken after this: connections are there before a sandbox forbids them.
void World::meet() {
  const RankCard own = own_card();
  std::vector<CardBytes> cards(static_cast<size_t>(ranks()));
  cards[static_cast<size_t>(rank())] = write_card(own);
  std::vector<CommBlock> parts;
  for (CardBytes& card : cards) parts.push_back({.data = card.data(), .bytes = kCardBytes});
  comm_->all_gather(parts);
  sharers_ = 0;
  for (int r = 0; r < ranks(); ++r) {
    const RankCard card = read_card(cards[static_cast<size_t>(r)], r);
    MpiPeer peer{.host = card.host};
    const bool here = card.place == own.place;
    if (here && r != rank()) peer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, card.pid, 0));
    if (here && card.cores == own.cores) ++sharers_;
    peers_.push_back(std::move(peer));
  }
  comm_->set_peers(peers_, sharers_ <= available_cores());
  comm_->beat();
  // Who stops the program asks rank 0, which ends the others.
  if (rank() > 0) {
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
  }
}

bool World::tell(const std::string& error) {
  comm_->abort(error);
  error_ = error;
  return rank() > 0 || comm_->given_up();
}

bool World::meet_to_leave() {
  if (comm_->aborted()) return false;
  try {
    comm_->deadline = std::chrono::seconds(kMeetSeconds);
    const std::vector<CommBlock> nothing(peers_.size());
    comm_->all_gather(nothing);
    // A sign of life that nobody takes is a warning of UCX on stdout: all have come when the next meeting ends.
    comm_->fall_silent();
    comm_->all_gather(nothing);
    return true;
  } catch (const CommError&) {
    return false;
  }
}

void World::leave(int status) {
  std::fflush(nullptr);
  if (status == 0 && meet_to_leave()) {
    // Over TCP, MPICH's UCX may wait in there for a rank that waits for all in the launcher: now all are here, and
    // what takes milliseconds is not waited for any longer.
    const Watchdog watchdog(kFinalizeTime, status, "");
    comm_->close();
    mpi_.finalize();
    return;
  }
  // Rank 0 tells its clients, prints and ends all. Where it does not, this one does.
  if (rank() > 0) {
    pollfd end{.fd = peers_[0].pidfd, .events = POLLIN, .revents = 0};
    const timespec time{.tv_sec = comm_->lost() == 0 ? 0 : 2, .tv_nsec = 0};
    ::ppoll(&end, 1, &time, nullptr);
    if (end.revents == 0 && !error_.empty() && !comm_->given_up()) std::fprintf(stderr, "ingot: %s\n", error_.c_str());
  }
  std::fflush(nullptr);
  std::this_thread::sleep_for(kReadTime);
  const Watchdog watchdog(kFinalizeTime, status, "");
  comm_->fall_silent();  // no thread calls MPI beside it
  mpi_.abort(status);
}

}  // namespace ingot
