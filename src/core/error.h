#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

/// Exit codes of both programs. srun reports the highest code of all ranks, so causes (4, 5, 6) rank above their
/// consequence (3).
enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kCommunication = 3,
  kData = 4,
  kCheckpoint = 5,
  kEnvironment = 6,
  kRequeue = 75,  // stopped on request; run again with --resume latest
};

namespace core {
/// With NUL bytes as \u0000: exceptions hand out their message as a C string, which would end there.
std::string without_nul(const std::string& message);
}  // namespace core

/// An error that ends the command: what happened (module, value seen, value expected), what to do about it, and the
/// exit code. Only the two mains print errors and exit.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message, std::string hint = "")
      : std::runtime_error(core::without_nul(message)), code_(code), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }
  /// Message, and under it the hint, as the mains print them.
  std::string text() const { return hint_.empty() ? what() : fmt::format("{}\n  hint: {}", what(), hint_); }

 private:
  ExitCode code_;
  std::string hint_;
};

class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message, std::string hint = "")
      : Error(ExitCode::kUsage, message, std::move(hint)) {}
};
/// Usage errors of checks that do not depend on each other, so that users hear of all of them at once.
class UsageProblems {
 public:
  /// Runs a check; a UsageError that it throws is kept.
  template <typename Check> void collect(Check&& check) {
    try {
      check();
    } catch (const UsageError& error) {
      errors_.push_back(error);
    }
  }
  /// Throws what was kept, if anything: one error as it is, several as one that lists them with their hints.
  void raise() const;

 private:
  std::vector<UsageError> errors_;
};
class CommError : public Error {
 public:
  explicit CommError(const std::string& message, std::string hint = "")
      : Error(ExitCode::kCommunication, message, std::move(hint)) {}
};
class DataError : public Error {
 public:
  explicit DataError(const std::string& message, std::string hint = "")
      : Error(ExitCode::kData, message, std::move(hint)) {}
};
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message, std::string hint = "")
      : Error(ExitCode::kCheckpoint, message, std::move(hint)) {}
};
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(const std::string& message, std::string hint = "")
      : Error(ExitCode::kEnvironment, message, std::move(hint)) {}
};

/// Throws the subclass that belongs to the code (Error itself where there is none).
[[noreturn]] void throw_error(ExitCode code, const std::string& message, const std::string& hint);

namespace core {
/// Throws Error(kInternal) that names the file, the line and the broken invariant.
[[noreturn]] void throw_check_failure(const char* file, int line, const char* condition, const std::string& details);
}  // namespace core
}  // namespace lockstep

/// For invariants only, never for user input: LOCKSTEP_CHECK(n > 0, "n={}", n).
#define LOCKSTEP_CHECK(condition, ...)                                                                              \
  do {                                                                                                              \
    if (!(condition)) [[unlikely]]                                                                                  \
      ::lockstep::core::throw_check_failure(__FILE__, __LINE__, #condition, std::string(fmt::format(__VA_ARGS__))); \
  } while (false)
