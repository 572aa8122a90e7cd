#include "train/profile_summary.h"

#include <fmt/format.h>

#include <fstream>

#include "record/reader.h"
#include "train/phase_clock.h"

namespace lockstep::train {
namespace {

std::string phase_table(const std::vector<record::StepRecord>& steps, std::ofstream& csv) {
  csv << "phase,ms_per_step,share_pct\n";
  if (steps.empty()) return "no step was profiled\n";
  PhaseTimes mean;
  for (const auto& step : steps)
    for (size_t i = 0; i < step.phases_ms.size() && i < mean.ms.size(); ++i) mean.ms[i] += step.phases_ms[i].second;
  mean /= static_cast<double>(steps.size());
  std::string text = fmt::format("{:<14}{:>12}{:>9}\n", "phase", "ms/step", "share");
  for (int i = 0; i < kNumPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    const double share = 100 * mean[phase] / mean.sum();
    csv << fmt::format("{},{},{}\n", to_text(phase), mean[phase], share);
    text += fmt::format("{:<14}{:>12.3f}{:>7.1f} %\n", to_text(phase), mean[phase], share);
  }
  return text + fmt::format("{:<14}{:>12.3f}   mean of {} steps, rank 0\n", "step", mean.sum(), steps.size());
}

std::string collective_table(const std::vector<comm::RecorderEntry>& collectives, int group_size, int64_t num_steps, std::ofstream& csv) {
  csv << "type,axis,group_size,bytes,count,time_ms,blocked_ms\n";
  if (collectives.empty()) return "no collectives: one rank\n";
  std::string text = fmt::format("{:<16}{:<8}{:>12}{:>8}{:>12}{:>12}{:>12}\n", "collective", "axis", "bytes", "calls", "per step", "ms/call", "blocked ms");
  for (const auto& entry : collectives) {
    csv << fmt::format("{},{},{},{},{},{},{}\n", entry.kind, entry.axis, group_size, entry.bytes, entry.count, entry.total_ms, entry.blocked_ms);
    text += fmt::format("{:<16}{:<8}{:>12}{:>8}{:>12.1f}{:>12.3f}{:>12.3f}\n", entry.kind, entry.axis, entry.bytes, entry.count,
                        static_cast<double>(entry.count) / static_cast<double>(std::max<int64_t>(1, num_steps)),
                        entry.total_ms / static_cast<double>(entry.count), entry.blocked_ms / static_cast<double>(entry.count));
  }
  return text + "ms/call runs from the call to the end of its wait; blocked is the part in which the host stood still\n";
}

}  // namespace

std::string write_profile_summary(const std::filesystem::path& run_folder, int64_t first_step, int64_t end_step, int group_size,
                                  const std::vector<comm::RecorderEntry>& collectives) {
  std::vector<record::StepRecord> steps;
  for (auto& step : record::read_steps(run_folder).steps)
    if (step.step >= first_step && step.step < end_step) steps.push_back(std::move(step));
  std::filesystem::create_directories(run_folder / "profile");
  std::ofstream phases(run_folder / "profile/phases.csv"), calls(run_folder / "profile/collectives.csv");
  return phase_table(steps, phases) + "\n" + collective_table(collectives, group_size, static_cast<int64_t>(steps.size()), calls);
}

}  // namespace lockstep::train
