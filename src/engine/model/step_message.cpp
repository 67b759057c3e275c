#include "engine/model/step_message.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ingot {
namespace {

constexpr int32_t kStep = 0x70657473, kHead = 0x64616568;  // "step", "head"
constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

// Positions of a seq are slots of so many pages.
int pages_of(int kv_len, int page_rows) { return (kv_len + page_rows - 1) / page_rows; }

template <class T>
std::span<const T> first(const std::vector<T>& all, int n) {
  return std::span(all).first(static_cast<size_t>(n));
}

// Words of a message, each within its range.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {
    if (bytes.size() % sizeof(int32_t) != 0) throw Error("[ranks] a step message of {} bytes", bytes.size());
  }
  bool done() const { return at_ == bytes_.size(); }
  int32_t word(const char* what, int32_t low, int32_t high) {
    if (at_ + sizeof(int32_t) > bytes_.size()) throw Error("[ranks] a step message ends before its {}", what);
    int32_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    if (value < low || value > high)
      throw Error("[ranks] a step message has {} {}, not within {} and {}", what, value, low, high);
    return value;
  }
  void words(const char* what, int32_t low, int32_t high, std::span<int32_t> out) {
    for (int32_t& value : out) value = word(what, low, high);
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

std::span<int32_t> part(std::vector<int32_t>& all, int64_t begin, int64_t count) {
  return std::span(all).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

// Seqs and rows. A row's seq follows from where the seqs begin, and its position from the seq's end.
void read_seqs(Reader& in, const StepLimits& limits, Batch& batch) {
  const int rows = batch.n_rows, seqs = batch.n_seqs;
  in.words("tokens", 0, kMost, part(batch.token, 0, rows));
  in.words("positions", 0, limits.context - 1, part(batch.position, 0, rows));
  in.words("seqs", 0, seqs - 1, part(batch.seq, 0, rows));
  in.words("first rows", 0, rows, part(batch.q_start, 0, seqs + 1));
  in.words("lengths", 1, limits.context, part(batch.kv_len, 0, seqs));
  if (batch.q_start[0] != 0 || batch.q_start[static_cast<size_t>(seqs)] != rows)
    throw Error("[ranks] a step message has seqs that are not its rows");
  for (int s = 0; s < seqs; ++s) {
    const auto si = static_cast<size_t>(s);
    const int begin = batch.q_start[si], end = batch.q_start[si + 1];
    if (begin >= end) throw Error("[ranks] a step message has no row of seq {}", s);
    for (int t = begin; t < end; ++t) {
      const auto ti = static_cast<size_t>(t);
      if (batch.seq[ti] != s || batch.position[ti] != batch.kv_len[si] - (end - t))
        throw Error("[ranks] a step message has row {} of seq {} at {}, and its seq is {}, with {} positions", t,
                    batch.seq[ti], batch.position[ti], s, batch.kv_len[si]);
    }
  }
}

// The first page of a group that a row at `position` sees.
int first_seen(const PageGroup& group, int page_rows, int position) {
  return group.window == 0 || position < group.window ? 0 : (position - group.window + 1) / page_rows;
}

// Page tables, and where the rows go in them.
void read_group(Reader& in, const StepLimits& limits, const PageGroup& group, Batch& batch, Batch::Group& into) {
  const int page_rows = limits.page_rows;
  in.words("slots", 0, kMost, part(into.slot, 0, batch.n_rows));
  for (int s = 0; s < batch.n_seqs; ++s) {
    const auto si = static_cast<size_t>(s);
    const int begin = batch.q_start[si], end = batch.q_start[si + 1];
    const std::span<int32_t> pages =
        part(into.page_table, int64_t{s} * batch.pages_per_seq, pages_of(batch.kv_len[si], page_rows));
    const int seen = first_seen(group, page_rows, batch.position[static_cast<size_t>(begin)]);
    in.words("pages", kNoPage, group.pages - 1, pages.first(static_cast<size_t>(seen)));
    in.words("pages", 0, group.pages - 1, pages.subspan(static_cast<size_t>(seen)));
    for (int t = begin; t < end; ++t) {
      const auto ti = static_cast<size_t>(t);
      const int position = batch.position[ti];
      const int64_t page = pages[static_cast<size_t>(position / page_rows)];
      if (into.slot[ti] != page * page_rows + position % page_rows)
        throw Error("[ranks] a step message has slot {} for row {}, whose page is {}", into.slot[ti], t, page);
    }
  }
}

void read_copy(Reader& in, const std::vector<PageGroup>& groups, PageCopy& copy) {
  copy.group = in.word("group", 0, static_cast<int32_t>(groups.size()) - 1);
  const int32_t last = groups[static_cast<size_t>(copy.group)].pages - 1;
  copy.from = in.word("page", 0, last);
  copy.to = in.word("page", 0, last);
  if (copy.from == copy.to) throw Error("[ranks] a step message has page {} copied to itself", copy.from);
}

}  // namespace

int64_t StepMessage::most_bytes(const StepLimits& limits, int groups) {
  const int64_t rows = limits.rows, seqs = limits.seqs;
  // A page is copied for a seq that has a row.
  const int64_t words = 16 + rows * (3 + groups) + 2 * seqs + 1 + groups * seqs * limits.pages_per_seq() +
                        limits.logits + 3 * rows * groups;
  return words * static_cast<int64_t>(sizeof(int32_t));
}

void StepMessage::begin(int32_t kind, int64_t step) {
  words_.clear();
  const int32_t words[] = {kind, static_cast<int32_t>(step & 0x7fffffff), static_cast<int32_t>(step >> 31)};
  put(words);
}

void StepMessage::write_head(int64_t step, std::span<const int32_t> logit_rows) {
  begin(kHead, step);
  words_.push_back(static_cast<int32_t>(logit_rows.size()));
  put(logit_rows);
}

void StepMessage::write_step(const StepWork& work, const StepLimits& limits, int64_t step,
                             std::span<const int32_t> logit_rows, bool report) {
  const Batch& batch = work.batch;
  begin(kStep, step);
  const int32_t counts[] = {report ? 1 : 0, batch.n_rows, batch.n_seqs, static_cast<int32_t>(work.copies.size())};
  put(counts);
  put(first(batch.token, batch.n_rows));
  put(first(batch.position, batch.n_rows));
  put(first(batch.seq, batch.n_rows));
  put(first(batch.q_start, batch.n_seqs + 1));
  put(first(batch.kv_len, batch.n_seqs));
  for (size_t g = 0; g < batch.groups.size(); ++g) {
    put(first(batch.groups[g].slot, batch.n_rows));
    for (int s = 0; s < batch.n_seqs; ++s) {
      const int pages = pages_of(batch.kv_len[static_cast<size_t>(s)], limits.page_rows);
      put({batch.pages(static_cast<int>(g), s), static_cast<size_t>(pages)});
    }
  }
  for (const PageCopy& copy : work.copies) {
    const int32_t words[] = {copy.group, copy.from, copy.to};
    put(words);
  }
  words_.push_back(static_cast<int32_t>(logit_rows.size()));
  put(logit_rows);
}

ReadStep read_step_message(std::span<const std::byte> bytes, const StepLimits& limits,
                           const std::vector<PageGroup>& groups, Batch& batch) {
  Reader in(bytes);
  ReadStep read;
  const int32_t kind = in.word("kind", std::min(kStep, kHead), std::max(kStep, kHead));
  if (kind != kStep && kind != kHead) throw Error("[ranks] a message of kind {}", kind);
  read.body = kind == kStep;
  read.step = in.word("number", 0, kMost);
  read.step |= int64_t{in.word("number", 0, kMost)} << 31;
  if (read.body) {
    read.report = in.word("report", 0, 1) == 1;
    batch.n_rows = in.word("rows", 1, limits.rows);
    batch.n_seqs = in.word("seqs", 1, limits.seqs);
    read.copies.resize(static_cast<size_t>(in.word("copies", 0, limits.rows * static_cast<int>(groups.size()))));
    read_seqs(in, limits, batch);
    for (size_t g = 0; g < groups.size(); ++g) read_group(in, limits, groups[g], batch, batch.groups[g]);
    for (PageCopy& copy : read.copies) read_copy(in, groups, copy);
  }
  batch.n_logits = in.word("logit rows", read.body ? 0 : 1, limits.logits);
  in.words("logit rows", 0, batch.n_rows - 1, part(batch.logit_row, 0, batch.n_logits));
  if (!in.done()) throw Error("[ranks] a step message goes on behind its end");
  return read;
}

}  // namespace ingot
