// Arguments of a call one by one between marks, as Qwen-Coder, GLM, MiniMax and DeepSeek write them: text stands bare,
// anything else as JSON.
#pragma once

#include "grammar/call_form.h"
#include "grammar/calls/marks.h"
#include "grammar/schema/notation.h"

namespace ingot::grammar {

class ParameterMembers : public Members {
 public:
  ParameterMembers(GrammarBuilder& builder, Marks& marks, const CallForm& form);

  Symbol open() override { return builder_.empty(); }
  Symbol close() override { return builder_.empty(); }
  Symbol key(bool later, std::string_view name) override;
  Symbol keys(bool later, Expr names, bool all) override;
  // Where nothing but the schema tells text from JSON, a text may not be one that would be read as another value of the
  // schema. REQUIRES: the emitter writes JSON.
  Symbol value(SchemaEmitter& emitter, SetId set) override;
  Symbol text_value(const std::function<Symbol()>& make) override;

 private:
  Symbol bare(Expr text, bool free);
  Symbol json(Symbol value);
  Symbol attribute(std::string_view names);
  Expr readable_as_json(const Values& values);

  GrammarBuilder& builder_;
  Regexes& pool_;
  Marks& marks_;
  const CallForm& form_;
  const std::string_view key_end_, value_end_;  // without the white space around
  const Expr free_;                             // all texts that may stand bare
};

}  // namespace ingot::grammar
