#include "core/error_lines.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/print.h"

namespace lockstep {

std::string shown_text(const Error& error) {
  if (dynamic_cast<const HasOwnLines*>(&error) != nullptr) return core::printable(error.text());
  return Error(error.code(), core::printable_line(error.what()), core::printable_line(error.hint())).text();
}

std::string one_line_text(const Error& error) {
  return core::printable_line(error.hint().empty() ? std::string(error.what())
                                                   : fmt::format("{} ({})", error.what(), error.hint()));
}

namespace {
constexpr std::string_view kManyWrong = " things are wrong:";

/// Where the list of several errors begins; npos for a message that is none.
size_t list_in(std::string_view message) {
  const size_t digits = std::min(message.find_first_not_of("0123456789"), message.size());
  const bool is_list = digits > 0 && message.substr(digits, kManyWrong.size()) == kManyWrong;
  return is_list ? digits + kManyWrong.size() : std::string_view::npos;
}

std::string_view without_module(std::string_view message) {
  constexpr std::string_view kModule = "options: ";
  if (message.substr(0, kModule.size()) == kModule) message.remove_prefix(kModule.size());
  return message;
}
}  // namespace

void UsageProblems::raise() const {
  if (errors_.empty()) return;
  if (errors_.size() == 1 && list_in(without_module(errors_.front().what())) == std::string_view::npos)
    throw errors_.front();
  size_t num_wrong = 0;
  std::string text;
  for (const UsageError& error : errors_) {
    const std::string_view what = without_module(error.what());
    if (const size_t head = list_in(what); head != std::string_view::npos) {  // a list that another check made
      num_wrong += static_cast<size_t>(std::atoll(what.data()));
      text += what.substr(head);
      continue;
    }
    ++num_wrong;
    text += fmt::format("\n  {}{}{}", core::printable_line(what),
                        error.hint().empty() ? "" : "\n    hint: ", core::printable_line(error.hint()));
  }
  throw ErrorOfLines<UsageError>(fmt::format("options: {}{}{}", num_wrong, kManyWrong, text));
}

}  // namespace lockstep
