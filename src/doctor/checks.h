#pragma once
#include <span>
#include <vector>

#include "core/error.h"
#include "doctor/finding.h"
#include "doctor/question.h"
#include "hw/device_specs.h"

namespace lockstep::doctor {

/// A check of this machine and process, or of all ranks of a job.
struct CheckInfo {
  const char* name;
  const char* finds;  ///< In words, for docs/doctor.md.
  ExitCode code;      ///< Of the command when this check finds an error.
  /// nullptr: found by the meeting of the ranks (`--nodes`).
  void (*run)(const Question& question, Report& report);
};

/// The table of checks, in the order of the report.
std::span<const CheckInfo> checks();

/// Runs all checks of this machine. A check that fails to run is an error of its own; nothing is thrown.
std::vector<Finding> run_checks(const Question& question);

/// 0 unless there is an error (or, where `is_strict`, a warning); else the highest code of the checks that found one.
ExitCode exit_code_of(std::span<const Finding> findings, bool is_strict);

/// The system of the table that the user, the cluster's name or the host's name tells; nullptr where none does.
const hw::SystemSpec* system_here(const Question& question);

// The checks, one file for each group.
void check_ranks(const Question& question, Report& report);
void check_master(const Question& question, Report& report);
void check_interfaces(const Question& question, Report& report);
void check_variables(const Question& question, Report& report);
void check_infiniband(const Question& question, Report& report);
void check_libtorch(const Question& question, Report& report);
void check_gpus(const Question& question, Report& report);
void check_limits(const Question& question, Report& report);
void check_shared_memory(const Question& question, Report& report);
void check_cores(const Question& question, Report& report);
void check_memory(const Question& question, Report& report);
void check_folder(const Question& question, Report& report);
void check_locks(const Question& question, Report& report);
void check_data(const Question& question, Report& report);
void check_remote_data(const Question& question, Report& report);
void check_remote_sync(const Question& question, Report& report);
void check_copies(const Question& question, Report& report);
void check_memory_rate(const Question& question, Report& report);

}  // namespace lockstep::doctor
