#pragma once
#include <filesystem>
#include <string>

#include "published/result_table.h"

namespace lockstep::published {

/// Reads a table that somebody wrote by hand. Rows without a size, batch, rate or step time are left out with a note;
/// an empty cell is "", "-", "n/a", "failed" and the like. DataError with line, column as written and value where no
/// row is left, for a word or a number with a comma, and for two units in one column or two columns of one meaning.
ResultTable read_result_table(const std::filesystem::path& path);

/// The plain name of a column, with "bsz" and "bs" spelled out: "Micro Bsz" -> "micro_batch_size".
std::string plain_column(const std::string& column);

/// Digits behind the decimal point of a number as it is printed; below 0 where an exponent says so: -2 of "1.04e4".
int num_decimals(const std::string& text);

/// Does a column tell the devices of one node: "gpus_per_node", "GPU num per node"?
bool tells_devices_of_node(const std::string& column);
/// Is this a column of step times that names no unit: "step time", "time per iteration"? Not "time" or "step" alone.
bool is_step_time_without_unit(const std::string& column);

}  // namespace lockstep::published
