// The files of docs/learn, read and written.
#include <filesystem>
#include <set>

#include "cli/report/learn_pages.h"
#include "files/atomic_file.h"

namespace ingot {

namespace fs = std::filesystem;

LearnFiles read_learn_files(const std::string& folder) {
  if (!fs::is_directory(folder)) throw Error("[report] there is no folder '{}'", folder);
  LearnFiles files;
  for (const auto& [below, ending] : {std::pair{"", ".md"}, std::pair{"figures", ".svg"}}) {
    const fs::path from = fs::path(folder) / below;
    if (!fs::is_directory(from)) continue;
    for (const auto& file : fs::directory_iterator(from)) {
      if (file.path().extension() != ending) continue;
      files[(fs::path(below) / file.path().filename()).string()] = read_text_file(file.path().string());
    }
  }
  return files;
}

void save_learn_files(const std::string& folder, const LearnFiles& files) {
  const LearnFiles there = read_learn_files(folder);
  fs::create_directories(fs::path(folder) / "figures");
  for (const auto& [name, text] : files) {
    if (there.contains(name) && there.at(name) == text) continue;
    AtomicFile file((fs::path(folder) / name).string());
    file.write(text);
    file.commit();
  }
  for (const auto& [name, text] : there) {
    if (name.starts_with("figures/") && !files.contains(name)) fs::remove(fs::path(folder) / name);
  }
}

}  // namespace ingot
