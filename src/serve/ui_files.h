// The web page's files, inside the binary: cmake/embed.cmake writes them from src/serve/ui.
#pragma once

#include <span>
#include <string_view>

namespace ingot {

struct UiFile {
  std::string_view name;  // "index.html"
  std::string_view bytes;
};

std::span<const UiFile> ui_files();

}  // namespace ingot
