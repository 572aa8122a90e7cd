#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::bench {

struct TableColumn {
  std::string key;        ///< Of the row; also the title in CSV.
  std::string title;      ///< First header line.
  std::string unit = {};  ///< Second header line, in brackets.
  int width = 8;
  int decimals = 2;         ///< Of numbers that are no integers.
  std::string group = {};   ///< Headline over neighbouring columns of the same group.
  bool is_in_table = true;  ///< false: in CSV and JSON only, so that the table fits a terminal of 80 columns.
};

/// "# ..." lines with groups (where there are any), titles and units over right-aligned columns.
std::vector<std::string> table_header(std::span<const TableColumn> columns);
/// One line; what the row lacks is "N/A".
std::string table_line(std::span<const TableColumn> columns, const core::Json& row);
/// Comma-separated forms; what the row lacks is empty. Texts with commas, quotes or line ends are quoted.
std::string csv_header(std::span<const TableColumn> columns);
std::string csv_line(std::span<const TableColumn> columns, const core::Json& row);

}  // namespace lockstep::bench
