#pragma once
#include <string>
#include <vector>

#include "core/csv_table.h"

namespace lockstep::published {

/// A table of results with the columns that formulas know under their names and in their units. A batch of a device
/// beside accumulation steps and no global batch is that of one pass: "micro_batch", and "local_batch" is their
/// product.
struct ResultTable {
  core::CsvTable table{};
  std::vector<std::string> given{};   ///< By column: its name as it was written.
  double solution_unit_s = 0;         ///< Seconds of one unit of "time_to_solution"; 0: it names none.
  std::vector<std::string> notes{};   ///< What was read as what and what was left out, in sentences.
  std::vector<std::string> doubts{};  ///< Those of them that say how something was read that may mean something else.

  void note_doubt(std::string text);
};

/// Is this what people write for a value that does not exist: "", "-", "n/a", "failed", "OOM"?
bool is_absent(const std::string& text);

}  // namespace lockstep::published
