#include "core/toml.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

namespace lockstep::core {
namespace {
constexpr int kMaxParts = 64, kMaxDepth = 64;

/// Walks over a text up to the first dot or bracket too many. What stands in strings and comments does not count. On a
/// damaged text it may lose its way only behind the place where the parser stops.
class TomlScan {
 public:
  TomlScan(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  void run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        count(c), ++at_;
    }
  }

 private:
  void count(char c) {
    if (c == '.') {
      if (++num_dots_ >= kMaxParts) refuse("a key has more than 64 parts");
      return;
    }
    const bool goes_on =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == ' ' || c == '\t';
    if (!goes_on) num_dots_ = 0;
    if (c == '[' || c == '{')
      if (++depth_ > kMaxDepth) refuse("values are nested deeper than 64 levels");
    if (c == ']' || c == '}') depth_ = std::max(0, depth_ - 1);
  }

  /// A string of one line ends with its line at the latest.
  void skip_string(char quote) {
    const std::string whole(3, quote);
    const bool is_long = text_.substr(at_, 3) == whole;
    at_ += is_long ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\' && quote == '"') {
        ++at_;
      } else if (!is_long && (c == quote || c == '\n')) {
        ++at_;
        return;
      } else if (is_long && text_.substr(at_, 3) == whole) {
        at_ += 3;
        while (at_ < text_.size() && text_[at_] == quote) ++at_;  // up to two more belong to the string
        return;
      }
    }
    at_ = std::min(at_, text_.size());
  }

  [[noreturn]] void refuse(const char* what) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = static_cast<toml::source_index>(1 + std::count(before.begin(), before.end(), '\n'));
    const size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
    throw toml::parse_error(what, toml::source_position{line, static_cast<toml::source_index>(at_ - begin + 1)},
                            std::make_shared<const std::string>(path_));
  }

  std::string_view text_, path_;
  size_t at_ = 0;
  int num_dots_ = 0, depth_ = 0;
};
}  // namespace

toml::table parse_toml(std::string_view text, std::string_view path) {
  TomlScan(text, path).run();
  return toml::parse(text, path);
}

}  // namespace lockstep::core
