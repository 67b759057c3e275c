#include "graph/cuda/cuda_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "comm/from_all.h"
#include "graph/cuda/cuda_busy.h"

namespace ingot::cuda {
namespace {

// Left free on the device: recorded graphs, kernels that are loaded when they first run, and the driver's own.
constexpr int64_t kReserve = int64_t{512} << 20;
// What prepare() asks for in small pieces shares larger ones.
constexpr int64_t kKeptPiece = int64_t{4} << 20;

// The host gives a step of 170 nodes, with two events each, in about a millisecond.
constexpr double kBusySeconds = 3e-3;
constexpr int64_t kBusyBytes = int64_t{4} << 30;

int64_t reserve() { return is_emulated() ? 0 : kReserve; }

std::string gib(int64_t bytes) {
  return bytes < int64_t{1} << 30 ? fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20))
                                  : fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// Of the ranks that share a device each has as much of what is free.
DeviceFacts use_and_ask(const DeviceRunOptions& options) {
  use_device(options.device.place(options.rank));
  require_kernels();
  DeviceFacts facts = device_facts();
  if (options.comm == nullptr) return facts;
  facts.free_bytes /= options.device.parts;
  from_all<char>(*options.comm, 0);  // nobody takes any before all have asked
  return facts;
}

}  // namespace

DeviceRunner::DeviceRunner(const Graph& graph, const DeviceRunOptions& options)
    : options_(options),
      facts_(use_and_ask(options)),
      buckets_(options.limits),
      program_(compile(graph, {.limits = buckets_.padded(), .kv = options.kv, .bf16 = true})) {
  check_room();
  if (options_.comm != nullptr)
    peers_ = std::make_unique<PeerMemory>(*options_.comm, options_.device.place(options_.rank).index);
  weights_ = std::make_unique<DeviceWeights>(program_, options_.device.place(options_.rank).index, options_.threads);
  use_device(options_.device.place(options_.rank));  // to read them this thread has used the whole of it
  arena_ = DeviceMemory(program_.arena_bytes);
  bind_arena(program_, arena_.data());
  tickets_ = DeviceMemory(kTickets * static_cast<int64_t>(sizeof(uint32_t)));
  fill_bytes(tickets_.data(), 0, tickets_.bytes(), stream_.ref());
  handed_ = DeviceMemory(kHandedRoom * facts_.multiprocessors);
  fill_bytes(handed_.data(), 0xff, handed_.bytes(), stream_.ref());  // kNothing
  batch_ = std::make_unique<BatchUpload>(buckets_.padded(), static_cast<int>(program_.kv_groups.size()));
  if (const auto logits = program_.outputs.find("logits"); logits != program_.outputs.end()) {
    sampler_ = std::make_unique<DeviceSampler>(buckets_.padded().logits, logits->second.cols);
  }
  std::string why;  // of no interest: own products serve as well
  if (!is_emulated()) blas_ = Blas::load(&why);
  prepare_all();
  place_kv();
  stream_.synchronize();
  meet_ranks();
}

DeviceRunner::~DeviceRunner() {
  copies_stream_.synchronize();
  stream_.synchronize();
}

// What allocates, loads or records may wait until its device has nothing to do. Where ranks share one, that would be
// for ever while another rank's kernel waits for this one's: no rank gives work that meets others before all are
// through.
void DeviceRunner::meet_ranks() const {
  if (options_.comm != nullptr) from_all<char>(*options_.comm, 0);
}

int64_t DeviceRunner::free_bytes() const {
  meet_ranks();  // all have what they took before
  const int64_t own = (device_facts().free_bytes - reserve()) / options_.device.parts;
  meet_ranks();
  return own;
}

void DeviceRunner::check_peers() const {
  if (peers_) peers_->check();
}

void DeviceRunner::leave_peers() {
  if (peers_) peers_->give_up();
}

// Before anything is read: a model that does not fit is refused at once.
void DeviceRunner::check_room() {
  const int64_t weights = device_weight_bytes(program_);
  const int64_t kv = options_.least_pages * kv_page_bytes(program_, {}, options_.limits.page_rows);
  const int64_t needed = weights + program_.arena_bytes + kv + reserve() / options_.device.parts;
  if (needed <= facts_.free_bytes) return;
  const char* fits = facts_.free_bytes - needed + kv <= 0 ? "weights of a smaller format, or --device cpu, would fit"
                     : asks_for_kv()                      ? "a smaller --kv-memory would fit"
                                     : "a smaller --ctx, --kv q8_0 or fewer rows of a step would fit";
  throw Error("[device] {} has {} free and needs {} (weights {}, activations {}, KV cache{} {}): {} are missing; {}",
              facts_.name, gib(facts_.free_bytes), gib(needed), gib(weights), gib(program_.arena_bytes),
              asks_for_kv() ? "" : " of one context", gib(kv), gib(needed - facts_.free_bytes), fits);
}

std::byte* DeviceRunner::allocate(int64_t bytes) {
  const int64_t size = (bytes + 255) / 256 * 256;
  if (kept_.empty() || kept_used_ + size > kept_.back().bytes()) {
    kept_.emplace_back(std::max(size, size > kKeptPiece / 4 ? size : kKeptPiece));
    kept_bytes_ += kept_.back().bytes();
    kept_used_ = 0;
  }
  std::byte* at = kept_.back().data() + kept_used_;
  kept_used_ += size;
  return at;
}

void DeviceRunner::prepare_all() {
  // A second copy of the weights must leave the cache that must be there, and what is wanted or half of what is free.
  const int64_t free = free_bytes();
  const int64_t page = kv_page_bytes(program_, {}, options_.limits.page_rows);
  const int64_t left = std::max(options_.least_pages * page, std::min(options_.pages * page, free / 2));
  Prepare p{.limits = buckets_.padded(),
            .stream = stream_.ref(),
            .multiprocessors = facts_.multiprocessors,
            .arch = facts_.major * 10 + facts_.minor,
            .blas = blas_.get(),
            .batch_invariant = options_.device.batch_invariant,
            .f8_rows = options_.device.f8_rows,
            .comm = options_.comm,
            .peers = peers_ ? &peers_->peers() : nullptr,
            .allocate = [this](int64_t bytes) { return allocate(bytes); },
            .room_for_packed = free - weights_->data_bytes() >= left};
  for (size_t n = 0; n < program_.nodes.size(); ++n) {
    const auto prepared = [&](auto& op) {
      prepare(op, p);
      return leave_published(op);
    };
    if (!std::visit(prepared, program_.nodes[n].op)) continue;
    stream_.synchronize();
    weights_->give_back(n);
  }
  for (size_t n = 0; n + 1 < program_.nodes.size(); ++n) {
    std::visit([&](auto& first, auto& second) { link(first, second, p); }, program_.nodes[n].op,
               program_.nodes[n + 1].op);
  }
  if (blas_) blas_->save();
  scratch_ = DeviceMemory(p.scratch_bytes);
}

void DeviceRunner::place_kv() {
  const int64_t page = kv_page_bytes(program_, {}, options_.limits.page_rows);
  const int64_t free = free_bytes();
  const int64_t fit = page == 0 ? options_.pages : std::max<int64_t>(0, free) / page;
  const auto pages = static_cast<int>(std::min<int64_t>(options_.pages, fit));
  if (pages < options_.least_pages && asks_for_kv()) {
    throw Error(
        "[device] {} has {} left for the KV cache, and {} were asked for: {} are missing; --kv-memory {}M would fit",
        facts_.name, gib(std::max<int64_t>(0, free)), gib(options_.least_pages * page),
        gib(options_.least_pages * page - std::max<int64_t>(0, free)), std::max<int64_t>(0, free) >> 20);
  }
  if (pages < options_.least_pages) {
    throw Error(
        "[device] {} has {} left for the KV cache, and one context of {} tokens needs {}: {} are missing; "
        "--ctx {} would fit, or --kv q8_0",
        facts_.name, gib(std::max<int64_t>(0, free)), options_.limits.context, gib(options_.least_pages * page),
        gib(options_.least_pages * page - std::max<int64_t>(0, free)), fit * options_.limits.page_rows);
  }
  pages_.assign(program_.kv_groups.size(), options_.comm ? std::ranges::min(from_all(*options_.comm, pages)) : pages);
  kv_memory_ = DeviceMemory(kv_store_bytes(program_, pages_, options_.limits.page_rows));
  // What was there before may be no numbers; the emulator leaves them so that a kernel that reads them is found.
  if (!is_emulated() && kv_memory_.bytes() > 0) fill_bytes(kv_memory_.data(), 0, kv_memory_.bytes(), stream_.ref());
  kv_ = std::make_unique<KvStore>(program_, pages_, options_.limits.page_rows, kv_memory_.data());
  kv_->bind(program_);
}

int64_t DeviceRunner::weight_bytes() const { return weights_->bytes() + kept_bytes_; }

int64_t DeviceRunner::step_bytes() const {
  return arena_.bytes() + scratch_.bytes() + tickets_.bytes() + handed_.bytes() + batch_->bytes() +
         (peers_ ? peers_->bytes() : 0);
}

Ctx DeviceRunner::ctx(const Bucket& bucket) const {
  Ctx c;
  c.stream = stream_.ref();
  c.batch = batch_->at(bucket);
  c.batch.made = sampler_ ? sampler_->tokens() : nullptr;
  c.shape = {.tokens = bucket.rows, .logits = bucket.logits};
  c.seqs = bucket.seqs;
  c.q_rows = bucket.q_rows;
  c.multiprocessors = facts_.multiprocessors;
  c.arch = facts_.major * 10 + facts_.minor;
  c.scratch = scratch_.data();
  c.scratch_bytes = scratch_.bytes();
  c.tickets = reinterpret_cast<uint32_t*>(tickets_.data());
  c.handed = reinterpret_cast<float*>(handed_.data());
  c.blas = blas_.get();
  c.peers = peers_ ? &peers_->peers() : nullptr;
  c.overlap = options_.device.overlap && node_seconds_.empty();
  c.batch_invariant = options_.device.batch_invariant;
  return c;
}

void DeviceRunner::run(const Batch& batch, std::span<const SampleRow> samples) {
  CHECK(batch.n_rows > 0 && batch.n_rows <= options_.limits.rows && batch.n_seqs <= options_.limits.seqs,
        "{} rows of {} seqs", batch.n_rows, batch.n_seqs);
  CHECK(batch.n_logits <= options_.limits.logits, "{} logit rows", batch.n_logits);
  bucket_ = buckets_.of(batch);
  rows_ = batch.n_rows;
  logit_rows_ = batch.n_logits;
  batch_->upload(batch, bucket_, stream_.ref());
  Ctx c = ctx(bucket_);
  // In front of the step: a copy between two kernels would let the second wait for the host's memory.
  if (!samples.empty()) sampler_->upload(samples, c);
  // Where each seq has one row the head belongs to the same graph.
  if (bucket_.q_rows == 1 && bucket_.logits > 0) {
    give(Part::kStep, bucket_);
  } else {
    give(Part::kBody, bucket_);
    if (batch.n_logits > 0) give(Part::kHead, bucket_);
  }
  if (!samples.empty()) sampler_->choose(device_output("logits"), c);
}

void DeviceRunner::draw(std::span<const SampleRow> samples) {
  if (samples.empty()) return;
  Ctx c = ctx(bucket_);
  sampler_->upload(samples, c, copies_stream_.ref());
  copied_.record(copies_stream_.ref());
  copied_.hold(stream_.ref());
  sampler_->choose(device_output("logits"), c);
}

void DeviceRunner::run_head(const Batch& batch, std::span<const SampleRow> samples) {
  CHECK(batch.n_logits > 0 && batch.n_logits <= options_.limits.logits, "{} logit rows", batch.n_logits);
  bucket_.logits = buckets_.logits_of(batch.n_logits);
  logit_rows_ = batch.n_logits;
  batch_->upload_logits(batch, bucket_, stream_.ref());
  Ctx c = ctx(bucket_);
  if (!samples.empty()) sampler_->upload(samples, c);
  give(Part::kHead, bucket_);
  if (!samples.empty()) sampler_->choose(device_output("logits"), c);
}

void DeviceRunner::give_up() {
  copies_stream_.synchronize();
  stream_.synchronize();
  if (sampler_) sampler_->forget();
}

void DeviceRunner::collect(std::span<SampleResult> results) {
  if (!results.empty()) sampler_->collect(results);
}

void DeviceRunner::copy_page(int group, int from, int to) {
  copy_on_device(kv_->page(group, to), kv_->page(group, from), kv_->page_bytes(group), stream_.ref());
}

bool DeviceRunner::recordable(const Key& key) const {
  return options_.device.graphs && node_seconds_.empty() &&
         (key.part == Part::kHead || key.bucket.rows <= Buckets::kMostRecordedRows);
}

// A bucket that comes for the first time runs kernel by kernel: libraries and drivers load and choose then, which must
// not happen in a recording. From the second time on it is one recorded graph.
void DeviceRunner::give(Part part, const Bucket& bucket) {
  Key key{part, bucket};
  // The head reads only its own rows, and the body knows nothing of it.
  if (part == Part::kHead) key.bucket = {.logits = bucket.logits};
  if (part == Part::kBody) key.bucket.logits = 0;
  if (!recordable(key)) return give_nodes(part, bucket);
  const auto [known, first] = recorded_.try_emplace(key);
  if (first) return give_nodes(part, bucket);
  RecordedGraph& graph = known->second;
  if (!graph) graph = RecordedGraph(stream_.ref(), [&] { give_nodes(part, key.bucket); });
  graph.launch(stream_.ref());
}

void DeviceRunner::give_nodes(Part part, const Bucket& bucket) {
  Ctx c = ctx(bucket);
  const size_t begin = part == Part::kHead ? program_.head_begin : 0;
  const size_t end = part == Part::kBody ? program_.head_begin : program_.nodes.size();
  if (!node_seconds_.empty()) return give_timed(begin, end, c);
  for (size_t n = begin; n < end; ++n) {
    std::visit([&](auto& op) { cuda::run(op, c); }, program_.nodes[n].op);
  }
}

// The device is kept busy first, until the host is far ahead: else small kernels would show the time of their launches.
void DeviceRunner::give_timed(size_t begin, size_t end, Ctx& c) {
  if (begin == 0 && !is_emulated()) {
    keep_busy(weights_->data(), std::min(weights_->data_bytes(), kBusyBytes), kBusySeconds, stream_.ref());
  }
  for (size_t n = begin; n < end; ++n) {
    times_[n].first.record(stream_.ref());
    std::visit([&](auto& op) { cuda::run(op, c); }, program_.nodes[n].op);
    times_[n].second.record(stream_.ref());
    timed_[n] = 1;
    copy_choices(n);
  }
}

// Copies between kernels are no part of a step that people wait for: the first one that is profiled has them.
void DeviceRunner::copy_choices(size_t node) {
  const auto to = choices_.find(node);
  if (to == choices_.end()) return;
  const Tensor& chosen = std::get<RouterTopk>(program_.nodes[to->second.router].op).experts;
  const int64_t rows = Shape{.tokens = rows_, .logits = logit_rows_}.rows(chosen.rows);
  copy_to_host(to->second.copy.data(), chosen.data, rows * chosen.stride * dtype_bytes(chosen.dtype), stream_.ref());
}

void DeviceRunner::count_choices() {
  for (const auto& [node, choices] : choices_) {
    const auto& router = std::get<RouterTopk>(program_.nodes[choices.router].op);
    const int64_t rows = Shape{.tokens = rows_, .logits = logit_rows_}.rows(router.experts.rows);
    if (rows == 0) continue;  // of the head, which did not run
    experts_.add_layer(reinterpret_cast<const int32_t*>(choices.copy.data()), router.experts.stride, rows,
                       router.experts.cols, router.logits.cols);
  }
  choices_.clear();
}

void DeviceRunner::profile(bool on) {
  const size_t n = on ? program_.nodes.size() : 0;
  node_seconds_.assign(n, 0.0);
  profiled_seconds_ = 0;
  timed_.assign(n, 0);
  times_.clear();
  times_.resize(n);
  choices_.clear();
  for (size_t i = 0; i < n; ++i) {
    const auto* router = std::get_if<RouterTopk>(&program_.nodes[i].op);
    if (router == nullptr) continue;
    size_t last = i;
    for (size_t j = i + 1; j < n && j <= i + 2; ++j) {
      const auto* experts = std::get_if<ExpertLinear>(&program_.nodes[j].op);
      if (experts != nullptr && experts->experts.data == router->experts.data) last = j;
    }
    PinnedMemory copy(limits().rows * router->experts.stride * dtype_bytes(router->experts.dtype));
    choices_.emplace(last, Choices{i, std::move(copy)});
  }
}

void DeviceRunner::count_times() {
  if (!choices_.empty() && timed_[choices_.begin()->first]) count_choices();
  const Event* first = nullptr;
  const Event* last = nullptr;
  for (size_t n = 0; n < times_.size(); ++n) {
    if (!timed_[n]) continue;
    node_seconds_[n] += times_[n].second.seconds_since(times_[n].first);
    timed_[n] = 0;
    if (first == nullptr) first = &times_[n].first;
    last = &times_[n].second;
  }
  if (first != nullptr) profiled_seconds_ += last->seconds_since(*first);
}

void DeviceRunner::record_all() {
  if (!options_.device.graphs) return;
  Batch empty(buckets_.padded(), static_cast<int>(program_.kv_groups.size()));
  for (const Bucket& bucket : buckets_.recorded()) {
    bucket_ = bucket;
    batch_->upload(empty, bucket, stream_.ref());
    const Part part = bucket.rows == 0 ? Part::kHead : bucket.logits > 0 ? Part::kStep : Part::kBody;
    give(part, bucket);
    const auto [known, first] = recorded_.try_emplace(Key{part, bucket});
    if (peers_) stream_.synchronize();
    if (!known->second) known->second = RecordedGraph(stream_.ref(), [&] { give_nodes(part, bucket); });
    stream_.synchronize();
    meet_ranks();
  }
}

void DeviceRunner::read_row(const Tensor& output, int64_t row, float* to) const {
  CHECK(output.dtype == DType::kF32, "an output of {}", dtype_name(output.dtype));
  copy_to_host(to, output.f32(row), output.cols * static_cast<int64_t>(sizeof(float)), stream_.ref());
}

const Tensor& DeviceRunner::output(const std::string& name) const {
  const Tensor& from = device_output(name);
  auto& [values, tensor] = copies_[name];
  const int64_t rows = Shape{.tokens = rows_, .logits = bucket_.logits}.rows(from.rows);
  values.resize(static_cast<size_t>(rows * from.cols));
  for (int64_t r = 0; r < rows; ++r) read_row(from, r, values.data() + r * from.cols);
  stream_.synchronize();
  tensor = from;
  tensor.stride = from.cols;
  tensor.data = reinterpret_cast<std::byte*>(values.data());
  return tensor;
}

}  // namespace ingot::cuda
