#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::fuzz {

/// A parser of foreign bytes. `run` feeds it; it may throw lockstep::Error of any code but kInternal.
struct Target {
  std::string name;
  /// Good inputs to begin with, beside fuzz/seeds/<name>/: files under tests/golden and recipes whose paths contain one
  /// of these texts.
  std::vector<std::string> seeds;
  std::function<void(std::span<const std::byte> bytes)> run;
  /// Longer inputs are not made: they take long and reach no more.
  size_t max_bytes = 4 << 10;
};

/// The longest inputs of formats that say little in a few bytes.
inline constexpr size_t kLongInput = 64 << 10;

/// Parsers of data and of the files beside them.
std::vector<Target> targets_of_data();
/// Parsers of what describes models; with LibTorch also of .pt files.
std::vector<Target> targets_of_models();
/// Parsers of what runs leave behind: records, logs, checkpoints.
std::vector<Target> targets_of_records();
/// Parsers of tables, sweeps, machines, commands.
std::vector<Target> targets_of_programs();

/// Those of the program that searches: of one of the files part_*.cpp.
const std::vector<Target>& searched_targets();

/// Those of fuzz/targets_files.cpp.
void add_targets_of_files(std::vector<Target>& list);
/// Those of fuzz/targets_torch.cpp; none in a build without LibTorch.
void add_targets_of_torch(std::vector<Target>& list);

/// Good inputs of a target and those that were once found, under the repository's folder `root`, sorted.
std::vector<std::filesystem::path> input_files(const Target& target, const std::filesystem::path& root);

/// Runs the target. Errors that an input may cause are passed over; what else it throws leaves this function.
void run_target(const Target& target, std::span<const std::byte> bytes);

}  // namespace lockstep::fuzz
