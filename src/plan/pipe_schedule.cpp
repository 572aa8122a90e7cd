#include "plan/pipe_schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "core/error.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kMostPasses = 20'000'000;

std::vector<PipePass> one_forward_one_backward(const PipeShape& shape, int stage) {
  const int64_t m = shape.num_micro_batches, warmup = std::min<int64_t>(shape.num_stages - stage - 1, m);
  std::vector<PipePass> passes;
  for (int64_t i = 0; i < warmup; ++i) passes.push_back({true, i, 0});
  for (int64_t i = 0; i + warmup < m; ++i) {
    passes.push_back({true, i + warmup, 0});
    passes.push_back({false, i, 0});
  }
  for (int64_t i = m - warmup; i < m; ++i) passes.push_back({false, i, 0});
  return passes;
}

/// Micro-batches and chunks in the order of forward passes: group by group, within it chunk by chunk.
std::vector<PipePass> interleaved_table(const PipeShape& shape) {
  const int64_t group = shape.group_size();
  std::vector<PipePass> table;
  for (int64_t first = 0; first < shape.num_micro_batches; first += group)
    for (int chunk = 0; chunk < shape.num_chunks; ++chunk)
      for (int64_t i = first; i < std::min(first + group, shape.num_micro_batches); ++i)
        table.push_back({true, i, chunk});
  return table;
}

int64_t interleaved_warmup(const PipeShape& shape, int stage) {
  return std::min(2 * int64_t{shape.num_stages - stage - 1} + (shape.num_chunks - 1) * shape.group_size(),
                  shape.num_micro_batches * shape.num_chunks);
}

std::vector<PipePass> interleaved(const PipeShape& shape, int stage) {
  const std::vector<PipePass> table = interleaved_table(shape);
  const size_t count = table.size(), warmup = static_cast<size_t>(interleaved_warmup(shape, stage));
  const auto backward = [&](size_t k) {
    return PipePass{false, table[k].micro, shape.num_chunks - 1 - table[k].chunk};
  };
  std::vector<PipePass> passes(table.begin(), table.begin() + static_cast<ptrdiff_t>(warmup));
  for (size_t k = 0; k + warmup < count; ++k) {
    passes.push_back(table[k + warmup]);
    passes.push_back(backward(k));
  }
  for (size_t k = count - warmup; k < count; ++k) passes.push_back(backward(k));
  return passes;
}

std::vector<PipePass> pass_order(const PipeShape& shape, int stage) {
  switch (shape.kind) {
    case ScheduleKind::kGpipe: {
      std::vector<PipePass> passes;
      for (const bool is_forward : {true, false})
        for (int64_t i = 0; i < shape.num_micro_batches; ++i) passes.push_back({is_forward, i, 0});
      return passes;
    }
    case ScheduleKind::kOneForwardOneBackward: return one_forward_one_backward(shape, stage);
    case ScheduleKind::kInterleaved: return interleaved(shape, stage);
  }
  LOCKSTEP_CHECK(false, "kind {}", static_cast<int>(shape.kind));
}

/// When each pass of the model ends; negative: not yet.
class PassEnds {
 public:
  explicit PassEnds(const PipeShape& shape)
      : shape_(shape), parts_(int64_t{shape.num_stages} * shape.num_chunks),
        ends_(static_cast<size_t>(2 * parts_ * shape.num_micro_batches), -1.0) {}

  double& end(int stage, const PipePass& pass) { return at(part(stage, pass), pass); }
  /// When the input of a pass is there; negative: not yet.
  double input(int stage, const PipePass& pass) {
    const int64_t own = part(stage, pass);
    if (pass.is_forward) return own == 0 ? 0.0 : at(own - 1, pass);
    PipePass forward = pass;
    forward.is_forward = true;
    const double kept = at(own, forward), gradient = own == parts_ - 1 ? kept : at(own + 1, pass);
    return kept < 0 || gradient < 0 ? -1.0 : std::max(kept, gradient);
  }

 private:
  int64_t part(int stage, const PipePass& pass) const { return int64_t{pass.chunk} * shape_.num_stages + stage; }
  double& at(int64_t part, const PipePass& pass) {
    return ends_[static_cast<size_t>(((pass.is_forward ? 0 : parts_) + part) * shape_.num_micro_batches + pass.micro)];
  }
  const PipeShape& shape_;
  int64_t parts_;
  std::vector<double> ends_;
};

/// Time of a pass of a part.
using PassTime = std::function<double(bool is_forward, size_t part)>;

/// Runs the passes of all stages in order, each as early as possible.
PipeTimes time_orders(const PipeShape& shape, const std::vector<std::vector<PipePass>>& orders,
                      const PassTime& pass_time) {
  PassEnds ends(shape);
  PipeTimes times{.start = std::vector<std::vector<double>>(orders.size())};
  std::vector<double> free_at(orders.size(), 0.0);
  size_t num_left = 0;
  for (const auto& order : orders) num_left += order.size();
  while (num_left > 0) {
    const size_t before = num_left;
    for (size_t stage = 0; stage < orders.size(); ++stage)
      for (size_t next = times.start[stage].size(); next < orders[stage].size(); ++next) {
        const PipePass& pass = orders[stage][next];
        const double input = ends.input(static_cast<int>(stage), pass);
        if (input < 0) break;
        const double start = std::max(input, free_at[stage]);
        times.start[stage].push_back(start);
        const size_t part = static_cast<size_t>(pass.chunk) * orders.size() + stage;
        free_at[stage] = ends.end(static_cast<int>(stage), pass) = start + pass_time(pass.is_forward, part);
        times.total = std::max(times.total, free_at[stage]);
        --num_left;
      }
    LOCKSTEP_CHECK(num_left < before, "schedule {} of {} stages waits for itself", schedule_name(shape.kind),
                   shape.num_stages);
  }
  return times;
}

std::vector<std::vector<PipePass>> all_orders(const PipeShape& shape) {
  std::vector<std::vector<PipePass>> orders;
  for (int stage = 0; stage < shape.num_stages; ++stage) orders.push_back(pass_order(shape, stage));
  return orders;
}

using SlotTransfers = std::map<int64_t, std::vector<PipeTransfer>>;

/// Adds the message that a pass ends with, if another stage needs it, to both sides at slot `slot`.
void add_message(const PipeShape& shape, int stage, const PipePass& pass, int64_t slot,
                 std::vector<SlotTransfers>& slots) {
  const int64_t part = int64_t{pass.chunk} * shape.num_stages + stage, target = pass.is_forward ? part + 1 : part - 1;
  if (target < 0 || target >= int64_t{shape.num_stages} * shape.num_chunks || shape.num_stages == 1) return;
  const int peer = static_cast<int>(target % shape.num_stages),
            peer_chunk = static_cast<int>(target / shape.num_stages);
  slots[static_cast<size_t>(stage)][slot].push_back({true, pass.is_forward, peer, pass.micro, pass.chunk});
  slots[static_cast<size_t>(peer)][slot].push_back({false, pass.is_forward, stage, pass.micro, peer_chunk});
}

/// The passes of a stage, each behind the exchanges of the slots before it.
std::vector<PipeAction> merge(const std::vector<PipePass>& order, const std::vector<double>& start,
                              const SlotTransfers& slots) {
  std::vector<PipeAction> actions;
  auto slot = slots.begin();
  const auto add_exchanges = [&](double until) {
    for (; slot != slots.end() && static_cast<double>(slot->first) <= until; ++slot)
      actions.push_back({.is_exchange = true, .transfers = slot->second});
  };
  for (size_t i = 0; i < order.size(); ++i) {
    add_exchanges(start[i]);
    actions.push_back({.pass = order[i]});
  }
  if (slot != slots.end()) add_exchanges(static_cast<double>(slots.rbegin()->first));
  return actions;
}

/// Legal numbers of micro-batches next to that at hand, times `factor`.
std::string nearest_counts(const PipeShape& shape, int64_t factor = 1) {
  const auto is_legal = [&](int64_t micro) {
    const int64_t rest = micro % shape.group_size();
    return micro >= shape.group_size() && (rest == 0 || rest >= shape.num_stages);
  };
  int64_t below = shape.num_micro_batches, above = shape.num_micro_batches;
  while (below > 0 && !is_legal(below)) --below;
  while (!is_legal(above)) ++above;
  return below > 0 ? fmt::format("{} or {}", below * factor, above * factor) : fmt::format("{}", above * factor);
}

}  // namespace

std::string_view schedule_name(ScheduleKind kind) {
  return kind == ScheduleKind::kGpipe ? "gpipe" : kind == ScheduleKind::kInterleaved ? "interleaved" : "1f1b";
}

std::vector<PipePass> PipeSchedule::passes_of(int stage) const {
  std::vector<PipePass> passes;
  for (const PipeAction& action : stages.at(static_cast<size_t>(stage)))
    if (!action.is_exchange) passes.push_back(action.pass);
  return passes;
}

void check_pipe_shape(const PipeShape& shape, int64_t micro_batch_size) {
  LOCKSTEP_CHECK(shape.num_stages >= 1 && shape.num_chunks >= 1 && shape.num_micro_batches >= 1 && shape.group >= 0,
                 "stages={} chunks={} micro={} group={}", shape.num_stages, shape.num_chunks, shape.num_micro_batches,
                 shape.group);
  LOCKSTEP_CHECK(shape.num_chunks == 1 || shape.kind == ScheduleKind::kInterleaved,
                 "{} chunks need the interleaved schedule", shape.num_chunks);
  if (shape.num_micro_batches > kMostPasses / (2 * int64_t{shape.num_stages} * shape.num_chunks))
    throw UsageError(
        fmt::format("plan: a step of {} micro-batches through {} stages with {} chunks has more than {} passes",
                    shape.num_micro_batches, shape.num_stages, shape.num_chunks, kMostPasses),
        "lower --global-batch-size, or raise --micro-batch-size");
  if (shape.kind != ScheduleKind::kInterleaved) return;
  if (shape.group_size() < shape.num_stages)
    throw UsageError(
        fmt::format("plan: groups of {} micro-batches are smaller than the number of stages, {}", shape.group_size(),
                    shape.num_stages),
        fmt::format("use --microbatch-group-size-per-virtual-pipeline-stage {} or more", shape.num_stages));
  const int64_t rest = shape.num_micro_batches % shape.group_size();
  if (shape.num_micro_batches >= shape.group_size() && (rest == 0 || rest >= shape.num_stages)) return;
  throw UsageError(fmt::format("plan: {} micro-batches per step do not fit the interleaved schedule: expected groups "
                               "of {}, the last with at least {}",
                               shape.num_micro_batches, shape.group_size(), shape.num_stages),
                   fmt::format("use --global-batch-size {}, which is {} micro-batches, or leave out virtual stages",
                               nearest_counts(shape, micro_batch_size), nearest_counts(shape)));
}

PipeSchedule make_pipe_schedule(const PipeShape& shape) {
  check_pipe_shape(shape);
  const auto orders = all_orders(shape);
  const PipeTimes times = time_orders(shape, orders, [](bool, size_t) { return 1.0; });
  std::vector<SlotTransfers> slots(orders.size());
  for (size_t stage = 0; stage < orders.size(); ++stage)
    for (size_t i = 0; i < orders[stage].size(); ++i)
      add_message(shape, static_cast<int>(stage), orders[stage][i], static_cast<int64_t>(times.start[stage][i]) + 1,
                  slots);
  PipeSchedule schedule{.shape = shape, .stages = {}};
  for (size_t stage = 0; stage < orders.size(); ++stage)
    schedule.stages.push_back(merge(orders[stage], times.start[stage], slots[stage]));
  return schedule;
}

namespace {
std::vector<std::vector<PipePass>> orders_of(const PipeSchedule& schedule) {
  std::vector<std::vector<PipePass>> orders;
  for (int stage = 0; stage < schedule.shape.num_stages; ++stage) orders.push_back(schedule.passes_of(stage));
  return orders;
}
}  // namespace

PipeTimes time_passes(const PipeSchedule& schedule, double forward_time, double backward_time) {
  return time_orders(schedule.shape, orders_of(schedule),
                     [&](bool is_forward, size_t) { return is_forward ? forward_time : backward_time; });
}

double idle_over_work(const PipeSchedule& schedule, const std::vector<double>& part_work) {
  constexpr double kBackward = 2;
  const PipeShape& shape = schedule.shape;
  LOCKSTEP_CHECK(part_work.size() == static_cast<size_t>(shape.num_stages) * static_cast<size_t>(shape.num_chunks),
                 "work of {} parts", part_work.size());
  const double total = time_orders(shape, orders_of(schedule), [&](bool is_forward, size_t part) {
                         return part_work[part] * (is_forward ? 1 : kBackward);
                       }).total;
  const double mean = std::accumulate(part_work.begin(), part_work.end(), 0.0) / shape.num_stages * (1 + kBackward) *
                      static_cast<double>(shape.num_micro_batches);
  return total / mean - 1;
}

int64_t peak_in_flight(const PipeShape& shape, int stage) {
  switch (shape.kind) {
    case ScheduleKind::kGpipe: return shape.num_micro_batches;
    case ScheduleKind::kOneForwardOneBackward:
      return std::min<int64_t>(shape.num_stages - stage, shape.num_micro_batches);
    case ScheduleKind::kInterleaved:
      return std::min(interleaved_warmup(shape, stage) + 1, shape.num_micro_batches * shape.num_chunks);
  }
  LOCKSTEP_CHECK(false, "kind {}", static_cast<int>(shape.kind));
}

double bubble_over_ideal(const PipeShape& shape) {
  return static_cast<double>(shape.num_stages - 1) /
         (static_cast<double>(shape.num_chunks) * static_cast<double>(shape.num_micro_batches));
}

}  // namespace lockstep::plan
