#include "train/profile_summary.h"

#include <fmt/format.h>

#include <fstream>

#include "core/counted.h"
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
  return text +
         fmt::format("{:<14}{:>12.3f}   mean of {}, rank 0\n", "step", mean.sum(), core::counted(steps.size(), "step"));
}

std::string host_table(const std::vector<comm::RecorderEntry>& collectives, bool is_device, int64_t num_steps,
                       std::ofstream& csv) {
  csv << "type,axis,group_size,bytes,count,time_ms,blocked_ms\n";
  if (collectives.empty()) return "no collectives: one rank\n";
  std::string text = fmt::format("{:<16}{:<8}{:>12}{:>8}{:>12}{:>12}{:>12}\n", "collective", "axis", "bytes", "calls",
                                 "per step", is_device ? "host ms" : "ms/call", "blocked ms");
  for (const auto& entry : collectives) {
    csv << fmt::format("{},{},{},{},{},{},{}\n", entry.kind, entry.axis, entry.group_size, entry.bytes, entry.count,
                       entry.total_ms, entry.blocked_ms);
    text += fmt::format(
        "{:<16}{:<8}{:>12}{:>8}{:>12.1f}{:>12.3f}{:>12.3f}\n", entry.kind, entry.axis, entry.bytes, entry.count,
        static_cast<double>(entry.count) / static_cast<double>(std::max<int64_t>(1, num_steps)),
        entry.total_ms / static_cast<double>(entry.count), entry.blocked_ms / static_cast<double>(entry.count));
  }
  return text + (is_device
                     ? "host ms is what the host saw from the call to the end of its wait: queueing on a device, not "
                       "the time of the transfer; blocked is the part in which the host "
                       "stood still\n"
                     : "ms/call is the time in flight, from the call to the end of its wait: computing beneath it "
                       "and waiting for slower ranks are in it, and calls that overlap add\n"
                       "up to more than they took; blocked is the part in which the host stood still\n");
}

/// The kernels of the collectives, as the first traced rank ran them.
std::string device_table(const std::vector<record::DeviceCollective>& collectives, int64_t num_steps,
                         const std::filesystem::path& file) {
  if (collectives.empty()) return "the trace holds no kernels of collectives: their time on the device is not known\n";
  std::ofstream csv(file);
  csv << "type,dtype,elements,group_size,count,device_ms\n";
  std::string text = fmt::format("{:<16}{:<10}{:>14}{:>8}{:>8}{:>12}{:>12}\n", "on the device", "dtype", "elements",
                                 "ranks", "calls", "ms/call", "ms/step");
  const auto count_text = [](int64_t count) { return count > 0 ? fmt::format("{}", count) : std::string("-"); };
  for (const record::DeviceCollective& one : collectives) {
    csv << fmt::format("{},{},{},{},{},{}\n", one.kind, one.type, one.num_elements, one.group_size, one.count,
                       one.total_ms);
    text += fmt::format("{:<16}{:<10}{:>14}{:>8}{:>8}{:>12.3f}{:>12.3f}\n", one.kind, one.type.empty() ? "-" : one.type,
                        count_text(one.num_elements), count_text(one.group_size), one.count,
                        one.total_ms / static_cast<double>(one.count),
                        one.total_ms / static_cast<double>(std::max<int64_t>(1, num_steps)));
  }
  return text + "kernel times of the first traced rank; waiting for a slower rank is in them\n";
}

/// How long the device waited for the host, or for other ranks' data, between its kernels.
std::string use_table(const record::DeviceUse& use, int64_t num_steps, const std::filesystem::path& file) {
  const double idle_ms = use.span_ms - use.busy_ms, idle_percent = 100 * idle_ms / use.span_ms;
  std::ofstream csv(file);
  csv << "span_ms,busy_ms,idle_pct,gaps,longest_gap_ms\n"
      << fmt::format("{},{},{},{},{}\n", use.span_ms, use.busy_ms, idle_percent, use.num_gaps, use.longest_gap_ms);
  const double steps = static_cast<double>(std::max<int64_t>(1, num_steps));
  return fmt::format(
      "the device ran no kernel and no copy for {:.3f} of {:.3f} ms a step ({:.1f} %): {:.0f} gaps a\n"
      "step, the longest {:.3f} ms; of the first traced rank\n",
      idle_ms / steps, use.span_ms / steps, idle_percent, static_cast<double>(use.num_gaps) / steps,
      use.longest_gap_ms);
}

}  // namespace

std::string write_profile_summary(const std::filesystem::path& run_folder, int64_t first_step, int64_t end_step,
                                  const ProfiledCollectives& collectives) {
  std::vector<record::StepRecord> steps;
  for (auto& step : record::read_steps(run_folder).steps)
    if (step.step >= first_step && step.step < end_step) steps.push_back(std::move(step));
  std::filesystem::create_directories(run_folder / "profile");
  std::ofstream phases(run_folder / "profile/phases.csv"), calls(run_folder / "profile/collectives.csv");
  const auto num_steps = static_cast<int64_t>(steps.size());
  std::string text =
      phase_table(steps, phases) + "\n" + host_table(collectives.on_host, collectives.is_device, num_steps, calls);
  if (collectives.is_device && !collectives.on_host.empty())
    text += "\n" +
            device_table(collectives.on_device.collectives, num_steps, run_folder / "profile/collectives_device.csv");
  if (collectives.on_device.use)
    text += "\n" + use_table(*collectives.on_device.use, num_steps, run_folder / "profile/device.csv");
  return text;
}

}  // namespace lockstep::train
