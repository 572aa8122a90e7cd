#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "logs/logs.h"

namespace lockstep::logs {

/// Reads a log that holds one run.
inline record::RunData read_one(const std::filesystem::path& path, std::optional<LogFormat> format = std::nullopt,
                                const LogOptions& options = {}) {
  std::vector<record::RunData> runs = read_log(path, format, options);
  EXPECT_EQ(runs.size(), 1u) << path;
  return std::move(runs.front());
}

}  // namespace lockstep::logs
