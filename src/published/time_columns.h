#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "published/result_table.h"

namespace lockstep::published {

/// Seconds of the unit that the name of a column of times ends with: 3600 of "Wall time [h]"; 0 where it names none.
double solution_unit_s(const std::string& column);

/// Turns times such as sacct's "01:30:00" and "1h30m" into seconds, and says so. False where no cell of the column is a
/// time; DataError for one that is none beside others that are.
bool take_clock_times(ResultTable& result, size_t column);

/// Times of several codes beside one another ("GROMACS (s)", "LAMMPS (s)") in a table of sizes without any rate or
/// other time: a row for each, with the names in a column of texts. Says so.
void take_times_side_by_side(ResultTable& result);

/// The column that is the time of a whole piece of work though its name does not say so ("time", "seconds", "time (s)"
/// from ten seconds on, "GROMACS (s)"), in a table without rates, batches and other times.
std::optional<size_t> find_whole_time(const ResultTable& result);

}  // namespace lockstep::published
