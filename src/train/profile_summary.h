#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "comm/recorder.h"
#include "record/trace.h"

namespace lockstep::train {

/// What a profile knows of collectives and of the device: the host's clock always, the device's where the trace has
/// its kernels.
struct ProfiledCollectives {
  const std::vector<comm::RecorderEntry>& on_host;
  record::DeviceTrace on_device{};
  bool is_device = false;  ///< The host's times are those of queueing.
};

/// Tables of a profile: mean time by phase over steps [first_step, end_step) of the record in `run_folder`, and the
/// collectives of these steps. Written as profile/phases.csv, profile/collectives.csv and, where kernels were traced,
/// profile/collectives_device.csv and profile/device.csv; returned as text for people.
std::string write_profile_summary(const std::filesystem::path& run_folder, int64_t first_step, int64_t end_step,
                                  const ProfiledCollectives& collectives);

}  // namespace lockstep::train
