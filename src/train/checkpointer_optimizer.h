#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/checkpointer.h"
#include "train/checkpointer_writer.h"

namespace lockstep::train {

/// "optimizer.safetensors" of one part, else "optimizer-00001-of-00004.safetensors".
std::string optimizer_file_name(int part, int num_parts);
bool is_optimizer_file(const std::string& name);

/// What this rank's optimiser holds, as files name it: exp_avg.NAME, exp_avg_sq.NAME, step.NAME, and master.NAME where the segment is a
/// master copy. Whole parameters have their shape; pieces of a shard are flat, in the order of the parameter's memory.
NamedHandles optimizer_tensors(const CheckpointState& state);
/// Goes with a part's tensors: where each piece begins within its parameter's memory, and that memory's strides.
std::map<std::string, std::string> optimizer_metadata(const CheckpointState& state);

/// Fills what this rank's optimiser holds from the optimiser files of a checkpoint, whoever wrote them: whole ones, or shards of any number
/// of ranks. CheckpointError names what is missing, too much or of another shape.
void read_optimizer(const std::filesystem::path& folder, const std::vector<std::string>& files, const CheckpointState& state);

}  // namespace lockstep::train
