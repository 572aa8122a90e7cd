// The relocatable archive: unpacked into another folder it runs the short form of the demo, which is the whole main job
// on real input.
#include <gtest/gtest.h>

#include "commands/engine_test.h"
#include "commands/run_program.h"
#include "core/env.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "record/reader.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

std::string last_line(const std::string& text) {
  const auto lines = core::split(core::trim(text), "\n");
  return lines.back();
}

class Package : public EngineTest {};

TEST_F(Package, UnpackedCopyRunsTheDemo) {
  const auto packed = run_program({std::string(LOCKSTEP_SOURCE_DIR) + "/tools/package.sh", LOCKSTEP_BUILD_DIR}, {},
                                  std::chrono::minutes(5));
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  const core::TempDir folder("lockstep package");  // a space in the path: nothing may depend on its absence
  ASSERT_EQ(run_program({"/bin/tar", "-C", folder.path().string(), "-xzf", last_line(packed.out)}).exit_code, 0);
  const fs::path unpacked = fs::directory_iterator(folder.path())->path();
  const std::string program = (unpacked / "bin/lockstep").string();

  const auto version = run_program({program, "--version"});
  ASSERT_EQ(version.exit_code, 0) << version.err;
  EXPECT_NE(version.out.find("2.11.0"), std::string::npos) << version.out;

  // No library but LibTorch and the C library's own may come from outside the archive.
  const auto needs = run_program({"/usr/bin/ldd", program});
  for (const auto& line : core::split(needs.out, "\n")) {
    const bool is_system = line.find("libc.so") != std::string::npos || line.find("libm.so") != std::string::npos ||
                           line.find("libpthread.so") != std::string::npos;
    if (line.find("=> /") != std::string::npos && !is_system) {
      EXPECT_NE(line.find(folder.path().string()), std::string::npos) << line;
    }
  }

  const fs::path demo = folder.path() / "demo";
  const auto done =
      run_program({(unpacked / "share/lockstep/examples/demo/demo.sh").string(), program, demo.string(), "--short"},
                  {{"XDG_CACHE_HOME", folder.path().string()}}, std::chrono::minutes(8));
  ASSERT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_NE(done.out.find("zero-shot accuracy, 28 classes"), std::string::npos) << done.out;
  EXPECT_EQ(record::read_status(demo / "logs/demo").attempt, 2);
  EXPECT_EQ(record::read_status(demo / "logs/demo").state, "finished");
  EXPECT_EQ(record::read_steps(demo / "logs/demo").steps.size(), 12u);  // 768 pictures, 128 a step, 2 epochs
}

TEST_F(Package, WithoutLibTorchTheEngineSaysWhatIsMissing) {
  const core::TempDir empty;
  const auto done = run_lockstep(
      {"train", "clip", "--dataset-type", "synthetic", "--train-num-samples", "8", "--logs", empty.path().string()},
      {{"LOCKSTEP_TORCH_DIR", empty.path().string()}});
  EXPECT_EQ(done.exit_code, 6) << done.err;
  EXPECT_NE(done.err.find("LOCKSTEP_TORCH_DIR"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace lockstep::tests
