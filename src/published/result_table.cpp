#include "published/result_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/strings.h"

namespace lockstep::published {

void ResultTable::note_doubt(std::string text) {
  doubts.push_back(text);
  notes.push_back(std::move(text));
}

bool is_absent(const std::string& text) {
  constexpr std::array<std::string_view, 17> kWords = {"",       "-",   "--",    "---",     "?",      "x",
                                                       "n/a",    "na",  "nan",   "none",    "null",   "fail",
                                                       "failed", "oom", "error", "timeout", "missing"};
  const std::string lower = core::to_lower_ascii(text);
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

}  // namespace lockstep::published
