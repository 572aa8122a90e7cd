#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/run_data.h"

namespace lockstep::logs {

/// The lists of options that a program prints, one for each of its starts.
class OptionDumps {
 public:
  /// A list begins: what follows belongs to another start.
  void begin();
  /// An option of the list; behind the first measurement of a start nothing is one.
  void add(std::string_view name, std::string_view value);
  /// A measurement of the latest start was read.
  void count_line() { ++(dumps_.empty() ? dumps_.emplace_back() : dumps_.back()).num_lines; }
  /// The list of the start with the most measurements; empty when it printed none.
  std::map<std::string, std::string> measured() const;

 private:
  struct Dump {
    std::map<std::string, std::string> options{};
    int64_t num_lines = 0;
  };
  std::vector<Dump> dumps_{};
};

/// A line of such a list.
struct DumpedOption {
  std::string_view name{}, value{};
};
/// "grad_checkpointing: False"; nothing where the name is no name of an option.
std::optional<DumpedOption> read_colon_option(std::string_view line);
/// "  seq_length ............. 4096"
std::optional<DumpedOption> read_dotted_option(std::string_view line);

}  // namespace lockstep::logs
