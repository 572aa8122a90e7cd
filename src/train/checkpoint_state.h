#pragma once
#include <vector>

#include "comm/comm.h"
#include "comm/named_tensor.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "train/stored_tensors.h"

namespace lockstep::train {

/// What a checkpoint holds beside the position. Where all ranks hold equal copies of tensors (data parallel; running
/// statistics are those of rank 0), rank 0 writes, and reads for all. The same holds for the optimiser unless it is
/// sharded: then each rank writes and reads its own part; and where ranks hold parts of the model each does so with all
/// it has. Outlives the checkpointer.
struct CheckpointState {
  /// Parameters and buffers -> model.safetensors, which --pretrained reads, too.
  std::vector<comm::NamedTensor> tensors;
  optim::Optimizer* optimizer = nullptr;  ///< -> optimizer.safetensors
  optim::LossScaler* scaler = nullptr;    ///< -> manifest
  comm::Comm* shards = nullptr;  ///< parallel::Partition::shards: the ranks among which the optimiser's state is cut.
  TensorLayout layout = {};
  /// With layout.holds_part: the ranks that hold the same parts, of which one reads for all; nullptr: each reads.
  comm::Comm* replicas = nullptr;
};

}  // namespace lockstep::train
