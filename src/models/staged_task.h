#pragma once
#include <cstdint>
#include <vector>

#include "models/task.h"

namespace lockstep::models {

/// A Task whose network can be cut between blocks. A rank holds one or more chunks, runs of consecutive blocks; what
/// flows between chunks is one tensor. forward() is forward_chunk() of all chunks in turn and needs all of them on this
/// rank.
class StagedTask : public Task {
 public:
  /// Chunk `chunk` of this rank's. `input` is what the chunk before gave, undefined for the one that holds the
  /// embedding. Every chunk needs the batch's positions and documents, where it has some. The chunk with the head fills
  /// the loss, others `boundary`.
  virtual Outputs forward_chunk(int64_t chunk, const at::Tensor& input, const Batch& batch) = 0;
  /// Shape of `boundary` for a micro-batch of so many samples; its type is that of the network's computation.
  virtual std::vector<int64_t> boundary_shape(int64_t num_samples) const = 0;
  /// After the last pass of a training step, before parameters change. Collective over all ranks that have the same
  /// blocks.
  virtual void finish_step() = 0;
};

}  // namespace lockstep::models
