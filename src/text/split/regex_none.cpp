// Built where there is no PCRE2; regex_pcre2.cpp otherwise.
#include "base/error.h"
#include "base/utf8.h"
#include "text/split/matcher.h"

namespace ingot {

std::shared_ptr<const Matcher> compile_regex(std::string_view pattern) {
  throw Error("[tokenizer] the pattern {} needs PCRE2, which this build has not", utf8_printable(pattern, 400));
}

bool has_regex() { return false; }

}  // namespace ingot
