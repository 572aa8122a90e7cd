#pragma once
#include <filesystem>
#include <string>

#include "logs/batch_names.h"
#include "logs/speed_names.h"
#include "published/result_table.h"

namespace lockstep::published {

using logs::BatchName, logs::BatchOf, logs::read_batch_name;
using logs::Counted, logs::read_speed_name, logs::SpeedName, logs::ToldSpeed;

/// Reads a table that somebody wrote by hand. Rows without a size, batch, rate or step time are left out with a note;
/// an empty cell is "", "-", "n/a", "failed" and the like. DataError with line, column as written and value where no
/// row is left, for a word or a number with a comma, and for two units in one column or two columns of one meaning.
ResultTable read_result_table(const std::filesystem::path& path);

/// The name under which formulas know a column; as it is where they know none.
std::string known_name(const std::string& column);
/// Is this a name under which formulas know a column: "nodes", "step_time_s"?
bool is_known_name(const std::string& column);

/// The plain name of a column, with "bsz" and "bs" spelled out: "Micro Bsz" -> "micro_batch_size".
std::string plain_column(const std::string& column);

/// Digits behind the decimal point of a number as it is printed; below 0 where an exponent says so: -2 of "1.04e4".
int num_decimals(const std::string& text);

/// Does a column tell the devices of one node: "gpus_per_node", "GPU num per node"?
bool tells_devices_of_node(const std::string& column);
/// Is this a time that does not say of what: "time", "time (s)"?
bool is_time_of_nothing(const std::string& column);
/// Is this a column of step times that names no unit: "step time", "time per iteration"? Not "time" or "step" alone.
bool is_step_time_without_unit(const std::string& column);

}  // namespace lockstep::published
