#pragma once
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "logs/builder.h"
#include "logs/line.h"
#include "logs/option_dialect.h"

namespace lockstep::logs {

/// What became of a line: kOther is text that is no measurement at all; kRejected looks like one and cannot be read.
enum class LineUse { kOther, kUsed, kRejected };

/// Reads the lines of one program's log into a builder.
class LogParser {
 public:
  explicit LogParser(LogBuilder& builder) : builder_(builder) {}
  LogParser(const LogParser&) = delete;
  LogParser& operator=(const LogParser&) = delete;
  virtual ~LogParser() = default;
  virtual LineUse read(const LogLine& line) = 0;
  /// After the last line, before the builder's finish().
  virtual void finish() {}

 protected:
  /// Adds a row; a row that makes no sense rejects its line.
  LineUse add(const LogLine& line, const LogRow& row) {
    return builder_.add(line, row) ? LineUse::kUsed : LineUse::kRejected;
  }
  /// Of a line that the program prints when it starts: what was read before belongs to another start.
  void note_start(const LogLine& line) {
    if (!builder_.is_restart(line)) return;
    close_start();
    builder_.begin_start();
  }
  /// Completes the setup of a start, and forgets what was read of it.
  virtual void close_start() {}
  record::RunSetup& setup() { return builder_.setup(); }
  std::optional<int64_t> known(std::optional<int64_t> record::RunSetup::*count) const { return builder_.known(count); }
  std::optional<int64_t> known_batch() const { return known(&record::RunSetup::global_batch); }
  LogBuilder& builder_;
};

/// How a program prints a measurement, as far as it is needed to see that ranks wrote into each other's lines. Without
/// keys that is not looked for.
struct LineShape {
  std::string_view begin{};  ///< Where a measurement begins; empty: a line of several cannot be taken apart.
  std::vector<std::string_view> keys{};  ///< Texts that each line has exactly once, in order.
  std::string_view end{};                ///< Closes the value of the last key.
};

/// A format: whether a (cleaned) line is surely its own, its shape, and its parser. One file of this folder each.
struct LogReader {
  bool (*is_own_line)(std::string_view line) = nullptr;
  LineShape shape{};
  bool (*is_torn)(std::string_view line) = nullptr;  ///< Is it a measurement that another writer cut: a number does not
                                                     ///< end as the program ends it, or the line's end is missing?
  std::unique_ptr<LogParser> (*make)(LogBuilder& builder) = nullptr;
  OptionDialect dialect{};  ///< Where its logs hold options.
};

/// Takes a count from an option dump where the user gave none: nothing when the text is no whole number above 0.
std::optional<int64_t> positive_count(std::string_view text);

}  // namespace lockstep::logs
