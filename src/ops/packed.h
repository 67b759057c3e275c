// The packed weights of a model: of each layout there is one store, which all programs on the CPU share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "matmul/cpu/packed_store.h"

namespace ingot {

// Not for several threads at once: the programs of a model are made one after another. Pages lie in the memory nodes of
// the first one's threads.
class PackedLayouts {
 public:
  // Of weights in panels but for those of up to `short_cols` columns (kShortCols); made when it is first asked for.
  const std::shared_ptr<PackedStore>& of(int64_t short_cols) {
    std::shared_ptr<PackedStore>& store = stores_[short_cols];
    if (store == nullptr) store = std::make_shared<PackedStore>(short_cols);
    return store;
  }

 private:
  std::map<int64_t, std::shared_ptr<PackedStore>> stores_;
};

}  // namespace ingot
