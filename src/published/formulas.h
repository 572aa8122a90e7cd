#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/options.h"
#include "core/csv_table.h"
#include "published/checked_cell.h"
#include "published/columns.h"

namespace lockstep::published {

/// A printed number and the range of values that would be printed alike.
struct Printed {
  double low = 0, value = 0, high = 0;
};
Printed operator*(const Printed& a, const Printed& b);  // of numbers above zero
Printed operator/(const Printed& a, const Printed& b);
Printed exact(double value);
/// "623.7" -> 623.65, 623.7, 623.75; a whole number of things ("nodes") has no range.
Printed parse_printed(const std::string& text, double value, bool is_count);

/// Constants that a table states in its comments.
struct TableFacts {
  std::optional<double> forward_gflops{}, sequence_flops{}, sequence_length{}, samples_per_device{};
  std::map<std::string, double> peaks_tflops{};  ///< By compute type.
  std::string precision{};                       ///< The only one, where the table has no column of it.
  std::optional<double> untyped_peak_tflops{};   ///< Stated without a compute type; counts where no other is.
  std::optional<double> given_peak_tflops{};     ///< By the user; wins.
};
TableFacts read_facts(const core::CsvTable& table, const analysis::AnalysisOptions& options);

/// Bases of the groups of a table, found once, and numbers of theirs that were asked for.
struct GroupBases {
  std::vector<size_t> group_of_row{};
  std::vector<std::vector<size_t>> rows{};  ///< By group.
  std::map<std::pair<size_t, std::string>, Printed> values{};
};

/// What one time of a table stands for at every size of its curve.
enum class TimedWork : uint8_t { kEqual, kGrowsWithSize };

/// A table with what its formulas need.
struct FormulaContext {
  const core::CsvTable& table;
  TableFacts facts;
  std::vector<std::string> groups{};  ///< By row: rows with the same text are one curve over sizes.
  std::vector<bool> is_mixed{};  ///< By row: the batches of its group are neither those of weak nor of strong scaling,
                                 ///< so that no efficiency follows.
  bool has_contradiction = false;    ///< Local and global batches of a row exclude each other.
  std::vector<std::string> given{};  ///< By column: its name as it was written.
  double solution_unit_s = 0;        ///< Seconds of one unit of "time_to_solution"; 0: it names none.
  /// Columns that part the rows, beside model, system and precision, with their values by row.
  std::map<std::string, std::vector<std::string>> parting{};
  /// The base asked for, of the column nodes where there is one; else the smallest size.
  std::optional<int64_t> base_nodes{};
  std::optional<TimedWork> asked_work{};  ///< By the user; wins over what the table says.
  std::vector<std::string> notes{};       ///< What was left out of account, in sentences.

  const std::string& given_name(const char* column) const { return given.at(table.column(column)); }
  bool has(const char* column) const { return table.find(column).has_value(); }
  /// GPUs, else devices, else the cores of processors.
  const char* device_column() const {
    return has("gpus") ? "gpus" : has("devices") ? "devices" : has("cores") ? "cores" : nullptr;
  }
  /// Devices, else nodes; nullptr: no sizes.
  const char* size_column() const {
    return device_column() != nullptr ? device_column() : has("nodes") ? "nodes" : nullptr;
  }
  Printed at(size_t row, const char* column) const;
  /// Rows of the base in the row's group, the smallest size or the one asked for (without sizes the row itself):
  /// several are repeats of one base. Empty where the group lacks the size asked for.
  const std::vector<size_t>& base_rows(size_t row) const;
  /// What the row is called: the texts up to its size, and that: "bf16, gpus 128".
  std::string row_name(size_t row) const;
  /// A number of the base, which the row must have: over repeats the geometric mean, as for runs.
  Printed at_base(size_t row, const char* column) const;
  /// The same of what is computed; one name, one computation.
  Printed at_base(size_t row, const std::string& name,
                  const std::function<Printed(const FormulaContext&, size_t row)>& compute) const;
  std::optional<double> peak(size_t row) const;  ///< Of the row's compute type, TFLOP/s.
  mutable GroupBases bases{};                    ///< Of the rows of the groups above, which stay as they are.
};

/// The context with its rows grouped: by every text column that says what ran (not which repeat it was) and whose
/// values come back over sizes, and by each column of a batch that has several values at one size: by the batch itself
/// or its share of a size, whichever puts more rows above a base.
FormulaContext make_context(const ResultTable& result, const analysis::AnalysisOptions& options);
/// Does a column tell which model a row is of, whatever the size: "Number of parameters (billion)", "Hidden size"? Not
/// "params per GPU", which falls as the devices share them.
bool tells_model(const std::string& column);
/// Does a column of numbers say what ran, as a text would: parameters, shape, sequence length, layout, batch?
bool tells_setting(const std::string& column);
/// "Base: nodes 1 (line 3); ...", with repeats; empty where the table has no sizes.
std::string base_text(const FormulaContext& context);
/// Why a formula with a base has no value in a row; "" where it has one.
std::string missing_base(const FormulaContext& context, size_t row);
/// DataError for the first count or rate that is not above zero.
void check_positive(const ResultTable& result);
/// DataError where times or rates of one group stand a factor of hundreds apart at the same work:
/// two units in one column.
void check_units(const FormulaContext& context);

/// Marks groups whose batches are neither weak nor strong scaling, or contradict each other, and says so in the notes.
void mark_mixed_batches(FormulaContext& context);

/// Samples of a step on one device, and on all: as the table or its comments tell.
std::optional<Printed> local_batch(const FormulaContext& context, size_t row);
std::optional<Printed> global_batch(const FormulaContext& context, size_t row);

/// Tokens of one sequence in a row: of a column such as seq_len, else as the comments of the table tell.
std::optional<double> sequence_length(const FormulaContext& context, size_t row);

/// The throughput of a row: printed, or of its batch and step time.
struct Rate {
  std::string name{}, unit{}, formula{};  ///< "samples/s", "samples"; the formula is empty for a printed one.
  std::function<Printed(const FormulaContext&, size_t row)> at{};
};
std::optional<Rate> rate_of(const FormulaContext& context);

/// How a column follows from others.
struct Formula {
  std::string column{};
  std::string text{};
  std::function<Printed(const FormulaContext&, size_t row)> compute{};
  bool has_base = false;  ///< It divides by a value of the base.
};

/// The formulas of a table's derived columns: those whose inputs it has.
std::vector<Formula> formulas_of(const FormulaContext& context);
/// What can be computed beyond the printed columns (efficiency, node-hours): column names that the table lacks.
std::vector<Formula> additions_to(const FormulaContext& context);

/// Work of the times of one curve and what tells it: "as asked for", "its times fall as the sizes grow".
struct ToldWork {
  TimedWork work = TimedWork::kEqual;
  std::string why{};
  bool is_assumed = false;  ///< By the times alone.
  bool is_in_row = false;   ///< A field of the row tells it.
};
/// Times whose first is more than so many times the last are of equal work: weak scaling would be above 110 %.
inline constexpr double kLeastGainOfEqualWork = 1.1;
/// By the times alone: equal work where they fall from the first row to the last, else it grows. `rows` are those of
/// one curve by size, two or more sizes.
ToldWork work_of_times(const FormulaContext& context, const std::vector<size_t>& rows, const char* column);

/// The times of a table without rates, and by row the work they stand for.
struct TableTimes {
  const char* column = nullptr;
  std::vector<std::optional<ToldWork>> work{};  ///< Nothing: the row's curve has one size.
};
/// Nothing where a rate is known or no time is, or where a batch that is not that of all devices changes the work.
std::optional<TableTimes> times_of(const FormulaContext& context);
/// "As strong scaling: ..." for each work that was assumed.
std::vector<std::string> assumed_work(const FormulaContext& context);

/// Speed-up and efficiency of a table of times without a rate, in that order, and what a time to a solution costs.
/// Empty where the work is not known.
std::vector<Formula> time_formulas_of(const FormulaContext& context);
/// What a table of times without a rate does not tell, as in missing_in; "" for other tables.
std::string missing_beside_times(const FormulaContext& context);

/// What a table of rates over sizes does not tell, each with what is lost by it and how to give
/// it. Empty for other tables.
std::vector<std::string> missing_in(const FormulaContext& context);

/// Remarks on single cells whose arithmetic is right and whose meaning is not: the formula does not fit the model or
/// the definition.
std::vector<CheckedCell> meaning_checks(const FormulaContext& context);

}  // namespace lockstep::published
