#include "app/device.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "engine/model/cuda.h"

namespace ingot {
namespace {

// The number at the begin of `text`, which loses it; -1 where there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

// Parts of a GPU wait for each other. The driver must neither put their streams into one queue, of which it has eight
// unless it is told, nor load a kernel when it first runs, for which it may wait for all that runs. Before its first
// call.
void tell_driver_of_parts(const std::string& device) {
  const std::optional<EngineDevice> parsed = parse_cuda(device);
  if (!parsed || parsed->parts == 1) return;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

void expect_there(const std::string& device, int index) {
  if (const std::string why = cuda_refusal(index); !why.empty()) throw Error("[device] {}: {}", device, why);
}

// So many of the machine's, from the first on.
std::vector<int> first_devices(int ranks) {
  std::vector<int> devices;
  for (int i = 0; i < ranks; ++i) {
    if (const std::string why = cuda_refusal(i); !why.empty())
      throw Error("[tp] {} ranks need as many GPUs: {}; --device cuda:0/{} cuts one, or --device cpu", ranks, why,
                  ranks);
    devices.push_back(i);
  }
  return devices;
}

}  // namespace

std::optional<EngineDevice> parse_cuda(const std::string& device) {
  EngineDevice parsed;
  parsed.cuda = 0;
  if (device == "cuda") return parsed;
  if (!device.starts_with("cuda:")) return {};
  std::string_view rest = std::string_view(device).substr(5);
  std::vector<int> indices = {take_number(rest)};
  while (indices.back() >= 0 && rest.starts_with(',')) {
    rest.remove_prefix(1);
    indices.push_back(take_number(rest));
  }
  if (indices.back() < 0) return {};
  parsed.cuda = indices[0];
  if (indices.size() > 1) {
    parsed.cudas = std::move(indices);
  } else if (rest.starts_with('/')) {
    rest.remove_prefix(1);
    parsed.parts = take_number(rest);
    if (parsed.parts < 1) return {};
  }
  return rest.empty() ? std::optional(parsed) : std::nullopt;
}

int cuda_index(const std::string& device) {
  const std::optional<EngineDevice> parsed = parse_cuda(device);
  return parsed ? parsed->cuda : -1;
}

int choose_device(const std::string& device, bool ref) {
  if (device == "cpu") return -1;
  if (device.empty()) return !ref && cuda_refusal(0).empty() ? 0 : -1;
  if (ref) throw Error("[device] --ref computes on the CPU: leave --device out");
  tell_driver_of_parts(device);
  const int index = cuda_index(device);
  expect_there(device, index);
  return index;
}

int choose_one_device(const std::string& device, bool ref) {
  const std::optional<EngineDevice> parsed = parse_cuda(device);
  if (parsed && parsed->ranks() > 1)
    throw Error("[device] {} names {} devices, and this has one", device, parsed->ranks());
  return choose_device(device, ref);
}

EngineDevice choose_devices(const std::string& device, bool ref, int ranks) {
  EngineDevice chosen;
  chosen.cuda = choose_device(device, ref);
  if (chosen.cuda < 0) return chosen;
  if (device.empty() || device == "cuda") {
    if (ranks > 1) chosen.cudas = first_devices(ranks);
    return chosen;
  }
  chosen = *parse_cuda(device);
  if (chosen.ranks() != ranks)
    throw Error("[tp] --device {} names {} device{} for {} rank{}: --tp {}, or as many devices", device, chosen.ranks(),
                chosen.ranks() == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", chosen.ranks());
  std::vector<int> sorted = chosen.cudas;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw Error("[device] {} names device {} twice: cuda:{}/{} makes {} of one", device, *twice, *twice, ranks, ranks);
  for (const int index : chosen.cudas) expect_there(device, index);
  return chosen;
}

}  // namespace ingot
