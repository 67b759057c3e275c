// Looking at directories, with Error instead of the standard library's exceptions.
#pragma once

#include <string>
#include <vector>

namespace ingot {

bool is_directory(const std::string& path);  // false also where it cannot be looked at
bool exists(const std::string& path);

// The paths of the regular files in `directory` (links to them too), sorted. Throws Error "[file] …".
std::vector<std::string> list_files(const std::string& directory);

}  // namespace ingot
