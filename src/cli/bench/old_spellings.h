// How `ingot bench` was spelled in the release before: understood for one release more.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ingot {

// `bench --trace FILE` becomes `bench trace FILE`, and `bench OPTIONS ops` becomes `bench ops OPTIONS`, each with a
// line on stderr. All else stays as it is.
void modernize_bench(const CLI::App& app, std::vector<std::string>& args);

}  // namespace ingot
