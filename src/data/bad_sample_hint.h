#pragma once
#include <string>
#include <string_view>

namespace lockstep::data {

/// How hints about samples end that training can do without.
inline constexpr std::string_view kOrLeaveOut = "or leave such samples out with --on-bad-sample skip";

/// `hint` and that end: "get the file again, or leave such samples out with --on-bad-sample skip".
inline std::string or_leave_out(std::string_view hint) { return std::string(hint) + ", " + std::string(kOrLeaveOut); }

/// The same hint where nothing of the data may be left out, as in the evaluation of a run.
inline std::string hint_of_whole_data(std::string hint) {
  constexpr std::string_view kOrRemove =
      "or remove it from the data, of which no sample can be skipped here (`lockstep data verify` lists all)";
  if (hint.empty()) return "get the file again, " + std::string(kOrRemove);
  const size_t at = hint.find(kOrLeaveOut);
  return at == std::string::npos ? hint : hint.replace(at, kOrLeaveOut.size(), kOrRemove);
}

}  // namespace lockstep::data
