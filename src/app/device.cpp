#include "app/device.h"

#include <charconv>

#include "base/error.h"
#include "engine/model/cuda.h"

namespace ingot {

int cuda_index(const std::string& device) {
  if (device == "cuda") return 0;
  if (!device.starts_with("cuda:")) return -1;
  int index = -1;
  const char* end = device.data() + device.size();
  const auto [rest, error] = std::from_chars(device.data() + 5, end, index);
  return error == std::errc() && rest == end ? index : -1;
}

int choose_device(const std::string& device, bool ref) {
  if (device == "cpu") return -1;
  if (device.empty()) return !ref && cuda_refusal(0).empty() ? 0 : -1;
  if (ref) throw Error("[device] --ref computes on the CPU: leave --device out");
  const int index = cuda_index(device);
  if (std::string why = cuda_refusal(index); !why.empty()) throw Error("[device] {}: {}", device, why);
  return index;
}

}  // namespace ingot
