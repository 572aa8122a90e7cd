#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"

namespace lockstep::data {

/// A file of one JSON object per line, memory-mapped.
class JsonLines {
 public:
  explicit JsonLines(const std::filesystem::path& path);

  struct Line {
    std::string_view text;
    int64_t number = 0;  ///< From 1 on.
  };
  /// The next lines, about `bytes` of them and at least one; none at the end. Blank lines are left out.
  std::vector<Line> next(size_t bytes);
  const std::filesystem::path& path() const { return path_; }
  size_t size() const { return file_.bytes().size(); }

 private:
  std::filesystem::path path_;
  core::MappedFile file_;
  size_t at_ = 0;
  int64_t num_lines_ = 0;
};

/// Reads one field of JSON lines: a text, or a list of texts. One object per thread.
class JsonFieldReader {
 public:
  JsonFieldReader();
  ~JsonFieldReader();
  /// The texts of `key`, valid until the next call. What is no JSON object, lacks the key, has it twice or holds
  /// something else there throws DataError with file:line.
  const std::vector<std::string_view>& read(const JsonLines::Line& line, const std::filesystem::path& path,
                                            std::string_view key);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
