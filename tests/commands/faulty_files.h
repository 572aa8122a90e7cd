#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "commands/run_program.h"
#include "core/files.h"
#include "support/sanitizers.h"

namespace lockstep::tests {

/// Files that fail: tools/faulty_files.c, built for a test. Not with the address sanitizer, whose library must be the
/// first of a process.
class FaultyFiles {
 public:
  FaultyFiles() {
    const auto built = run_program({"/usr/bin/cc", "-O1", "-shared", "-fPIC", "-o", library_.string(),
                                    std::string(LOCKSTEP_SOURCE_DIR) + "/tools/faulty_files.c", "-ldl"});
    EXPECT_EQ(built.exit_code, 0) << built.err;
  }
  /// The environment of a command for which `fault`, a line of that file's head, holds below `path`.
  EnvChanges environment(const std::filesystem::path& path, const std::string& fault) const {
    core::write_file_atomic(trigger_, fault + "\n");
    return {{"LD_PRELOAD", library_.string()}, {"FAULTY_FOLDER", path.string()}, {"FAULTY_TRIGGER", trigger_.string()}};
  }

 private:
  core::TempDir folder_{"lockstep_faulty"};
  std::filesystem::path library_ = folder_.path() / "faulty_files.so", trigger_ = folder_.path() / "trigger";
};

}  // namespace lockstep::tests
