#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/csv_table.h"

namespace lockstep::published {

/// A table of results with the columns that formulas know under their names and in their units.
struct ResultTable {
  core::CsvTable table{};
  std::vector<std::string> given{};  ///< By column: its name as it was written.
  std::vector<std::string> notes{};  ///< What was read as what and what was left out, in sentences.
};

/// Reads a table that somebody wrote by hand. Rows without a size, batch, rate or step time are left out with a note;
/// an empty cell is "", "-", "n/a", "failed" and the like. DataError with line, column as written and value where no
/// row is left, for a word or a number with a comma, and for two units in one column or two columns of one meaning.
ResultTable read_result_table(const std::filesystem::path& path);

/// Is this what people write for a value that does not exist: "", "-", "n/a", "failed", "OOM"?
bool is_absent(const std::string& text);

/// Digits behind the decimal point of a number as it is printed; below 0 where an exponent says so: -2 of "1.04e4".
int num_decimals(const std::string& text);

/// Does a column tell the devices of one node: "gpus_per_node", "GPU num per node"?
bool tells_devices_of_node(const std::string& column);
/// Is this a column of step times that names no unit: "step time", "time per iteration"? Not "time" or "step" alone.
bool is_step_time_without_unit(const std::string& column);

}  // namespace lockstep::published
