#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/result_table.h"
#include "comm/comm.h"
#include "comm/world.h"
#include "commands/bench_options.h"
#include "core/json.h"

namespace lockstep::bench {

/// What every case works with; all outlive it.
struct BenchContext {
  const commands::BenchOptions& options;
  comm::Comm& world;
  at::Device device;
  /// Behind `world`; nullptr where ranks are threads, which the loader case cannot use.
  comm::World* processes = nullptr;
  std::vector<std::string> command = {};  ///< As typed, the program's name first.
};

/// A number that sums up a whole table.
struct SummaryItem {
  std::string key;    ///< In JSON.
  std::string label;  ///< Below the table.
  core::Json value;
  std::string text = {};  ///< As shown; default: the value.
};

/// One kind of measurement. A row is a JSON object that begins as a point (its parameters), gets the results of the
/// check, then those of the timing, and is printed. All ranks call the same functions with equal points; only rank 0's
/// rows are read.
class BenchCase {
 public:
  virtual ~BenchCase() = default;
  /// What the command line asks for, in order. The text under "part" heads the rows that share it.
  virtual std::vector<core::Json> points() = 0;
  /// Comment lines above the table.
  virtual std::vector<std::string> preamble() = 0;
  virtual std::vector<TableColumn> columns() = 0;
  /// Checks the results of one point and adds what it found to the row. Returns the number of wrong values over all
  /// ranks.
  virtual int64_t verify(core::Json& row) = 0;
  /// Adds statistics and raw samples to the row.
  virtual void time(core::Json& row) = 0;
  virtual std::vector<SummaryItem> summary(const std::vector<core::Json>& rows) = 0;
};

}  // namespace lockstep::bench
