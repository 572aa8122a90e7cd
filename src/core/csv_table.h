#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::core {

/// A small CSV table of points with its comments: lines that begin with '#'.
struct CsvTable {
  std::filesystem::path source{};
  std::vector<std::string> comments{};  ///< Without the '#'.
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};  ///< As many fields as columns.
  std::vector<size_t> lines{};                   ///< Line of each row, from 1.
  char separator = ',';                          ///< Of its fields.
  bool is_header_comment = false;                ///< A '#' stood before the first column's name.

  /// Number of a column, or nothing.
  std::optional<size_t> find(std::string_view column) const;
  /// Number of a column; DataError that lists the columns.
  size_t column(std::string_view column) const;
  const std::string& text(size_t row, std::string_view column) const;
  /// DataError names file, line and column when the field is no finite number.
  double number(size_t row, std::string_view column) const;
  std::vector<double> numbers(std::string_view column) const;
};

/// Reads a CSV file, its fields parted by the sign that parts its header: fields in quotes may hold that sign and
/// doubled quotes; empty lines and rows of empty fields are passed over. The header may be a comment right above the
/// first row of numbers ("#Nodes,#GPUs"), and lines of one text above it are comments. Tables of Markdown are read,
/// too. DataError with the line for a row of another length than the header, a quote that is not closed, two columns of
/// one name, or a file without a header.
CsvTable read_table(const std::filesystem::path& path);
/// The names of a table's columns; nothing for a file without any.
std::optional<std::vector<std::string>> read_table_header(const std::filesystem::path& path);

/// A name in lower case, with one '_' for whatever is neither letter nor digit: "Step time (ms)" -> "step_time_ms".
std::string plain_name(std::string_view header);
/// The unit at the end of a plain name: stem "step_time" and 3 decimals more than seconds have; nothing without one.
struct TimeUnit {
  std::string_view stem;  ///< Of the name that was asked about.
  int decimals = 0;
};
std::optional<TimeUnit> find_time_unit(std::string_view plain_name);

/// The sign that parts the fields of a header: ',', ';' or a tab, whichever occurs most (the first of equal ones); '|'
/// of one that begins with it.
char separator_of(std::string_view header);
/// Is this a number with a comma that may be a decimal or a thousands separator ("0,5", "1,234")? Not "1,234.5" nor
/// "1,234,567".
bool has_ambiguous_comma(std::string_view field);
/// Can commas part the thousands of this number: "1,234", "12,345.6"? Not of "0,512" nor "1,65".
bool may_part_thousands(std::string_view field);
/// What to do about a comma that is not read.
inline constexpr const char* kCommaHint =
    "write a decimal point (1.65); commas may only part thousands (\"1,650\" in quotes, where commas part the fields)";

/// A text as a field of a CSV file: quoted where a program that parts fields at ',', ';' or a tab needs it. A
/// spreadsheet would compute what begins with '=', '+', '-' or '@': such a text gets a "'" in front, but for numbers
/// with or without a unit ("-0.5 ms").
std::string csv_field(std::string_view text);

/// Fields of one CSV line; nothing when a quote is not closed. White space around fields is taken off.
std::optional<std::vector<std::string>> split_csv_line(std::string_view line, char separator = ',');

}  // namespace lockstep::core
