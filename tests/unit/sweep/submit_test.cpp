#include "sweep/submit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/strings.h"
#include "sweep/follow.h"
#include "unit/sweep/fake_slurm.h"

namespace lockstep::sweep {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  auto lines = core::split(text, "\n");
  lines.pop_back();
  return lines;
}

TEST(Submit, OneJobAtATimeDependsOnTheOneBefore) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep("[submit]\nin-flight = 1\n");
  EXPECT_EQ(submit_points(sweep.folder, sweep.state, sweep.state.submit_order, Slurm()), 3u);
  const auto lines = lines_of(fake.read("sbatch.log"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("--dependency"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("--dependency=afterany:101"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("--dependency=afterany:102"), std::string::npos) << lines[2];
  EXPECT_NE(lines[2].find("jobs/0003.sh"), std::string::npos) << lines[2];
  const SweepState read = read_state(sweep.folder);
  EXPECT_EQ(read.mode, "slurm");
  EXPECT_EQ(read.points[1].jobs.at(0).id, "102");
  EXPECT_EQ(read.points[1].jobs.at(0).after, "101");
  EXPECT_EQ(read.points[1].status, PointStatus::kQueued);
}

TEST(Submit, TwoInFlightMakeTwoLanes) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep("[submit]\nin-flight = 2\n");
  submit_points(sweep.folder, sweep.state, {1, 2}, Slurm());
  sweep.point(0).status = PointStatus::kFinished;
  submit_points(sweep.folder, sweep.state, {3}, Slurm());  // one of two lanes is free again
  sweep.point(0).status = PointStatus::kFailed;
  submit_points(sweep.folder, sweep.state, {1}, Slurm());
  const auto lines = lines_of(fake.read("sbatch.log"));
  ASSERT_EQ(lines.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lines[i].find("--dependency"), std::string::npos) << lines[i];
  EXPECT_NE(lines[3].find("--dependency=afterany:102"), std::string::npos) << lines[3];
  EXPECT_EQ(sweep.point(0).jobs.size(), 2u);
}

TEST(Submit, SingletonsShareAName) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep("[submit]\nhow = \"singleton\"\n");
  submit_points(sweep.folder, sweep.state, sweep.state.submit_order, Slurm());
  for (const auto& line : lines_of(fake.read("sbatch.log")))
    EXPECT_NE(line.find("--dependency=singleton"), std::string::npos) << line;
  for (const PointRecord& point : sweep.state.points)
    EXPECT_NE(core::read_file(sweep.folder / point.script).find("#SBATCH --job-name=s\n"), std::string::npos);
}

TEST(Submit, ArraysHoldPointsWithTheSameRequest) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep(
      "lr = 1e-3\n[[case]]\nname = \"a\"\ntrain = { seed = 1 }\n[[case]]\nname = \"b\"\ntrain = { seed = 2 "
      "}\n[submit]\nhow = \"arrays\"\nin-flight = 1\n");
  EXPECT_EQ(submit_points(sweep.folder, sweep.state, sweep.state.submit_order, Slurm()), 6u);
  const auto lines = lines_of(fake.read("sbatch.log"));
  ASSERT_EQ(lines.size(), 3u);  // one array for each node count
  EXPECT_NE(lines[0].find("--array=0-1%1"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("--dependency"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("--dependency=afterany:101"), std::string::npos) << lines[1];
  const std::string script = core::read_file(sweep.folder / "jobs/array-0001.sh");
  EXPECT_NE(script.find("#SBATCH --nodes=1\n"), std::string::npos) << script;
  EXPECT_NE(script.find("/jobs/0001.sh\n  "), std::string::npos) << script;
  EXPECT_NE(script.find("/jobs/0004.sh\n)"), std::string::npos) << script;
  EXPECT_EQ(sweep.state.point(4).jobs.at(0).id, "101_1");
  EXPECT_EQ(sweep.state.point(5).jobs.at(0).id, "102_1");
}

TEST(Submit, ArraysLieInFoldersOfAnyName) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep("[submit]\nhow = \"arrays\"\n");
  const std::filesystem::path folder = sweep.top.path() / "my runs #1";
  std::filesystem::rename(sweep.folder, folder);
  submit_points(folder, sweep.state, sweep.state.submit_order, Slurm());
  const std::string script = core::read_file(folder / "jobs/array-0001.sh");
  EXPECT_NE(script.find("\n#SBATCH --output=\"" + (folder / "logs/array-%A_%a.out").string() + "\"\n"),
            std::string::npos)
      << script;
}

TEST(Submit, ARefusedJobStopsAndIsToldAndNothingIsLost) {
  const FakePrograms fake;
  fake.add("sbatch", "case \"$*\" in *0002.sh) echo 'sbatch: error: Invalid account' >&2; exit 1;; esac\necho 7\n");
  SweepFixture sweep;
  try {
    submit_points(sweep.folder, sweep.state, sweep.state.submit_order, Slurm());
    FAIL() << "accepted";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("sbatch ended with exit code 1: sbatch: error: Invalid account"),
              std::string::npos)
        << error.what();
  }
  const SweepState read = read_state(sweep.folder);
  EXPECT_EQ(read.points[0].status, PointStatus::kQueued);
  EXPECT_EQ(read.points[1].status, PointStatus::kPlanned);
  EXPECT_EQ(read.points[2].status, PointStatus::kPlanned);
}

TEST(Submit, WhatNothingWasTakenOfMayBecomeAnotherSweep) {
  const FakePrograms fake;
  fake.add("sbatch", "echo 'sbatch: error: invalid partition specified: gpux' >&2; exit 1\n");
  SweepFixture sweep("[slurm]\npartition = \"gpux\"\n");
  EXPECT_THROW(submit_points(sweep.folder, sweep.state, sweep.state.submit_order, Slurm()), EnvironmentError);
  EXPECT_EQ(read_state(sweep.folder).mode, "") << "so --local is not refused";
  const auto corrected = [&](const std::string& nodes, const std::string& partition) {
    const SweepFile file = parse_sweep_file("name = \"s\"\n[axes]\nnodes = " + nodes +
                                                "\n[train]\nmodel = \"ViT-B-32\"\ntrain-data = \"d.tar\"\n[slurm]\n"
                                                "partition = \"" +
                                                partition + "\"\n",
                                            "f.toml");
    const Plan plan = make_plan(file, [](const std::string&) { return std::nullopt; });
    return write_sweep(file, plan, sweep.folder, "/bin/true");
  };
  SweepState state = corrected("[1, 2]", "gpu");
  EXPECT_EQ(state.points.size(), 2u);
  EXPECT_NE(core::read_file(sweep.folder / "jobs/0001.sh").find("--partition=gpu\n"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(sweep.folder / "jobs/0003.sh")) << "the script of a point that is no more";
  fake.add_sbatch();
  EXPECT_EQ(submit_points(sweep.folder, state, {1}, Slurm()), 1u);
  EXPECT_THROW(corrected("[1, 2, 4]", "gpu"), UsageError) << "a job was taken";
  EXPECT_EQ(corrected("[1, 2]", "gpu").points[0].jobs.at(0).id, "101");
}

TEST(Submit, RequestsOfSubmittedPointsStay) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep("[slurm]\ntime = \"00:10:00\"\ncpus-per-task = 4\n[submit]\nhow = \"arrays\"\n");
  ASSERT_EQ(submit_points(sweep.folder, sweep.state, {1, 2}, Slurm()), 2u);
  const auto script = [&](int index) { return core::read_file(sweep.folder / fmt::format("jobs/{:04}.sh", index)); };
  const std::string first = script(1);
  const auto write_changed = [&](const std::string& from, const std::string& to) {
    const SweepFile file = parse_sweep_file(core::replace_all(sweep.file.text, from, to), "f.toml");
    const Plan plan = make_plan(file, [](const std::string&) { return std::nullopt; });
    return write_sweep(file, plan, sweep.folder, "/bin/true");
  };
  const auto refusal = [&](const std::string& from, const std::string& to) -> std::string {
    try {
      write_changed(from, to);
    } catch (const UsageError& error) {
      return error.text();
    }
    return "";
  };
  const std::string longer = refusal("00:10:00", "00:20:00");
  EXPECT_NE(longer.find("point 0001 was submitted (job 101_0)"), std::string::npos) << longer;
  EXPECT_NE(longer.find("'#SBATCH --time=00:10:00' became '#SBATCH --time=00:20:00'"), std::string::npos) << longer;
  EXPECT_NE(longer.find("lockstep sweep cancel " + sweep.folder.string()), std::string::npos) << longer;
  const std::string once = refusal("cpus-per-task = 4", "cpus-per-task = 4\nmax-requeues = 1");
  EXPECT_NE(once.find("-lt 1 ]"), std::string::npos) << once;
  const std::string cores = refusal("cpus-per-task = 4", "cpus-per-task = 8");
  EXPECT_NE(cores.find("'#SBATCH --cpus-per-task=4' became '#SBATCH --cpus-per-task=8'"), std::string::npos) << cores;
  EXPECT_EQ(script(1), first);
  EXPECT_EQ(core::read_file(sweep.folder / "sweep.toml"), sweep.file.text) << "the copy of what was submitted";
  // The third point has no job yet.
  write_changed("[submit]", "[when.\"nodes == 4\".slurm]\ntime = \"00:30:00\"\n[submit]");
  EXPECT_NE(script(3).find("--time=00:30:00\n"), std::string::npos);
  // Where another version of the program wrote the script, the point was submitted with that one.
  core::write_file_atomic(sweep.folder / "jobs/0001.sh", "#!/bin/bash\n# as it was written then\n");
  write_changed("f.toml", "f.toml");
  EXPECT_EQ(script(1), "#!/bin/bash\n# as it was written then\n");
  // Their jobs have ended: what is started again may take longer.
  SweepState state = read_state(sweep.folder);
  for (PointRecord& point : state.points) point.status = PointStatus::kStopped;
  write_state(sweep.folder, state);
  EXPECT_EQ(write_changed("00:10:00", "00:20:00").points[0].time_limit_s, 1200);
  EXPECT_NE(script(1).find("--time=00:20:00\n"), std::string::npos);
  EXPECT_NE(refusal("cpus-per-task = 4", "cpus-per-task = 8").find("holds another sweep"), std::string::npos);
}

TEST(Submit, ARunWithoutAJobKeepsItsSweep) {
  SweepFixture sweep;
  sweep.record(0, "finished", "", 1);  // made by hand, or before sweep.json was lost
  SweepFixture other("lr = 0.5\n");
  EXPECT_THROW(write_sweep(other.file, other.plan, sweep.folder, "/bin/true"), UsageError);
}

TEST(Submit, ASignalStopsBetweenTwoJobsAndTheRestGoesLater) {
  const FakePrograms fake;
  fake.add("sbatch", "echo \"$@\" >>'" + fake.path("sbatch.log") + "'\nkill -INT $PPID\nsleep 0.05\nwc -l <'" +
                         fake.path("sbatch.log") + "'\n");
  SweepFixture sweep;
  EXPECT_EQ(submit_points(sweep.folder, sweep.state, {1, 2, 3}, Slurm()), 1u);
  SweepState read = read_state(sweep.folder);
  EXPECT_EQ(read.points[0].status, PointStatus::kQueued);
  EXPECT_EQ(read.points[1].status, PointStatus::kPlanned);
  fake.add_sbatch();
  EXPECT_EQ(submit_points(sweep.folder, read, {2, 3}, Slurm()), 2u);
  EXPECT_EQ(lines_of(fake.read("sbatch.log")).size(), 3u);
}

TEST(Submit, WithoutSlurmTheErrorSaysSo) {
  const FakePrograms fake;
  SweepFixture sweep;
  ::setenv("PATH", "/nonexistent", 1);
  try {
    submit_points(sweep.folder, sweep.state, {1}, Slurm());
    FAIL() << "accepted";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(error.text().find("cannot run sbatch"), std::string::npos) << error.text();
    EXPECT_NE(error.hint().find("--local"), std::string::npos) << error.hint();
  }
}

TEST(Submit, ACutOffSubmissionIsFoundAgainByItsComment) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep;
  submit_points(sweep.folder, sweep.state, {1, 2}, Slurm());
  const std::string log = fake.read("sbatch.log");
  const std::string comment =
      log.substr(log.rfind("--comment=") + 10, log.find(' ', log.rfind("--comment=")) - log.rfind("--comment=") - 10);
  // As if this process had died between the second sbatch and its note, and before the third.
  sweep.point(1).jobs.clear();
  sweep.point(1).status = sweep.point(2).status = PointStatus::kSubmitting;
  recover_submissions(
      sweep.folder, sweep.state,
      {{"102", {.state = "PENDING", .comment = comment}}, {"999", {.state = "RUNNING", .comment = "other"}}});
  EXPECT_EQ(sweep.point(1).status, PointStatus::kQueued);
  EXPECT_EQ(sweep.point(1).jobs.at(0).id, "102");
  EXPECT_EQ(sweep.point(2).status, PointStatus::kPlanned);
}

/// What sbatch was given as the comment of the job that was submitted at this position.
std::string comment_in(const std::string& log, size_t position) {
  const std::string line = lines_of(log).at(position);
  const size_t start = line.find("--comment=") + 10;
  return line.substr(start, line.find(' ', start) - start);
}

TEST(Submit, AStateWrittenAnewTakesOverTheJobsThatWaitOrRun) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep;
  submit_points(sweep.folder, sweep.state, {1, 2, 3}, Slurm());
  const std::string log = fake.read("sbatch.log");
  std::filesystem::remove(state_file(sweep.folder));
  sweep.state = write_sweep(sweep.file, sweep.plan, sweep.folder, "/bin/true");
  const SlurmView view{.queue = {{"99", {.state = "FAILED", .comment = comment_in(log, 0)}},
                                 {"101", {.state = "RUNNING", .comment = comment_in(log, 0)}},
                                 {"102", {.state = "PENDING", .reason = "Priority", .comment = comment_in(log, 1)}},
                                 {"103", {.state = "COMPLETED", .comment = comment_in(log, 2)}}}};
  recover_submissions(sweep.folder / "", sweep.state, view.queue);  // typed with a slash at the end
  refresh(sweep.folder, sweep.state, &view, core::unix_seconds());
  EXPECT_EQ(sweep.state.mode, "slurm");
  ASSERT_EQ(sweep.point(0).jobs.size(), 1u);
  EXPECT_EQ(sweep.point(0).jobs[0].id, "101");
  EXPECT_EQ(sweep.point(0).jobs[0].log, "logs/0001-101.out");
  EXPECT_EQ(sweep.point(0).status, PointStatus::kRunning);
  EXPECT_EQ(sweep.point(1).status, PointStatus::kQueued);
  EXPECT_EQ(sweep.point(2).status, PointStatus::kPlanned) << "an ended job may be of a removed folder of the same name";
  EXPECT_EQ(resumable(sweep.state), (std::vector<int64_t>{3}));
}

TEST(Submit, ACutOffArrayIsFoundAgainByItsScript) {
  const FakePrograms fake;
  fake.add_sbatch();
  SweepFixture sweep("seed = 1\n[[case]]\nname = \"a\"\n[[case]]\nname = \"b\"\n[submit]\nhow = \"arrays\"\n");
  submit_points(sweep.folder, sweep.state, {1, 4}, Slurm());
  const std::string log = fake.read("sbatch.log");
  const std::string comment =
      log.substr(log.find("--comment=") + 10, log.find(' ', log.find("--comment=")) - log.find("--comment=") - 10);
  for (const int64_t index : {1, 4}) {
    sweep.state.point(index).jobs.clear();
    sweep.state.point(index).status = PointStatus::kSubmitting;
  }
  recover_submissions(
      sweep.folder, sweep.state,
      {{"101_0", {.state = "RUNNING", .comment = comment}}, {"101_1", {.state = "PENDING", .comment = comment}}});
  EXPECT_EQ(sweep.state.point(1).jobs.at(0).id, "101_0");
  EXPECT_EQ(sweep.state.point(4).jobs.at(0).id, "101_1");
}

TEST(Submit, CancelNamesEveryActiveJob) {
  const FakePrograms fake;
  fake.add_sbatch();
  fake.add("scancel", "echo \"$@\" >'" + fake.path("scancel.log") + "'\n");
  SweepFixture sweep;
  submit_points(sweep.folder, sweep.state, {1, 2, 3}, Slurm());
  sweep.point(0).status = PointStatus::kFinished;
  EXPECT_EQ(cancel_points(sweep.folder, sweep.state, Slurm()), 2u);
  EXPECT_EQ(fake.read("scancel.log"), "102 103\n");
  EXPECT_EQ(read_state(sweep.folder).points[1].status, PointStatus::kCancelled);
  EXPECT_EQ(resumable(sweep.state), (std::vector<int64_t>{2, 3}));
}

TEST(Slurm, ReadsItsTables) {
  const auto queue =
      parse_squeue("12|RUNNING|None|node[1-2]|c\n13_4|PENDING|Dependency||\n14|COMPLETED|None|node1|(null)\ngarbage\n");
  ASSERT_EQ(queue.size(), 3u);
  EXPECT_TRUE(queue.at("12").is_running());
  EXPECT_TRUE(queue.at("13_4").is_waiting());
  EXPECT_TRUE(queue.at("14").has_ended());
  const auto past = parse_sacct("12|CANCELLED by 1000|100|Unknown|150\n12|COMPLETED|150|160|200\n");
  ASSERT_EQ(past.at("12").size(), 2u);
  EXPECT_EQ(past.at("12")[0].state, "CANCELLED");
  EXPECT_FALSE(past.at("12")[0].start_s);
  EXPECT_EQ(past.at("12")[1].end_s, 200);
  const auto shown = parse_scontrol(
      "JobId=3 JobName=x JobState=NODE_FAIL Reason=None SubmitTime=2026-01-31T12:00:00 StartTime=2026-01-31T12:00:10 "
      "EndTime=Unknown\n");
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->state, "NODE_FAIL");
  EXPECT_EQ(*shown->start_s - *shown->submit_s, 10);
  EXPECT_FALSE(shown->end_s);
  EXPECT_FALSE(parse_scontrol("slurm_load_jobs error: Invalid job id specified"));
}

}  // namespace
}  // namespace lockstep::sweep
