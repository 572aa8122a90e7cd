#include "hw/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/characters.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::hw {
namespace {

using core::is_digit;

constexpr size_t kMaxDigits = 18;      // fits int64_t
constexpr size_t kMaxNameBytes = 255;  // times the hosts is what a list may take of memory

[[noreturn]] void fail(std::string_view text, size_t position, std::string_view reason) {
  constexpr size_t kShown = 120;
  throw EnvironmentError(
      fmt::format("hw: cannot read the host list '{}{}': {} at character {}", text.substr(0, kShown),
                  text.size() > kShown ? "..." : "", reason, position + 1),
      "expected names like node[01-04,7],gpu1; `scontrol show hostnames LIST` shows what SLURM makes of it");
}

/// Reads host list text from left to right.
class HostlistReader {
 public:
  HostlistReader(std::string_view text, size_t max_hosts) : text_(text), max_hosts_(max_hosts) {}

  std::vector<std::string> read() {
    if (text_.empty()) fail(text_, 0, "empty list");
    std::vector<std::string> hosts;
    while (true) {
      const std::vector<std::string> names = read_item();
      check_count(hosts.size() + names.size());
      hosts.insert(hosts.end(), names.begin(), names.end());
      if (at_ == text_.size()) return hosts;
      ++at_;  // the comma
    }
  }

 private:
  void check_count(size_t count) const {
    if (count > max_hosts_) fail(text_, at_, fmt::format("more than {} hosts", max_hosts_));
  }

  void check_lengths(const std::vector<std::string>& names, size_t num_more) const {
    for (const std::string& name : names)
      if (num_more > kMaxNameBytes || name.size() > kMaxNameBytes - num_more)
        fail(text_, at_, fmt::format("name of more than {} characters", kMaxNameBytes));
  }

  /// One name with its brackets, up to a comma outside of brackets or the end.
  std::vector<std::string> read_item() {
    std::vector<std::string> names{""};
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      if (text_[at_] == ']') fail(text_, at_, "']' without '['");
      if (text_[at_] == '[') {
        names = append_each(names, read_bracket());
        continue;
      }
      if (static_cast<unsigned char>(text_[at_]) <= ' ' || text_[at_] == 0x7f)
        fail(text_, at_, "white space or control character");
      const size_t end = std::min(text_.find_first_of("[],", at_), text_.size());
      const size_t blank = std::find_if(text_.begin() + at_, text_.begin() + end,
                                        [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; }) -
                           text_.begin();
      const std::string_view literal = text_.substr(at_, blank - at_);
      check_lengths(names, literal.size());
      for (std::string& name : names) name += literal;
      at_ = blank;
    }
    if (at_ == start) fail(text_, at_, "empty name");
    return names;
  }

  std::vector<std::string> append_each(const std::vector<std::string>& names,
                                       const std::vector<std::string>& endings) const {
    check_count(names.size() * endings.size());  // both at most max_hosts_
    size_t longest = 0;
    for (const std::string& ending : endings) longest = std::max(longest, ending.size());
    check_lengths(names, longest);
    std::vector<std::string> product;
    product.reserve(names.size() * endings.size());
    for (const std::string& name : names) {
      for (const std::string& ending : endings) product.push_back(name + ending);
    }
    return product;
  }

  std::vector<std::string> read_bracket() {
    ++at_;
    std::vector<std::string> numbers;
    while (true) {
      read_range(numbers);
      if (at_ == text_.size()) fail(text_, at_, "']' missing");
      const char next = text_[at_++];
      if (next == ']') return numbers;
      if (next != ',') fail(text_, at_ - 1, "expected ',', '-' or ']' in a bracket");
    }
  }

  void read_range(std::vector<std::string>& numbers) {
    const size_t start = at_;
    const std::string_view low_text = read_digits();
    const int64_t low = *core::parse_int(low_text);
    int64_t high = low;
    if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
      high = *core::parse_int(read_digits());
    }
    if (high < low) fail(text_, start, "descending range");
    if (static_cast<uint64_t>(high - low) >= max_hosts_)
      fail(text_, start, fmt::format("more than {} hosts", max_hosts_));
    check_count(numbers.size() + static_cast<size_t>(high - low) + 1);
    for (int64_t number = low; number <= high; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, low_text.size()));
  }

  std::string_view read_digits() {
    const size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == start) fail(text_, at_, "expected a number in a bracket");
    if (at_ - start > kMaxDigits) fail(text_, start, fmt::format("number longer than {} digits", kMaxDigits));
    return text_.substr(start, at_ - start);
  }

  std::string_view text_;
  size_t max_hosts_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, size_t max_hosts) {
  return HostlistReader(text, max_hosts).read();
}

std::vector<int> parse_task_counts(std::string_view text, size_t max_nodes) {
  const auto fail_counts = [&](const std::string& part) {
    throw EnvironmentError(fmt::format("hw: cannot read the task counts '{}': '{}' is not of the form N or N(xM)",
                                       text.substr(0, 120), part.substr(0, 120)),
                           "SLURM writes tasks per node as 2(x3),1");
  };
  std::vector<int> counts;
  for (const std::string& part : core::split(text, ",")) {
    const size_t open = part.find("(x");
    const bool repeats = open != std::string::npos;
    if (repeats && !core::ends_with(part, ")")) fail_counts(part);
    const auto tasks = core::parse_int(std::string_view(part).substr(0, open));
    const auto nodes = repeats ? core::parse_int(std::string_view(part).substr(open + 2, part.size() - open - 3))
                               : std::optional<int64_t>(1);
    if (!tasks || !nodes || *tasks < 0 || *tasks > 1'000'000 || *nodes < 1) fail_counts(part);
    if (static_cast<uint64_t>(*nodes) > max_nodes - counts.size())
      throw EnvironmentError(
          fmt::format("hw: the task counts '{}' name more than {} nodes", text.substr(0, 120), max_nodes));
    counts.insert(counts.end(), static_cast<size_t>(*nodes), static_cast<int>(*tasks));
  }
  return counts;
}

}  // namespace lockstep::hw
