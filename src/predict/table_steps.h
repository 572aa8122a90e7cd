#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "predict/work_facts.h"
#include "published/formulas.h"

namespace lockstep::predict {

/// What the user says of a table; wins over what the table says.
struct TableRequest {
  std::optional<Machine> machine{};
  std::string model{};
  std::optional<double> local_batch{};
  std::optional<int64_t> devices_per_node{};
  std::optional<bool> is_strong{};  ///< Where the table has no batches.
  std::string speed{};              ///< One of speed_columns(); "": the first.
  /// Speeds of sizes above decide nothing, such as whether scaling is strong: somebody judges by them.
  std::optional<double> largest_known{};
};

/// Step and work of one row. The clock is seconds where batch and rate tell them; else that of one unit of work.
struct RowStep {
  double step = 0;                  ///< In units of the clock.
  double units = 1;                 ///< Work of a device, comparable between the rows of a curve.
  std::optional<double> samples{};  ///< Of a device and step; not where they were assumed.
  std::optional<double> tokens{};   ///< Of a device and step, where batch and length are told.
  double sequence = 0;              ///< Tokens of a sample; 0: not told.
};

/// How the rows of one curve tell their steps.
struct CurveSteps {
  std::vector<RowStep> rows{};    ///< In the order of the sizes given.
  std::string rate_unit{};        ///< "samples/s"; empty where work is not told.
  double rate_per_device = 1;     ///< Units of the rate of a device and step, at the first size.
  std::string time_name{};        ///< "walltime (s)", where the rate is one over such times of the whole work.
  bool has_growing_work = false;  ///< Those times are of work that grows with the size.
  std::string scaling_source{};   ///< What tells weak or strong scaling, where no batches do.
  bool has_batches = false;       ///< Columns or words tell the batch of every row.
  bool has_seconds = false;
  double clock_s = 0;          ///< Seconds of one unit of the clock: 1, or an assumption; 0 where nothing is known.
  double assumed_samples = 0;  ///< Of a device and step at the first size, where an assumption was needed and possible.
  bool is_strong = false;
  std::optional<KnownFact> told_batch{};  ///< Where a text told it and no column.
  std::vector<std::string> notes{};
};

inline constexpr const char* kSpeedHint =
    "give step_time_s, samples_per_s or tokens_per_s; of models side by side each column needs its unit: 'A "
    "(images/s)'";

/// The columns that tell how fast a row was, of whatever kind: step times, steps per second, samples, tokens or TFLOP
/// per second (of all devices, a device or a node), time of an epoch or of a whole training, MFU, speed-up, efficiency.
/// Several where a table has models or programs side by side ("PyTorch (img/s)", "MXNet (img/s)"): a curve each. Empty
/// where the table has none.
std::vector<std::string> speed_columns(const published::FormulaContext& context);

/// Columns of numbers whose names say nothing that is known, and of batches and speeds that may mean several things.
std::vector<std::string> unread_columns(const published::FormulaContext& context);

/// DataError for a table without such a column: by name, where it has a rate in a unit that is not known.
void check_speeds(const published::FormulaContext& context);

/// A column that counts a batch in tokens: "Tokens/Batch", "Global Bsz (tokens)", "batch per GPU (tokens)".
bool counts_batch_in_tokens(const std::string& column);
/// Is the batch of such a column that of a device?
bool is_batch_of_device(const std::string& column);

/// Devices of a row; `devices_per_node` where the table counts nodes alone.
double devices_at(const published::FormulaContext& context, double devices_per_node, size_t row);

/// Steps of rows that differ in size alone, sorted by size. Only speeds of the first `num_known` decide how all are
/// read. `text`: what comments and rows say. DataError for a table without speeds.
CurveSteps read_steps(const published::FormulaContext& context, const std::vector<size_t>& rows, size_t num_known,
                      const TableRequest& request, const WorkFacts& work, const std::optional<Machine>& machine,
                      double devices_per_node, const std::string& text);

}  // namespace lockstep::predict
