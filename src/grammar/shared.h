// What the matchers of one grammar share: see compile.h.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "grammar/account.h"
#include "grammar/compile.h"
#include "grammar/lexer.h"
#include "grammar/mask_cache.h"
#include "grammar/rows.h"

namespace ingot::grammar {

struct Compiled::Shared {
  Lexer lexer;
  MaskCache masks;
  std::mutex counting;  // of what follows
  Counted counted;

  Shared(const Grammar& grammar, const Vocabulary& vocabulary, std::shared_ptr<MaskStore> own,
         std::shared_ptr<MemoryAccount> account, const Limits& limits)
      : lexer(grammar, limits), masks(vocabulary, lexer, std::move(own), limits), counted(std::move(account)) {}
};

}  // namespace ingot::grammar
