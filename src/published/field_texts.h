#pragma once
#include <cstddef>
#include <string>

#include "published/result_table.h"

namespace lockstep::published {

/// Is this the known name of a column of sizes: nodes, GPUs, devices or cores?
bool counts_places(const std::string& known);
/// Where the number that a field begins with ends: 3 of "432 img/s", 0 of "A100".
size_t number_end(const std::string& text);
/// Are all fields of a column numbers, whatever their commas, and some there?
bool is_numeric(const core::CsvTable& table, size_t column);

/// A row of units below the header ("", "samples/s", "ms"): each goes into the name of its column.
void take_unit_row(ResultTable& result);
/// "2495 +- 12", with "\u00b1" or "+/-": the number before the sign; says that the rest is not used.
void take_uncertainties(ResultTable& result);
/// "1 node", "4 nodes" in all fields of a column become numbers, and a column that no name tells gets that of what it
/// counts. DataError where the name counts something else.
void take_counted_things(ResultTable& result);
/// "3 950" and "3'950" become 3950 in columns of numbers.
void take_gaps(ResultTable& result);
/// Turns decimal commas into points, and takes out points that part thousands, where semicolons or tabs part the
/// fields, some number can have no other comma ("0,97") and none has a decimal point. Says so.
void take_decimal_commas(ResultTable& result);
/// "432 img/s", "512 ms" and "1.98x" in all fields of a column: the unit goes into its name, the fields become numbers.
void take_units(ResultTable& result);
/// Takes commas out of fields where they part thousands, and says so where one of them could be a decimal comma.
void take_thousands(ResultTable& result);
/// "0.125M" and "512k" in a column of global batches or of rates become numbers; `known` is the column's known name.
void take_prefixes(ResultTable& result, size_t column, const std::string& known);
/// DataError for the first comma in a column of numbers that take_thousands left.
void refuse_commas(const core::CsvTable& table);

}  // namespace lockstep::published
