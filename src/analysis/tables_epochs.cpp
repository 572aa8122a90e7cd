#include "analysis/tables_epochs.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/cells.h"
#include "core/counted.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {

/// A size of a configuration, whatever the system.
struct ComparedSize {
  std::string configuration;
  bool is_by_devices = false;
  int64_t size = 0;
  auto operator<=>(const ComparedSize&) const = default;
};

/// As its runs name it, or a tag of their sweep.
std::string system_of(const Curve& curve) {
  if (curve.points.empty()) return "";
  const record::RunSetup& setup = curve.points.front().setup;
  const auto tag = setup.tags.find("system");
  return setup.system.empty() && tag != setup.tags.end() ? tag->second : setup.system;
}

std::string without_system(const Curve& curve) {
  const std::string system = system_of(curve);
  std::string name = curve.name;
  for (const std::string& part : {" on " + system, ", system " + system}) name = core::replace_all(name, part, "");
  return name;
}

}  // namespace

draw::Table epoch_table(const Curve& curve) {
  draw::Table table{.id = "epochs-" + curve.id, .title = "Epochs and input: " + curve.name, .caption = {}};
  table.caption =
      "Medians of whole epochs after the first: an epoch lasts from the end of the one before to its own last step, so "
      "that a validation between them is in it; its training part lasts from its first step to its last. Waiting for "
      "data: share of the steps that were measured.";
  table.columns = {text_column("size", "size"),
                   column("epoch (s)", "epoch_s"),
                   column("training part (s)", "epoch_train_s"),
                   column("rest (%)", "epoch_rest_percent"),
                   column("samples", "epoch_samples"),
                   column("waiting for data (%)", "data_wait_percent")};
  bool are_all_timed = true;
  for (const Point& point : curve.points) {
    if (!std::isfinite(point.epoch_train_s)) continue;
    const auto whole = [&](draw::Cell cell) {
      return std::isfinite(point.epoch_s) ? std::move(cell) : missing_cell("the log has no times of day");
    };
    are_all_timed = are_all_timed && std::isfinite(point.epoch_s);
    table.rows.push_back({text_cell(size_text(curve, point.size)), whole(figure_cell(point.epoch_s)),
                          figure_cell(point.epoch_train_s),
                          whole(percent_cell(1 - point.epoch_train_s / point.epoch_s)),
                          fixed_cell(point.epoch_samples, 0), percent_cell(point.data_wait_share, 2)});
  }
  if (!are_all_timed) table.caption += " Without times of day the training part is the sum of the log's batch times.";
  return table;
}

draw::Table system_table(const Analysis& analysis) {
  draw::Table table{.id = "systems", .title = "Systems compared", .caption = {}};
  std::set<std::string> systems;
  std::map<ComparedSize, std::map<std::string, const Point*>> points;
  for (const Curve& curve : analysis.curves) {
    const std::string system = system_of(curve);
    if (system.empty()) continue;
    systems.insert(system);
    for (const Point& point : curve.points)
      if (std::isfinite(point.samples_per_s.value) && point.devices > 0)
        points[{without_system(curve), curve.is_by_devices, point.size}][system] = &point;
  }
  if (systems.size() < 2) return table;
  table.caption =
      "Samples per second and device from the median step, and efficiency over the system's own smallest size. A "
      "faster device has the lower efficiency with the same network: rates compare systems, efficiencies do not.";
  table.columns = {text_column("configuration", "configuration"), text_column("size", "size")};
  for (const std::string& system : systems) {
    table.columns.push_back(column(system + " (per device)", "rate_" + system));
    table.columns.push_back(column(system + ", E (%)", "efficiency_" + system));
  }
  for (const auto& [key, of_systems] : points) {
    if (of_systems.size() < 2) continue;
    std::vector<draw::Cell> row = {text_cell(key.configuration),
                                   text_cell(core::counted(key.size, key.is_by_devices ? "device" : "node"))};
    for (const std::string& system : systems) {
      const auto found = of_systems.find(system);
      if (found == of_systems.end()) {
        row.insert(row.end(), 2, missing_cell("no run of this size"));
        continue;
      }
      const Point& point = *found->second;
      row.push_back(figure_cell(point.samples_per_s.value / static_cast<double>(point.devices)));
      row.push_back(percent_cell(point.efficiency.value));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace lockstep::analysis
