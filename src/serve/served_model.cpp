#include "serve/served_model.h"

#include <algorithm>

namespace ingot {

bool ServedModel::answers_to(std::string_view asked) const {
  return asked.empty() || asked == name || std::ranges::find(aliases, asked) != aliases.end();
}

}  // namespace ingot
