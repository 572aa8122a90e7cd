#include "core/error.h"

#include <cstdlib>
#include <string_view>

namespace lockstep {

void throw_error(ExitCode code, const std::string& message, const std::string& hint) {
  switch (code) {
    case ExitCode::kUsage: throw UsageError(message, hint);
    case ExitCode::kCommunication: throw CommError(message, hint);
    case ExitCode::kData: throw DataError(message, hint);
    case ExitCode::kCheckpoint: throw CheckpointError(message, hint);
    case ExitCode::kEnvironment: throw EnvironmentError(message, hint);
    default: throw Error(code, message, hint);
  }
}

namespace {
constexpr std::string_view kManyWrong = " things are wrong:";
}  // namespace

void UsageProblems::raise() const {
  if (errors_.empty()) return;
  if (errors_.size() == 1) throw errors_.front();
  size_t num_wrong = 0;
  std::string text;
  for (const UsageError& error : errors_) {
    std::string_view what = error.what();
    if (constexpr std::string_view kModule = "options: "; what.substr(0, kModule.size()) == kModule)
      what.remove_prefix(kModule.size());
    if (const size_t head = what.find(kManyWrong); head != std::string_view::npos) {  // a list that another check made
      num_wrong += static_cast<size_t>(std::atoll(what.data()));
      text += what.substr(head + kManyWrong.size());
      continue;
    }
    ++num_wrong;
    text += fmt::format("\n  {}{}{}", what, error.hint().empty() ? "" : "\n    hint: ", error.hint());
  }
  throw UsageError(fmt::format("options: {}{}{}", num_wrong, kManyWrong, text));
}

namespace core {

void throw_check_failure(const char* file, int line, const char* condition, const std::string& details) {
  std::string_view path(file);
  if (const auto at = path.rfind("/src/"); at != std::string_view::npos) path.remove_prefix(at + 1);
  throw Error(ExitCode::kInternal,
              fmt::format("internal: {}:{}: broken invariant ({}): {}", path, line, condition, details),
              "this is a bug in lockstep; please report it with the command line");
}

}  // namespace core
}  // namespace lockstep
