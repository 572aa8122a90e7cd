#pragma once
#include <memory>
#include <vector>

#include "core/json.h"
#include "data/loader.h"
#include "models/task.h"
#include "train/batch_mover.h"
#include "train/phase_clock.h"

namespace lockstep::train {

/// The micro-batches of a rank, in order.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next one on the device. Tells `phases` when it had been waited for, and when it was on its way to the device.
  virtual models::Batch next(PhaseClock& phases) = 0;
  virtual core::Json position() const = 0;  ///< Behind the last batch handed out.
  /// The positions of all ranks as one, from which a source of any rank goes on.
  virtual core::Json join_positions(const std::vector<core::Json>& of_ranks) const = 0;
  /// The loader that knows of bad samples; nullptr: there is none.
  virtual const data::Loader* loader() const { return nullptr; }
};

/// Batches of a loader, whose decoding runs ahead in threads. `mover` outlives the source.
std::unique_ptr<BatchSource> make_loader_batches(std::unique_ptr<data::Loader> loader, const BatchMover& mover);

}  // namespace lockstep::train
