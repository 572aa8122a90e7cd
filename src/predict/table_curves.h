#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "predict/layer_messages.h"
#include "predict/posterior.h"
#include "predict/table_steps.h"

namespace lockstep::predict {

/// One row of a curve.
struct CurvePoint {
  Measured measured{};
  double size = 0;  ///< Nodes, or devices where the table has no nodes, as it counts.
  size_t line = 0;
  std::optional<double> waited_s{};  ///< Of the step, for data; not told by tables.
};

/// Rows of a table that differ in size alone.
struct MeasuredCurve {
  std::string name{};                ///< "precision fp8"; the file's name where it has one curve.
  std::string size_name{};           ///< "nodes", "GPUs", "devices"
  std::string rate_unit{};           ///< "samples/s", "tokens/s", "TFLOP/s"; empty where no rate is told.
  std::string time_name{};           ///< "walltime (s)", where the rate is one over such times of the whole work.
  bool has_growing_work = false;     ///< Those times are of work that grows with the size: a time is a step.
  std::string scaling_source{};      ///< What tells weak or strong scaling: "the batches", "--scaling".
  std::vector<CurvePoint> points{};  ///< By size.
  WorkFacts work{};
  std::optional<Machine> machine{};
  InputRates input{};  ///< As somebody told them (take_input).
  double devices_per_node = 0;
  std::string devices_per_node_source{};  ///< What tells them, in words.
  double rate_per_device = 0;  ///< Units of a device and step at work 1: rate = this x work x devices / step.
  std::optional<double> tokens_per_sample{};  ///< Where the rate counts samples and the runs tell their length.
  bool has_batches = false;                   ///< Columns or words tell the batch of every row.
  bool has_seconds = false;                   ///< Else the clock is one unit of work on one device: no batch is known.
  double assumed_samples = 0;  ///< Of a device and step at the first size, where nothing tells the batch.
  double clock_s = 0;          ///< Seconds of a unit of the clock: 1, an assumption, or 0 where there is none.
  bool is_strong = false;      ///< Work of a device falls as sizes grow.
  std::vector<std::string> notes{};
};

/// Reads a table of results (as `report` does) into curves; comments and columns tell model, layout and system.
/// DataError for what cannot be read, for a table without sizes or without times and rates.
std::vector<MeasuredCurve> read_table_curves(const std::filesystem::path& path, const TableRequest& request = {});

/// The same of a table that was read before.
std::vector<MeasuredCurve> curves_of_table(const published::ResultTable& table, const TableRequest& request = {});

/// Micro-batches of a step where a device has so many samples; 0: not known.
double num_micro(const WorkFacts& work, double samples);

/// Adds the messages of experts and of context ranks to the points, by the layout and the tokens of each. What would be
/// more than half of the first point's step is hidden somewhere.
void add_layer_messages(const std::vector<WorkFacts>& works, const std::vector<DeviceTokens>& tokens,
                        MeasuredCurve& curve);

/// Idle time of the pipeline over its work, and passes of gradient traffic, where a device has so many samples a step
/// (0: not known).
double bubble_of(const MeasuredCurve& curve, double samples);
double passes_of(const MeasuredCurve& curve, double samples);

/// The curve's sizes know what input they need by the rates. UsageError where it does not tell the samples of a step.
void take_input(const InputRates& rates, MeasuredCurve& curve);

/// Size of a curve at so many of its own units, with the work that weak or strong scaling from the nearest row leaves a
/// device.
Size size_of(const MeasuredCurve& curve, double size);

}  // namespace lockstep::predict
