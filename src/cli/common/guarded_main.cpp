#include "cli/common/guarded_main.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <new>

#include "core/bus_error.h"
#include "core/clock.h"
#include "core/env.h"
#include "core/error.h"
#include "core/error_lines.h"
#include "core/json.h"
#include "core/print.h"
#include "core/strings.h"
#include "core/system_failure.h"

namespace lockstep::cli {
namespace {
/// For the launcher, in torchrun's form. A failure is of no interest: the message is on standard error too.
void leave_error_file(const std::string& text) {
  const auto path = core::env("TORCHELASTIC_ERROR_FILE");
  if (!path) return;
  const auto now_s = static_cast<int64_t>(core::unix_seconds());
  const core::Json json = {{"message", {{"message", text}, {"extraInfo", {{"timestamp", std::to_string(now_s)}}}}}};
  std::ofstream(*path) << json.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

/// A text that steers no terminal, in one write, so that messages of ranks that share a terminal do not mix.
void print_error(const std::string& text) {
  leave_error_file(text);
  const std::string line = fmt::format("lockstep: error: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}
}  // namespace

int guarded_main(const std::function<int()>& body) {
  core::report_bus_errors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is then an error of its write, which is reported
  try {
    const int code = body();
    if (std::fflush(stdout) != 0)
      throw EnvironmentError("cli: standard output cannot be written",
                             "is the disk full, or the reader of a pipe gone?");
    return code;
  } catch (const Error& error) {
    print_error(shown_text(error));
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    print_error("cli: out of memory");
  } catch (const std::exception& error) {
    if (const auto failure = core::system_failure_of(error)) {
      print_error(shown_text(*failure));
      return static_cast<int>(failure->code());
    }
    print_error(core::replace_all(core::printable(error.what()), "\n", "\n  | "));  // with the frames of LibTorch's
  }
  return static_cast<int>(ExitCode::kInternal);
}

}  // namespace lockstep::cli
