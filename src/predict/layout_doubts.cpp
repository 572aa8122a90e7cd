#include "predict/layout_doubts.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::predict {
namespace {

// Of a parameter in mixed precision: weights and gradients in 16 and 32 bits, master copy and two moments of Adam.
constexpr double kBytesPerParameter = 18, kBytesBesideStates = 6;

const Size& smallest_size(const std::vector<CurvePoint>& points) {
  const Size* smallest = &points.front().measured.size;
  for (const CurvePoint& point : points)
    if (point.measured.size.devices < smallest->devices) smallest = &point.measured.size;
  return *smallest;
}

/// More tensor ranks, stages and context ranks than the smallest size has devices.
std::string ranks_text(const WorkFacts& work, const Size& size) {
  const double ranks = work.replica_devices();
  if (ranks <= size.devices) return "";
  return fmt::format(
      "The layout that the table tells needs {:g} devices for a copy of the model ({} tensor ranks x {} stages), its "
      "smallest calibrated size has {:g}: is the layout that of other rows?",
      ranks, work.tp, work.pp, size.devices);
}

/// States of the optimizer may be shared by all data ranks, whether it is told or not: what is left is the least.
std::string memory_text(const WorkFacts& work, const Machine& machine, const Size& size) {
  const double parameters = work.held_parameters(), replica = work.replica_devices();
  const double whole = kBytesPerParameter * parameters / replica;
  const bool is_sharded = work.sharding == Sharding::kFull;
  const double least =
      is_sharded ? kBytesPerParameter * parameters / std::max(replica, size.devices)
                 : kBytesBesideStates * parameters / replica +
                       (kBytesPerParameter - kBytesBesideStates) * parameters / std::max(replica, size.devices);
  const double memory = machine.memory_gbytes.value * 1e9;
  if (memory <= 0 || least <= memory) return "";
  const std::string needed =
      is_sharded
          ? fmt::format("about {:.0f} GB a device, sharded over {:g}", least / 1e9, size.devices)
          : fmt::format("about {:.0f} GB a device ({:.0f} GB with a sharded optimizer)", whole / 1e9, least / 1e9);
  return fmt::format(
      "Model and layout that the table tells need {} for weights, gradients and states alone, {} has {:g} GB: is the "
      "layout, the model or the device another one?",
      needed, machine.device.empty() ? machine.name : machine.device, machine.memory_gbytes.value);
}
}  // namespace

std::vector<std::string> layout_doubts(const MeasuredCurve& curve, const std::vector<CurvePoint>& calibration) {
  const WorkFacts& work = curve.work;
  if (work.is_layout_assumed || calibration.empty()) return {};
  std::vector<std::string> doubts;
  const Size& size = smallest_size(calibration);
  if (std::string text = ranks_text(work, size); !text.empty()) doubts.push_back(std::move(text));
  const bool is_layout_told = work.replica_devices() > 1 || work.sharding == Sharding::kFull;
  if (!work.parameters || !curve.machine || !is_layout_told) return doubts;
  if (std::string text = memory_text(work, *curve.machine, size); !text.empty()) doubts.push_back(std::move(text));
  return doubts;
}

}  // namespace lockstep::predict
