#pragma once
#include <filesystem>
#include <fstream>
#include <string>

#include "record/run_data.h"

namespace lockstep::tests {

inline void append_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

inline bool has_problem(const record::RunData& run, const std::string& words) {
  for (const std::string& problem : run.problems)
    if (problem.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace lockstep::tests
