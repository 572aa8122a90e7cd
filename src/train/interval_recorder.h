#pragma once
#include <ATen/core/TensorBody.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "hw/counters.h"
#include "record/run_record.h"
#include "train/trainer.h"

namespace lockstep::train {

/// Writes what is measured once per log interval: times of all ranks, collectives, network and energy counters of each
/// node. Every rank has one.
class IntervalRecorder {
 public:
  /// `hosts` of all ranks; `device` is where the collectives run; `record` is rank 0's, nullptr elsewhere.
  IntervalRecorder(comm::World& world, std::vector<std::string> hosts, at::Device device, record::RunRecord* record);
  /// Collective.
  void record(const IntervalTimes& times);

 private:
  core::Json describe(const IntervalTimes& times);
  void write(const IntervalTimes& times, const std::vector<std::string>& texts);

  comm::World& world_;
  at::Device device_;
  record::RunRecord* record_;
  std::vector<std::string> hosts_;
  std::optional<hw::CounterReader> counters_;  // on one rank of each node
  hw::Counters before_;
  std::chrono::steady_clock::time_point read_at_{};  // when `before_` was read
};

}  // namespace lockstep::train
