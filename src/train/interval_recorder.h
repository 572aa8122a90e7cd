#pragma once
#include <ATen/core/TensorBody.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/recorder.h"
#include "hw/counters.h"
#include "record/run_record.h"
#include "train/numbers_in_flight.h"
#include "train/trainer.h"

namespace lockstep::train {

/// Writes what is measured once per log interval: times of all ranks, collectives, network and energy counters of each
/// node. Every rank has one.
///
/// One gather of a fixed number of doubles an interval, under way until the next: nobody waits for it. What the
/// counters are called is told once, at the start.
class IntervalRecorder {
 public:
  /// `hosts` of all ranks; `device` is where the collectives run; `record` is rank 0's, nullptr elsewhere. Collective.
  IntervalRecorder(comm::Comm& world, std::vector<std::string> hosts, at::Device device, record::RunRecord* record);
  /// Writes the interval before and sends this one. Collective.
  void record(const IntervalTimes& times);
  /// Writes the last interval.
  void finish();

 private:
  /// Names of what the counters of a node count; none on ranks that read no counters.
  struct CounterNames {
    std::vector<std::string> received, sent, energy;
    size_t count() const { return received.size() + sent.size() + energy.size(); }
  };
  struct Interval {
    IntervalTimes times;
    std::vector<comm::RecorderEntry> collectives;
    NumbersInFlight numbers;
  };
  void leave_out_partial_gpu_energy();
  void exchange_names();
  std::vector<double> measure(const IntervalTimes& times);
  void write(const Interval& interval, std::span<const double> numbers);
  void write_counters(const IntervalTimes& times, size_t rank, std::span<const double> numbers);

  comm::Comm& world_;
  at::Device device_;
  record::RunRecord* record_;
  std::vector<std::string> hosts_;
  std::vector<CounterNames> names_;            // of all ranks
  size_t width_ = 0;                           // numbers of a rank
  std::optional<hw::CounterReader> counters_;  // on one rank of each node
  hw::Counters before_;
  std::chrono::steady_clock::time_point read_at_{};  // when `before_` was read
  std::optional<Interval> under_way_;
};

}  // namespace lockstep::train
