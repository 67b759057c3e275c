// What the key file says of one tenant: its share, its limits, and what it may use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct TenantRights {
  double weight = 1;                     // of its share of rows, places and pages beside the other tenants'
  int64_t tokens_per_minute = 0;         // of prompts and answers, and of what is only tokenized; 0: no limit
  int64_t requests_per_minute = 0;       // to routes that compute; 0: no limit
  int concurrency = 0;                   // such requests at once; 0: no limit
  int context = 0;                       // positions of a prompt with its answer; 0: the model's
  int priority = 100;                    // the highest that its requests may have
  std::vector<std::string> models = {};  // empty: any
  std::vector<std::string> routes = {};  // as the table of routes has them, or "/v1/*"; empty: any
  bool admin = false;                    // sees the usage of every tenant

  bool operator==(const TenantRights&) const = default;
  // Whether the route of this name ("/v1/models/*" is one) is among `routes`.
  bool may_call(std::string_view route) const;
};

// Whether a route of the key file, which may end in "/*", means this route.
bool route_means(std::string_view pattern, std::string_view route);

}  // namespace ingot
