// Replaces operator new in this folder's test program, so that a test can say how much a parser allocates; and the
// other helpers of files_test_support.h.
#include <cstdlib>
#include <new>

#include "files/files_test_support.h"

namespace {
thread_local size_t allocated = 0;
}

// Not inlined: the compiler would see malloc and delete, or new and free, as a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  allocated += size;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
// Temporary buffers of the standard library's sorts come from here and are given back to the plain delete.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocated += size;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace ingot {

void AllocationProbe::start() { allocated = 0; }
size_t AllocationProbe::total() { return allocated; }

namespace {

void add_metadata(GgufBytes& f) {
  f.number("magic", uint32_t{0x46554747});
  f.number("version", uint32_t{3});
  f.number("tensor count", uint64_t{4});
  f.number("key count", uint64_t{17});
  const auto value = [&]<class T>(const char* name, GgufKind kind, T number) {
    f.key(name, kind);
    f.number(fmt::format("value of {}", name), number, true);
  };
  value("t.u8", GgufKind::kU8, uint8_t{200});
  value("t.i8", GgufKind::kI8, int8_t{-100});
  value("t.u16", GgufKind::kU16, uint16_t{60000});
  value("t.i16", GgufKind::kI16, int16_t{-30000});
  value("t.u32", GgufKind::kU32, uint32_t{4000000000});
  value("t.i32", GgufKind::kI32, int32_t{-2000000000});
  value("t.f32", GgufKind::kF32, 1.5f);
  value("t.u64", GgufKind::kU64, ~uint64_t{0});
  value("t.i64", GgufKind::kI64, INT64_MIN);
  value("t.f64", GgufKind::kF64, 0.1);
  f.key("t.bool", GgufKind::kBool);
  f.number("value of t.bool", uint8_t{1});
  f.key("general.alignment", GgufKind::kU32);
  f.number("value of general.alignment", uint32_t{64});
  f.key("t.string", GgufKind::kString);
  f.string("value of t.string", "héllo");
  const auto array = [&](const char* name, GgufKind element, uint64_t count) {
    f.key(name, GgufKind::kArray);
    f.number(fmt::format("element type of {}", name), static_cast<uint32_t>(element));
    f.number(fmt::format("count of {}", name), count);
  };
  array("t.strings", GgufKind::kString, 40);
  for (int i = 0; i < 40; i++) f.string("element of t.strings", fmt::format("token{}", i));
  array("t.floats", GgufKind::kF32, 10);
  for (int i = 0; i < 10; i++) f.number("element of t.floats", static_cast<float>(i), true);
  array("t.bools", GgufKind::kBool, 3);
  for (int i = 0; i < 3; i++) f.number("element of t.bools", static_cast<uint8_t>(i % 2));
  array("t.empty", GgufKind::kI64, 0);
}

void add_tensors(GgufBytes& f) {
  struct Tensor {
    std::vector<uint64_t> dims;
    uint32_t type;
    size_t bytes;
  };
  const std::vector<Tensor> tensors = {
      {{64, 8}, kGgufF32, 2048}, {{32, 2, 2}, kGgufQ4_0, 72}, {{256}, kGgufQ6_K, 210}, {{16, 2, 2, 2}, kGgufF16, 256}};
  uint64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    const std::string name = fmt::format("t{}", i);
    f.string(fmt::format("name of {}", name), name);
    f.number(fmt::format("dimensions of {}", name), static_cast<uint32_t>(tensors[i].dims.size()));
    for (const uint64_t dim : tensors[i].dims) f.number(fmt::format("dimension of {}", name), dim);
    f.number(fmt::format("type of {}", name), tensors[i].type);
    f.number(fmt::format("offset of {}", name), offset);
    f.data.emplace_back(offset, offset + tensors[i].bytes);
    offset = (offset + tensors[i].bytes + 63) / 64 * 64;
  }
  f.bytes.resize((f.bytes.size() + 63) / 64 * 64);
  const size_t begin = f.bytes.size();
  for (auto& [from, to] : f.data) {
    from += begin;
    to += begin;
  }
  f.bytes.resize(f.data.back().second);
  for (size_t i = begin; i < f.bytes.size(); i++) f.bytes[i] = static_cast<char>(i * 7);
}

}  // namespace

GgufBytes small_gguf() {
  GgufBytes f;
  add_metadata(f);
  add_tensors(f);
  return f;
}

uint64_t walk(const Gguf& gguf) {
  uint64_t sum = gguf.version();
  for (const GgufEntry& entry : gguf.metadata()) {
    sum += entry.value.text().size() + entry.value.type_name().size();
    for (const std::string_view text : entry.value.strings) {
      for (const char c : text) sum += static_cast<unsigned char>(c);
    }
    error_of([&] { sum += gguf.get_u64(entry.key); });
    error_of([&] { sum += gguf.get_bool(entry.key) ? 1 : 0; });
    error_of([&] { sum += gguf.get_f32(entry.key) > 0 ? 1 : 0; });
    error_of([&] { sum += gguf.get_string(entry.key).size(); });
    error_of([&] { sum += gguf.get_i32_array(entry.key).size(); });
    error_of([&] { sum += gguf.get_f32_array(entry.key).size(); });
    error_of([&] { sum += gguf.get_bool_array(entry.key).size(); });
  }
  for (const GgufTensor& tensor : gguf.tensors()) {
    for (size_t i = 0; i < tensor.bytes; i++) sum += std::to_integer<uint64_t>(tensor.data[i]);
  }
  return sum;
}

uint64_t walk(const SafeTensors& tensors) {
  uint64_t sum = tensors.metadata().size();
  for (const SafeTensor& tensor : tensors.tensors()) {
    for (size_t i = 0; i < tensor.bytes; i++) sum += std::to_integer<uint64_t>(tensor.data[i]);
  }
  return sum;
}

std::string safetensors_bytes(std::string_view header, size_t data_bytes) {
  const uint64_t n = header.size();
  std::string out(reinterpret_cast<const char*>(&n), sizeof(n));
  out += header;
  out.append(data_bytes, '\0');
  return out;
}

}  // namespace ingot
