#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/files.h"

namespace lockstep::core {

/// Reads the lines of a file of any size in bounded memory.
class LineReader {
 public:
  static constexpr size_t kPadding = 64;  ///< Bytes behind a line that may be read (not used): simdjson wants them.
  static constexpr size_t kMaxLine = 16u << 20;  ///< A longer line comes in pieces: no log has one, garbage may.

  /// EnvironmentError when the file cannot be opened. `ends_at_return`: a carriage return ends a line too (progress
  /// bars).
  explicit LineReader(const std::filesystem::path& path, bool ends_at_return = false);

  /// The next line without its end; valid until the next call. False at the end of the file.
  bool next(std::string_view& line);
  /// Number of the line handed out last, from 1, as an editor counts: pieces between carriage returns belong to one
  /// line.
  int64_t line_number() const { return line_number_; }
  /// The line handed out last had no end: its writer died or still writes.
  bool is_cut() const { return is_cut_; }

 private:
  bool fill();
  size_t find_end(size_t from) const;

  std::filesystem::path path_;
  core::Fd file_;
  bool ends_at_return_ = false, is_at_end_ = false, is_cut_ = false;
  size_t block_;  // by which the buffer grows
  std::string buffer_{};
  size_t begin_ = 0, end_ = 0;  // bytes of the buffer that are not handed out yet
  int64_t line_number_ = 0;
  bool is_line_new_ = true;  // what comes next begins a line of its own
};

}  // namespace lockstep::core
