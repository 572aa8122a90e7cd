#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace lockstep::record {

/// Version of the layout of a run folder (docs/record.md); raised when a reader of the old one would misread the new
/// one.
inline constexpr int kRecordVersion = 1;

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// One optimiser step, one line of steps.jsonl. What is not known stays empty and is not written.
struct StepRecord {
  int attempt = 0;   ///< Filled by RunRecord when 0.
  int64_t step = 0;  ///< From 0.
  std::optional<int64_t> epoch{};
  int64_t samples = 0;              ///< Of this step, over all ranks.
  int64_t samples_seen = 0;         ///< Of the whole run, this step included.
  std::optional<int64_t> tokens{};  ///< Of this step, over all ranks.
  double step_ms = 0;               ///< Wall clock; the maximum over ranks where they were asked.
  double data_wait_ms = 0;
  std::optional<double> exposed_comm_ms{};
  double samples_per_s = 0;
  double loss = 0;
  NamedNumbers losses{};  ///< Parts of the loss.
  double lr = 0;
  std::optional<double> grad_norm{};
  std::optional<int64_t> num_zeros{};            ///< Elements of all gradients that are 0.
  std::optional<double> params_norm{};           ///< After the update.
  std::optional<double> scale{};                 ///< Logit scale of contrastive tasks, exponentiated.
  std::optional<double> loss_scale{};            ///< Of the fp16 scaler.
  std::optional<double> cached_share{};          ///< Of rows of locked towers on rank 0: not computed again.
  bool is_skipped = false;                       ///< The optimiser left the parameters alone (gradients not finite).
  std::optional<int64_t> device_memory_bytes{};  ///< Peak so far on this device.
  std::optional<int64_t> host_memory_bytes{};    ///< Peak resident size of rank 0 so far.
  NamedNumbers phases_ms{};
  std::optional<double> time_s{};  ///< Unix time at the end of the step.
};

/// Step times of all ranks over an interval, one line of ranks.jsonl.
struct RankTimesRecord {
  int attempt = 0;
  int64_t step = 0;                    ///< Last step of the interval.
  int64_t num_steps = 1;               ///< Steps in the interval.
  std::vector<double> step_ms{};       ///< Mean over the interval, per rank.
  std::vector<double> data_wait_ms{};  ///< Likewise; may be empty, as the lists below.
  /// Work that no other rank can delay: copy to the device, forward, backward, optimiser.
  std::vector<double> compute_ms{};
  std::vector<double> comm_wait_ms{};  ///< Blocked in collectives.
  std::vector<std::string> hosts{};    ///< Per rank; may be empty.
};

/// Collectives of one kind, axis and size up to a step of this attempt, one line of comm.jsonl.
struct CommRecord {
  int attempt = 0;
  int64_t step = 0;
  std::string kind{};  ///< "all_reduce", ...
  std::string axis{};  ///< "dp", "tp", "pp", "world"
  int group_size = 1;
  int64_t bytes = 0;      ///< Of one call.
  int64_t count = 0;      ///< Calls.
  double time_ms = 0;     ///< From the call to the end of its wait, summed; work that ran meanwhile hides in it.
  double blocked_ms = 0;  ///< Of that, what the host was blocked for.
};

/// One evaluation, one line of results.jsonl.
struct ResultRecord {
  int attempt = 0;
  int64_t step = 0;  ///< Optimiser steps done.
  std::optional<int64_t> epoch{};
  std::string name{};  ///< "val", "imagenet-zeroshot-val", ...
  NamedNumbers metrics{};
  std::optional<double> seconds{};  ///< Wall clock of this evaluation on rank 0.
  std::optional<double> ended_s{};  ///< Unix time at its end, of logs that tell it; not in the record.
};

/// Network and energy counters of one host over an interval, one line of system.jsonl.
struct SystemInterval {
  int attempt = 0;                  ///< Filled by RunRecord when 0.
  int64_t step = 0, num_steps = 1;  ///< Last step of the interval; steps in it.
  std::string host{};
  std::map<std::string, double> received_bytes{}, sent_bytes{};  ///< By network interface.
  std::map<std::string, double> energy_j{};                      ///< By meter: "nvml-0", "rapl-package-0".
  std::optional<double> seconds{};  ///< Wall clock between the two readings; absent in older records.
};

/// Milliseconds from the start of the process to the first step, by phase, one line of startup.jsonl: "start",
/// "rendezvous", "communicator", "loader", "weights", "first_step".
struct StartupTimes {
  int attempt = 0;
  NamedNumbers phases_ms{};
};

/// JSON has no NaN or Inf: such a number becomes null, and the object's "nonfinite" says which it was ({"loss":
/// "nan"}).
void put_number(core::Json& object, const std::string& key, double value);
/// Undoes put_number; nothing when the key is absent or no number.
std::optional<double> get_number(const core::Json& object, const std::string& key);

core::Json to_json(const StepRecord& record);
core::Json to_json(const RankTimesRecord& record);
core::Json to_json(const CommRecord& record);
core::Json to_json(const ResultRecord& record);
core::Json to_json(const SystemInterval& record);
core::Json to_json(const StartupTimes& record);

/// DataError names `where` and the key that is missing or of the wrong type.
StepRecord step_from_json(const core::Json& object, std::string_view where);

}  // namespace lockstep::record
