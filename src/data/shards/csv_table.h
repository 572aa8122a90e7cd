#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// A CSV or TSV file that lists samples: a header line and rows of equally many fields.
struct SampleTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> lines;  ///< By row: the line of the file that it begins in, the first is 1.
  /// Index of a column; DataError that lists the columns.
  size_t column(std::string_view name, std::string_view file) const;
};

/// Reads text the way pandas.read_csv does by default: a field that starts with a quote runs to the closing one
/// (doubled quotes stand for one, line ends may be inside), lines end with LF, CR LF or CR, empty lines are left out,
/// missing fields at the end of a row are empty, a byte-order mark is passed over. Rows with too many fields, and a
/// quote that is never closed, throw DataError with the line. Only the columns in `keep` are stored (all if empty), in
/// the order of the file.
SampleTable parse_csv(std::string_view text, char separator, const std::vector<std::string>& keep,
                      std::string_view file);

/// "," or "\t" (also spelled with a backslash) as a character; UsageError for anything longer.
char parse_separator(std::string_view text);

}  // namespace lockstep::data
