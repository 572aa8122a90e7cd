#include "train/interval_recorder.h"

#include <algorithm>
#include <cmath>

#include "comm/recorder.h"
#include "core/json.h"

namespace lockstep::train {

IntervalRecorder::IntervalRecorder(comm::World& world, std::vector<std::string> hosts, at::Device device,
                                   record::RunRecord* record)
    : world_(world), device_(device), record_(record), hosts_(std::move(hosts)) {
  const auto first_of_node =
      std::find(hosts_.begin(), hosts_.end(), hosts_[static_cast<size_t>(world.rank())]) - hosts_.begin();
  if (first_of_node != world.rank()) return;
  before_ = counters_.emplace().read();
  read_at_ = std::chrono::steady_clock::now();
}

core::Json IntervalRecorder::describe(const IntervalTimes& times) {
  core::Json json{{"step_ms", times.step_ms},
                  {"data_wait_ms", times.phases[Phase::kDataWait]},
                  {"compute_ms", times.phases.compute()},
                  {"comm_wait_ms", times.phases[Phase::kExposedComm]}};
  if (!counters_ || times.num_run_steps == 0) return json;  // late times of steps whose counters are recorded
  const hw::Counters now = counters_->read();
  const hw::Counters growth = counters_->growth(std::exchange(before_, now), now);
  const auto now_at = std::chrono::steady_clock::now();
  json["seconds"] = std::chrono::duration<double>(now_at - std::exchange(read_at_, now_at)).count();
  json["received_bytes"] = growth.received_bytes;
  json["sent_bytes"] = growth.sent_bytes;
  json["energy_j"] = growth.energy_j;
  return json;
}

void IntervalRecorder::record(const IntervalTimes& times) {
  const auto texts = world_.comm().gather_strings(describe(times).dump());
  if (record_ != nullptr) write(times, texts);
}

void IntervalRecorder::write(const IntervalTimes& times, const std::vector<std::string>& texts) {
  record::RankTimesRecord ranks{.step = times.step, .num_steps = times.num_steps, .hosts = hosts_};
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const core::Json json = core::parse_json(texts[rank], "times of a rank");
    ranks.step_ms.push_back(json.at("step_ms"));
    ranks.data_wait_ms.push_back(json.at("data_wait_ms"));
    ranks.compute_ms.push_back(json.at("compute_ms"));
    ranks.comm_wait_ms.push_back(json.at("comm_wait_ms"));
    if (!json.contains("energy_j")) continue;
    record_->append_system({.step = times.last_run_step,
                            .num_steps = times.num_run_steps,
                            .host = hosts_[rank],
                            .received_bytes = json.at("received_bytes"),
                            .sent_bytes = json.at("sent_bytes"),
                            .energy_j = json.at("energy_j"),
                            .seconds = json.at("seconds").get<double>()});
  }
  record_->append_rank_times(std::move(ranks));
  const bool is_timed = device_.is_cpu();  // on CUDA the host sees how long queueing took, not the transfer
  for (const auto& entry : world_.recorder().snapshot())
    record_->append_comm({.step = times.last_run_step,
                          .kind = entry.kind,
                          .axis = entry.axis,
                          .group_size = entry.group_size,
                          .bytes = entry.bytes,
                          .count = entry.count,
                          .time_ms = is_timed ? entry.total_ms : NAN,
                          .blocked_ms = entry.blocked_ms});
}

}  // namespace lockstep::train
