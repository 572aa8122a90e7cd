#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"

namespace lockstep::train {

/// By how much a plan may be above the memory that is there before a run is refused: some of what is counted together
/// never exists together.
inline constexpr double kPlanMargin = 1.1;

/// What the ranks of a run are planned to hold, from shapes alone.
struct PlannedMemory {
  std::string model;
  std::vector<double> bytes_of_ranks;                                 ///< Of every rank of the world.
  std::vector<std::pair<std::string, double>> parts_of_fullest = {};  ///< Name and bytes, of the rank that holds most.
  std::string hint;                    ///< What makes it smaller, with the task's own flags.
  std::string shown_by = "--dry-run";  ///< The command's flag that shows the plan by part.
};

/// EnvironmentError with both sizes, and what takes most, where `planned_bytes` are beyond the memory of a device (or
/// machine) and the margin.
void refuse_beyond_memory(const PlannedMemory& plan, double planned_bytes, double bytes, const std::string& device);

/// The same on every rank where one is planned to hold more than its device has, or on the CPU the ranks of a machine
/// more than that has. Before anything is made. Collective.
void check_memory_fits(const PlannedMemory& plan, comm::Comm& world, at::Device device);

}  // namespace lockstep::train
