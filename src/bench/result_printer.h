#pragma once
#include <string>
#include <vector>

#include "bench/bench_case.h"
#include "commands/bench_options.h"
#include "core/json.h"

namespace lockstep::bench {

/// Prints rows as they come, or keeps them for one JSON document. The document of --output is written after each row,
/// so that no measured row is lost; until the end it has "incomplete": true and no summary.
class ResultPrinter {
 public:
  /// `document`: what it says before its rows. `is_printing`: false on all ranks but one, which neither print nor
  /// write. `options` outlive it.
  ResultPrinter(const commands::BenchOptions& options, bool is_printing, std::vector<TableColumn> columns,
                core::Json document);

  /// The head of the table, once.
  void begin(const std::vector<std::string>& preamble);
  /// EnvironmentError where the document cannot be written.
  void add(core::Json row);
  /// Likewise.
  void end(const std::vector<SummaryItem>& summary);
  const std::vector<core::Json>& rows() const { return rows_; }

 private:
  void print(const std::string& line);
  void write(const core::Json& document) const;

  const commands::BenchOptions& options_;
  bool is_printing_;
  std::vector<TableColumn> columns_;
  core::Json document_;
  std::vector<core::Json> rows_;
  std::string last_part_;
  bool has_begun_ = false;
};

}  // namespace lockstep::bench
