#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "record/table.h"

namespace lockstep::report {

/// The name under which formulas know a column: "n_nodes" and "Number of nodes" -> "nodes", "throughput (tokens/s)" -> "tokens_per_s". A name that
/// stands for nothing known is kept.
std::string known_column(const std::string& header);

/// A table of results with the columns that formulas know under their names and in their units.
struct ResultTable {
  record::Table table{};
  std::vector<std::string> notes{};  ///< What was read as what, in sentences.
};

/// Reads a table that somebody wrote by hand. DataError with line, column and value for a number with a comma, and for two units in one column or two columns
/// of one meaning.
ResultTable read_result_table(const std::filesystem::path& path);

}  // namespace lockstep::report
