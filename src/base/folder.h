// The names in a folder. Not by std::filesystem: its iterators of libstdc++ end the program where memory runs out.
#pragma once

#include <string>
#include <vector>

namespace ingot {

// Those of `folder`, in no order, without "." and ".."; `problem`: errno, and no names, where it cannot be read.
std::vector<std::string> names_in(const std::string& folder, int& problem);

}  // namespace ingot
