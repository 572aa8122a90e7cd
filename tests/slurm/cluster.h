#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "commands/run_program.h"
#include "core/strings.h"

namespace lockstep::tests {

/// Runs a command beside a SLURM cluster that lives as long as it.
inline const std::string kCluster = std::string(LOCKSTEP_SOURCE_DIR) + "/tools/onebox_slurm.sh";

/// Why no cluster can train here; "" where one can.
inline std::string reason_against_cluster() {
  const auto check = run_program({kCluster, "--check"});
  if (check.exit_code == 6) return std::string(core::trim(check.err));
  EXPECT_EQ(check.exit_code, 0) << check.err;
  return std::filesystem::exists(std::string(LOCKSTEP_BUILD_DIR) + "/lockstep-engine")
             ? ""
             : "built without lockstep-engine";
}

}  // namespace lockstep::tests
