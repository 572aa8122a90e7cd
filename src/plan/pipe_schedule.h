#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

/// Order of the passes of one step.
enum class ScheduleKind {
  kGpipe,  ///< All forward passes, then all backward passes.
  kOneForwardOneBackward,
  kInterleaved,  ///< The same with several chunks (virtual stages) on each stage.
};
std::string_view schedule_name(ScheduleKind kind);  ///< "gpipe", "1f1b", "interleaved"

/// What a schedule is made for. Chunk c of stage r is number c x num_stages + r of the model's num_stages x num_chunks
/// parts.
struct PipeShape {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  int num_stages = 1;
  int num_chunks = 1;  ///< Per stage; 1 unless interleaved.
  int64_t num_micro_batches = 1;
  int64_t group = 0;  ///< Interleaved: micro-batches that a chunk takes in a row; 0: num_stages.
  int64_t group_size() const { return group > 0 ? group : num_stages; }
};

/// One pass of a micro-batch through a chunk.
struct PipePass {
  bool is_forward = true;
  int64_t micro = 0;
  int chunk = 0;
  friend bool operator==(const PipePass&, const PipePass&) = default;
};

/// One message. The activation between two parts goes forward, its gradient back.
struct PipeTransfer {
  bool is_send = true;
  bool is_activation = true;
  int peer = 0;  ///< Stage.
  int64_t micro = 0;
  int chunk = 0;  ///< Of this stage: whose result is sent, or whose input is received.
  friend bool operator==(const PipeTransfer&, const PipeTransfer&) = default;
};

/// A pass, or an exchange: messages that are started together.
struct PipeAction {
  bool is_exchange = false;
  PipePass pass = {};
  std::vector<PipeTransfer> transfers = {};
};

/// What each stage does in one step, in order.
///
/// Contract: an exchange starts all its messages at once and need not be waited for; a pass waits for the message that
/// is its input; what was sent must stay unchanged until the message has left. Between two stages messages match in the
/// order in which they are listed, at most one per direction and exchange. Started by blocking exchanges (every message
/// waits until the other side has come to it) the schedule ends all the same, because the two sides of every message
/// lie at the same slot of a common time table (see make_pipe_schedule).
struct PipeSchedule {
  PipeShape shape;
  std::vector<std::vector<PipeAction>> stages;
  std::vector<PipePass> passes_of(int stage) const;
};

/// UsageError for a shape that is no schedule: interleaved with fewer micro-batches than stages, or with a last group
/// smaller than the number of stages (it would only wait), with the nearest legal numbers of micro-batches, each of so
/// many samples over all ranks; more than 20 million passes.
void check_pipe_shape(const PipeShape& shape, int64_t micro_batch_size = 1);

/// The passes in the order of GPipe (Huang et al. 2018), 1F1B and interleaved 1F1B (Narayanan et al. 2021), with the
/// messages between them. The messages are placed by a time table in which every pass takes one slot and starts as
/// early as its order and its input allow: both sides exchange a message at the end of the slot in which it was made.
PipeSchedule make_pipe_schedule(const PipeShape& shape);

/// When every pass of a stage begins, if passes of a stage run in order, each takes the given time and messages take
/// none.
struct PipeTimes {
  std::vector<std::vector<double>> start;  ///< By stage, as passes_of.
  double total = 0;
};
PipeTimes time_passes(const PipeSchedule& schedule, double forward_time, double backward_time);

/// What the passes cost where parts have unequal work, by number of part: backward passes are two forward passes.
/// Returns the time that a step takes beyond the mean work of a stage, over that work: bubble_over_ideal where all
/// parts are equal.
double idle_over_work(const PipeSchedule& schedule, const std::vector<double>& part_work);

/// Most (micro-batch, chunk) pairs whose activations a stage keeps at once: those forwarded and not yet gone back.
int64_t peak_in_flight(const PipeShape& shape, int stage);

/// Time that every stage waits, over the time it works: (p - 1) / (v m) with equal stages and free messages.
double bubble_over_ideal(const PipeShape& shape);

/// A time table in characters, at most `width` columns wide; long ones show both ends and the middle. Every pass is one
/// cell.
std::string draw_schedule(const PipeSchedule& schedule, size_t width = 80);

}  // namespace lockstep::plan
