// Landlock: which files the calling thread, and every thread that it starts, may write.
#pragma once

#include <string>
#include <vector>

namespace ingot {

// From now on files are created and opened for writing beneath `folders` alone; those that are not there are passed
// over. Empty: done. Else why not. REQUIRES: no_new_privs.
std::string write_only_beneath(const std::vector<std::string>& folders);

}  // namespace ingot
