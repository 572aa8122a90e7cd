#include "train/interval_recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/json.h"
#include "core/strings.h"

namespace lockstep::train {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
/// Of every rank: step, data wait, compute and communication in ms; seconds since its counters were read before, or
/// NaN. Then the counters.
constexpr size_t kNumTimes = 5;

std::vector<std::string> keys_of(const std::map<std::string, double>& counters) {
  std::vector<std::string> names;
  for (const auto& [name, value] : counters) names.push_back(name);
  return names;
}

void add_values(const std::vector<std::string>& names, const std::map<std::string, double>& counters,
                std::vector<double>& numbers) {
  for (const std::string& name : names) {
    const auto found = counters.find(name);
    numbers.push_back(found == counters.end() ? kNone : found->second);
  }
}

/// The opposite of add_values, for the numbers from `begin` on, which it moves.
std::map<std::string, double> named_values(const std::vector<std::string>& names, std::span<const double>& numbers) {
  std::map<std::string, double> counters;
  for (size_t i = 0; i < names.size(); ++i)
    if (!std::isnan(numbers[i])) counters.emplace(names[i], numbers[i]);
  numbers = numbers.subspan(names.size());
  return counters;
}

}  // namespace

IntervalRecorder::IntervalRecorder(comm::Comm& world, std::vector<std::string> hosts, at::Device device,
                                   record::RunRecord* record)
    : world_(world), device_(device), record_(record), hosts_(std::move(hosts)) {
  const auto first_of_node =
      std::find(hosts_.begin(), hosts_.end(), hosts_[static_cast<size_t>(world.rank())]) - hosts_.begin();
  if (first_of_node == world.rank()) {
    before_ = counters_.emplace().read();
    leave_out_partial_gpu_energy();
    read_at_ = std::chrono::steady_clock::now();
  }
  exchange_names();
}

/// Where a job shows each rank its own GPU alone, of which hw::hidden_peers warns, this rank would count one GPU for
/// the node.
void IntervalRecorder::leave_out_partial_gpu_energy() {
  const auto ranks_here =
      static_cast<size_t>(std::count(hosts_.begin(), hosts_.end(), hosts_[static_cast<size_t>(world_.rank())]));
  const size_t gpus_seen = counters_->gpu_names().size();
  if (device_.is_cpu() || gpus_seen == 0 || gpus_seen >= ranks_here) return;
  std::erase_if(before_.energy_j, [](const auto& meter) { return core::starts_with(meter.first, "nvml-"); });
}

void IntervalRecorder::exchange_names() {
  const core::Json own{keys_of(before_.received_bytes), keys_of(before_.sent_bytes), keys_of(before_.energy_j)};
  size_t most = 0;
  for (const std::string& text :
       world_.gather_strings(own.dump(-1, ' ', false, core::Json::error_handler_t::replace))) {
    const core::Json said = core::parse_json(text, "names of counters");
    names_.push_back({.received = said.at(0), .sent = said.at(1), .energy = said.at(2)});
    most = std::max(most, names_.back().count());
  }
  width_ = kNumTimes + most;
}

std::vector<double> IntervalRecorder::measure(const IntervalTimes& times) {
  std::vector<double> numbers{times.step_ms, times.phases[Phase::kDataWait], times.phases.compute(),
                              times.phases[Phase::kExposedComm], kNone};
  if (counters_ && times.num_run_steps > 0) {  // else late times of steps whose counters are recorded
    const hw::Counters now = counters_->read();
    const hw::Counters growth = counters_->growth(std::exchange(before_, now), now);
    const auto now_at = std::chrono::steady_clock::now();
    numbers[kNumTimes - 1] = std::chrono::duration<double>(now_at - std::exchange(read_at_, now_at)).count();
    const CounterNames& names = names_[static_cast<size_t>(world_.rank())];
    add_values(names.received, growth.received_bytes, numbers);
    add_values(names.sent, growth.sent_bytes, numbers);
    add_values(names.energy, growth.energy_j, numbers);
  }
  numbers.resize(width_, kNone);
  return numbers;
}

void IntervalRecorder::record(const IntervalTimes& times) {
  finish();
  auto numbers = NumbersInFlight::all_gather(world_, device_, measure(times));
  under_way_.emplace(
      Interval{.times = times,
               .collectives = record_ != nullptr ? world_.recorder().snapshot() : std::vector<comm::RecorderEntry>(),
               .numbers = std::move(numbers)});
}

void IntervalRecorder::finish() {
  if (!under_way_) return;
  Interval interval = std::move(*under_way_);
  under_way_.reset();
  const std::span<const double> numbers = interval.numbers.wait();
  if (record_ != nullptr) write(interval, numbers);
}

void IntervalRecorder::write(const Interval& interval, std::span<const double> numbers) {
  const IntervalTimes& times = interval.times;
  record::RankTimesRecord ranks{.step = times.step, .num_steps = times.num_steps, .hosts = hosts_};
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    const std::span<const double> of_rank = numbers.subspan(rank * width_, width_);
    ranks.step_ms.push_back(of_rank[0]);
    ranks.data_wait_ms.push_back(of_rank[1]);
    ranks.compute_ms.push_back(of_rank[2]);
    ranks.comm_wait_ms.push_back(of_rank[3]);
    if (!std::isnan(of_rank[kNumTimes - 1])) write_counters(times, rank, of_rank.subspan(kNumTimes - 1));
  }
  record_->append_rank_times(std::move(ranks));
  const bool is_timed = device_.is_cpu();  // on CUDA the host sees how long queueing took, not the transfer
  for (const auto& entry : interval.collectives)
    record_->append_comm({.step = times.last_run_step,
                          .kind = entry.kind,
                          .axis = entry.axis,
                          .group_size = entry.group_size,
                          .bytes = entry.bytes,
                          .count = entry.count,
                          .time_ms = is_timed ? entry.total_ms : NAN,
                          .blocked_ms = entry.blocked_ms});
}

/// `numbers`: the seconds, then the counters.
void IntervalRecorder::write_counters(const IntervalTimes& times, size_t rank, std::span<const double> numbers) {
  const CounterNames& names = names_[rank];
  const double seconds = numbers.front();
  numbers = numbers.subspan(1);
  auto received = named_values(names.received, numbers);
  auto sent = named_values(names.sent, numbers);
  record_->append_system({.step = times.last_run_step,
                          .num_steps = times.num_run_steps,
                          .host = hosts_[rank],
                          .received_bytes = std::move(received),
                          .sent_bytes = std::move(sent),
                          .energy_j = named_values(names.energy, numbers),
                          .seconds = seconds});
}

}  // namespace lockstep::train
