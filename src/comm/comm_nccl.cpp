#include "comm/comm_nccl.h"

#include <fmt/format.h>

#include <thread>

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kLook{100};

}  // namespace

NcclApi::Id NcclComm::make_id(const NcclApi& api) {
  NcclApi::Id id = {};
  if (const int status = api.make_id(&id); status != NcclApi::kSuccess)
    throw CommError("[nccl] no meeting can be prepared: {}", api.error_text(status));
  return id;
}

NcclComm::NcclComm(const NcclApi& api, const NcclApi::Id& id, int rank, int ranks, std::chrono::milliseconds most)
    : deadline(most), api_(api), rank_(rank), ranks_(ranks) {
  NcclApi::Config config;
  config.blocking = 0;
  NcclApi::Handle handle = nullptr;
  const int status = api_.init(&handle, ranks, id, rank, &config);
  handle_ = handle;
  expect(status, "the meeting");
}

NcclComm::~NcclComm() {
  if (handle_ == nullptr) return;
  // A rank that has ended well meets the others once more; one that was lost does not come.
  int status = api_.finalize(handle_);
  const auto latest = Clock::now() + deadline;
  while (status == NcclApi::kInProgress && Clock::now() < latest) {
    std::this_thread::sleep_for(kLook);
    if (api_.async_error(handle_, &status) != NcclApi::kSuccess) break;
  }
  (void)(status == NcclApi::kSuccess ? api_.destroy(handle_) : api_.abort(handle_));
}

void NcclComm::abort() {
  if (NcclApi::Handle const handle = handle_.exchange(nullptr)) (void)api_.abort(handle);
}

void NcclComm::lose(const char* what, const std::string& why) {
  abort();
  throw CommError("[nccl] rank {} of {}, step {}: in {}: {}", rank_, ranks_, step, what, why);
}

void NcclComm::expect(int status, const char* what) {
  const auto latest = Clock::now() + deadline;
  while (status == NcclApi::kInProgress) {
    if (Clock::now() > latest) lose(what, fmt::format("not all have come in {} ms", deadline.count()));
    std::this_thread::sleep_for(kLook);
    check_alive();
    if (const int asked = api_.async_error(handle_, &status); asked != NcclApi::kSuccess) status = asked;
  }
  if (status != NcclApi::kSuccess) lose(what, api_.error_text(status));
}

void NcclComm::check_alive() {
  if (handle_ == nullptr) lose("a call", "it was given up");
}

void NcclComm::check() {
  check_alive();
  int status = NcclApi::kSuccess;
  if (const int asked = api_.async_error(handle_, &status); asked != NcclApi::kSuccess) status = asked;
  if (status != NcclApi::kSuccess && status != NcclApi::kInProgress) lose("a collective", api_.error_text(status));
}

void NcclComm::await(const std::function<bool()>& ended) {
  const auto latest = Clock::now() + deadline;
  while (!ended()) {
    check();
    if (Clock::now() > latest) lose("a collective", fmt::format("it has not ended in {} ms", deadline.count()));
    std::this_thread::sleep_for(kLook);
  }
  check();
}

void NcclComm::all_reduce(const float* x, float* out, int64_t count, Stream stream) {
  check();
  expect(api_.all_reduce(x, out, static_cast<size_t>(count), NcclApi::kFloat, NcclApi::kSum, handle_, stream),
         "all_reduce");
}

void NcclComm::all_gather(const std::byte* x, std::byte* out, int64_t bytes, Stream stream) {
  check();
  expect(api_.all_gather(x, out, static_cast<size_t>(bytes), NcclApi::kBytes, handle_, stream), "all_gather");
}

void NcclComm::reduce_scatter(const float* x, float* out, int64_t count, Stream stream) {
  check();
  expect(api_.reduce_scatter(x, out, static_cast<size_t>(count), NcclApi::kFloat, NcclApi::kSum, handle_, stream),
         "reduce_scatter");
}

void NcclComm::broadcast(std::byte* data, int64_t bytes, int root, Stream stream) {
  check();
  expect(api_.broadcast(data, data, static_cast<size_t>(bytes), NcclApi::kBytes, root, handle_, stream), "broadcast");
}

void NcclComm::send(const std::byte* data, int64_t bytes, int to, Stream stream) {
  check();
  expect(api_.send(data, static_cast<size_t>(bytes), NcclApi::kBytes, to, handle_, stream), "send");
}

void NcclComm::recv(std::byte* data, int64_t bytes, int from, Stream stream) {
  check();
  expect(api_.recv(data, static_cast<size_t>(bytes), NcclApi::kBytes, from, handle_, stream), "recv");
}

}  // namespace ingot
