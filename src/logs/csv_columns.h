#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::logs {

/// What a column of a CSV file of steps tells: something of a step, or (kFact) of the run that the row belongs to.
enum class CsvField {
  kStep,
  kEpoch,
  kNumSteps,
  kRank,
  kStepTime,
  kDataWait,
  kSamples,
  kGlobalBatch,
  kTokens,
  kLoss,
  kSamplesSeen,
  kRate,
  kTflops,
  kTime,
  kFact,
  kNone
};

struct CsvColumn {
  CsvField field = CsvField::kNone;
  double unit_ms = 1000;  ///< Of times.
  bool is_unit_given = false;
  std::string name{};           ///< As the header has it.
  std::string run{};            ///< Of W&B's "run1 - loss": the run that this column alone is of.
  bool may_be_elapsed = false;  ///< "time_s": of a step, or since the start.
  std::string_view fact{};      ///< Of kFact: its name as record/meta.h has it, or "run" for what tells repeats apart.
};

/// The columns of a header, known by their names whatever their case and punctuation.
std::vector<CsvColumn> csv_columns_of(std::string_view header);
/// The runs that stand beside one another in the columns, as in exports of W&B ("run1 - step_time_s", "run2 -
/// step_time_s"); none where no quantity is there for two of them.
std::vector<std::string> runs_side_by_side(const std::vector<CsvColumn>& columns);
bool has_csv_field(const std::vector<CsvColumn>& columns, CsvField field);
/// Is it a table of steps with their times? One with nodes or devices and without steps
/// is one of points (core/csv_table.h).
bool are_csv_steps(const std::vector<CsvColumn>& columns);

/// Whole numbers, in which a comma can only part thousands.
bool is_csv_count(CsvField field);
bool is_csv_duration(CsvField field);
/// Facts that are whole numbers above 0.
bool is_count_fact(std::string_view fact);

/// A time in a cell, with its unit where the cell tells one: "512 ms". Nothing when it is no time.
struct CsvTime {
  double value = 0;
  std::optional<double> unit_ms{};
};
std::optional<CsvTime> read_csv_time(const std::string& cell);

}  // namespace lockstep::logs
