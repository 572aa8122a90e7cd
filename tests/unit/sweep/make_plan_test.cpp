#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "sweep/job_script.h"
#include "sweep/plan_table.h"
#include "sweep/points.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {
namespace {

const std::string kBase = "name = \"x\"\n[train]\nmodel = \"ViT-B-32\"\ntrain-data = \"d.tar\"\n";

Plan plan_of(const std::string& text, const std::map<std::string, std::string>& variables = {}) {
  return make_plan(parse_sweep_file(text, "f.toml"), [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string plan_error_of(const std::string& text) {
  try {
    plan_of(text);
  } catch (const UsageError& error) {
    return error.text();
  }
  return "";
}

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::count(list.begin(), list.end(), text) > 0;
}

TEST(MakePlan, EveryCombinationOnce) {
  const Plan plan =
      plan_of(kBase + "[axes]\nnodes = \"1-4*2\"\nbatch-size = [32, 64]\nenv.NCCL_ALGO = [\"Tree\", \"Ring\"]\n");
  ASSERT_EQ(plan.points.size(), 12u);
  std::set<std::string> seen, names;
  for (const Point& point : plan.points) {
    seen.insert(point.axes_text());
    names.insert(point.name);
    EXPECT_EQ(point.samples_per_replica, has(point.flags, "--batch-size=32") ? 32 : 64);
    EXPECT_EQ(point.global_batch, *point.samples_per_replica * point.nodes);
    EXPECT_EQ(point.env.at(0).first, "NCCL_ALGO");
  }
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_EQ(names.size(), 12u);
  EXPECT_TRUE(seen.contains("nodes=2 batch-size=64 env.NCCL_ALGO=Ring"));
  EXPECT_EQ(plan.points[0].name, "0001-nodes_1-batch-size_32-env.NCCL_ALGO_Tree");
}

TEST(MakePlan, NamesThatAreCutDifferBesideTheirNumber) {
  const std::string shared = "/data/" + std::string(150, 'a');
  const Plan plan = plan_of("name = \"x\"\n[train]\nmodel = \"ViT-B-32\"\n[axes]\ntrain-data = [\"" + shared +
                            "1.tar\", \"" + shared + "2.tar\"]\n");
  ASSERT_EQ(plan.points.size(), 2u);
  const std::string &first = plan.points[0].name, &second = plan.points[1].name;
  EXPECT_EQ(first.size(), 120u);
  EXPECT_EQ(second.size(), 120u);
  EXPECT_NE(first.substr(4), second.substr(4)) << first;
}

TEST(MakePlan, ALineBreakInAValueIsRefused) {
  const std::string base = "name = \"x\"\n[train]\nmodel = \"ViT-B-32\"\n";
  const auto refusal = [](const std::string& text, const std::map<std::string, std::string>& variables) {
    try {
      plan_of(text, variables);
    } catch (const UsageError& error) {
      return error.text();
    }
    return std::string();
  };
  const std::string from_variable = base + "[axes]\ntrain-data = [\"${DATA}\"]\n";
  EXPECT_EQ(refusal(from_variable, {{"DATA", "d.tar"}}), "");
  EXPECT_NE(refusal(from_variable, {{"DATA", "d.tar\ntouch /tmp/owned"}}).find("'train-data' has a line break"),
            std::string::npos);
  EXPECT_NE(refusal(from_variable, {{"DATA", "d.tar\r"}}).find("'train-data' has a line break"), std::string::npos);
  EXPECT_NE(plan_error_of(kBase + "[[case]]\nname = \"a\\nb\"\n").find("'case' has a line break"), std::string::npos);
  EXPECT_NE(plan_error_of(kBase + "[env]\nX = \"a\\rb\"\n").find("environment variable 'X'"), std::string::npos);
  EXPECT_NE(plan_error_of(kBase + "[slurm]\nsetup = [\"a\\rb\"]\n").find("control character"), std::string::npos);
}

TEST(MakePlan, ManyAxesDoNotOverflowTheLimitOnPoints) {
  std::string text = kBase + "[axes]\n";  // 16 axes of 16 values: 2^64 points, which is 0 in 64 bits
  for (int axis = 0; axis < 16; ++axis) {
    text += fmt::format("env.A{} = [", axis);
    for (int value = 0; value < 16; ++value) text += fmt::format("{},", value);
    text += "]\n";
  }
  EXPECT_NE(plan_error_of(text).find("at most 10000 are allowed"), std::string::npos) << plan_error_of(text);
}

TEST(MakePlan, FormulasThatMentionEachOtherAreResolvedOnce) {
  const std::vector<std::string> keys{"workers",        "epochs", "warmup", "global-batch-size", "log-every-n-steps",
                                      "save-frequency", "keep",   "seed",   "val-frequency",     "accum-freq"};
  std::string text = kBase + "batch-size = 1\n";
  std::string last = "batch_size";
  for (const std::string& key : keys) {  // 16 to the power of 10 evaluations without a memory
    std::string formula = last;
    for (int i = 1; i < 16; ++i) formula += "+" + last;
    text += fmt::format("{} = \"min({}, 4)\"\n", key, formula);
    last = core::replace_all(key, "-", "_");
  }
  EXPECT_EQ(plan_error_of(text).find("refers to itself"), std::string::npos);
  std::string doubling = kBase;
  doubling += fmt::format("pretrained = \"{}\"\n", std::string(40'000, 'x'));
  doubling += "report-to = \"${pretrained}${pretrained}\"\n";
  EXPECT_NE(plan_error_of(doubling).find("the values inserted make more than"), std::string::npos)
      << plan_error_of(doubling).substr(0, 300);
}

TEST(MakePlan, FormulasSeeAxesRanksAndOtherSettings) {
  const Plan plan = plan_of(
      "name = \"x\"\nranks-per-node = \"if(nodes > 1, 4, 2)\"\n[axes]\nnodes = [1, 2]\n[train]\nmodel = "
      "\"ViT-B-32\"\ntrain-data = "
      "\"/d/${nodes}/${RUN}.tar\"\nlr = \"1e-4 * ranks\"\nglobal-batch-size = \"batch_size * ranks * 2\"\nbatch-size = "
      "8\nwarmup = \"global_batch_size "
      "// 4\"\ngrad-checkpointing = \"nodes >= 2\"\n[tags]\nbatch = \"${global_batch_size}\"\n",
      {{"RUN", "007"}});
  ASSERT_EQ(plan.points.size(), 2u);
  EXPECT_TRUE(has(plan.points[0].flags, "--lr=0.0002"));
  EXPECT_TRUE(has(plan.points[0].flags, "--no-grad-checkpointing"));
  EXPECT_TRUE(has(plan.points[1].flags, "--grad-checkpointing"));
  EXPECT_TRUE(has(plan.points[1].flags, "--global-batch-size=128"));
  EXPECT_TRUE(has(plan.points[1].flags, "--warmup=32"));
  EXPECT_TRUE(has(plan.points[1].flags, "--train-data=/d/2/007.tar"));  // the text of a variable stays as it is
  EXPECT_EQ(plan.points[1].num_ranks(), 8);
  EXPECT_EQ(plan.points[1].samples_per_replica, 16);
  EXPECT_EQ(plan.points[1].tags.at("batch"), "128");
}

TEST(MakePlan, WhenBlocksApplyInTheOrderOfTheFile) {
  const Plan plan = plan_of(
      "name = \"x\"\n[axes]\nnodes = [1, 16, 64, 128]\n[train]\nmodel = \"ViT-B-32\"\ntrain-data = \"d.tar\"\nworkers "
      "= 2\n[slurm]\ntime = \"00:15:00\"\n"
      "[when.\"nodes >= 16\".slurm]\ntime = \"25m\"\n[when.\"nodes >= 16\".env]\nNCCL_BUFFSIZE = "
      "16777216\n[when.\"nodes >= 64\".slurm]\ntime = "
      "\"00:30:00\"\n[when.\"nodes >= 64\".train]\nworkers = 8\n[when.\"nodes == 128\"]\nskip = true\n");
  ASSERT_EQ(plan.points.size(), 3u);
  EXPECT_EQ(plan.points[0].slurm.time_limit_s, 900);
  EXPECT_EQ(plan.points[1].slurm.time_limit_s, 1500);
  EXPECT_EQ(plan.points[2].slurm.time_limit_s, 1800);
  EXPECT_TRUE(plan.points[0].env.empty());
  EXPECT_EQ(plan.points[1].env.at(0).second, "16777216");
  EXPECT_TRUE(has(plan.points[1].flags, "--workers=2"));
  EXPECT_TRUE(has(plan.points[2].flags, "--workers=8"));
}

TEST(MakePlan, CasesSetWhatBelongsTogether) {
  const Plan plan = plan_of(
      "name = \"x\"\n[axes]\nnodes = [1, 2]\n[[case]]\nname = \"tiny\"\ntrain = { model = \"ViT-B-32\", batch-size = "
      "616 }\n[[case]]\nname = "
      "\"base\"\ntrain = { model = \"ViT-B-16\", batch-size = 416 }\n[when.\"case == 'base' and nodes == "
      "2\".train]\nworkers = 9\n[train]\ntrain-data = "
      "\"d.tar\"\n");
  ASSERT_EQ(plan.points.size(), 4u);
  EXPECT_EQ(plan.points[0].axes_text(), "case=tiny nodes=1");
  EXPECT_EQ(plan.points[3].samples_per_replica, 416);
  EXPECT_TRUE(has(plan.points[3].flags, "--workers=9"));
  EXPECT_TRUE(has(plan.points[3].flags, "--model=ViT-B-16"));
}

TEST(MakePlan, RepeatsAreInterleavedAndOrderIsReproducible) {
  const std::string text = kBase + "[axes]\nnodes = [1, 2, 4, 8]\n[submit]\norder = \"random\"\nseed = 3\n";
  const Plan plan = plan_of("repeats = 2\n" + text), again = plan_of("repeats = 2\n" + text);
  EXPECT_EQ(plan.submit_order, again.submit_order);
  ASSERT_EQ(plan.submit_order.size(), 8u);
  EXPECT_EQ(std::set<size_t>(plan.submit_order.begin(), plan.submit_order.end()).size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(plan.points[plan.submit_order[i]].repeat, i < 4 ? 1 : 2) << i;
  std::set<std::vector<size_t>> orders;
  for (int seed = 0; seed < 8; ++seed)
    orders.insert(plan_of(core::replace_all(text, "seed = 3", fmt::format("seed = {}", seed))).submit_order);
  EXPECT_GT(orders.size(), 4u);
}

TEST(MakePlan, ScalingIsCheckedAlongTheNodes) {
  EXPECT_NO_THROW(plan_of("scaling = \"weak\"\n" + kBase + "batch-size = 8\n[axes]\nnodes = [1, 2]\n"));
  EXPECT_NO_THROW(plan_of("scaling = \"strong\"\n" + kBase + "global-batch-size = 64\n[axes]\nnodes = [1, 2]\n"));
  EXPECT_NO_THROW(plan_of("scaling = \"strong\"\n" + kBase +
                          "global-batch-size = \"if(lr > 1, 64, 128)\"\n[axes]\nnodes = [1, 2]\nlr = [1e-3, 2]\n"));
  const std::string weak =
      plan_error_of("scaling = \"weak\"\n" + kBase + "global-batch-size = 64\n[axes]\nnodes = [1, 2, 4]\n");
  EXPECT_NE(weak.find("2 of 3 points do not fit"), std::string::npos) << weak;
  EXPECT_NE(weak.find("nodes=2: weak scaling keeps the samples of each rank, but it is 32 here and 64 at nodes=1"),
            std::string::npos)
      << weak;
  EXPECT_NE(plan_error_of("scaling = \"strong\"\n" + kBase + "[axes]\nnodes = [1, 2]\n")
                .find("strong scaling keeps the global batch"),
            std::string::npos);
}

TEST(MakePlan, MisfitsAreNamedBeforeAnythingRuns) {
  const std::string text = plan_error_of(kBase + "global-batch-size = 64\n[axes]\nnodes = [1, 3, 5, 8]\n");
  EXPECT_NE(text.find("2 of 4 points do not fit"), std::string::npos) << text;
  EXPECT_NE(text.find("nodes=3: plan: the global batch does not divide evenly"), std::string::npos) << text;
  EXPECT_NE(text.find("nodes=5"), std::string::npos) << text;
  EXPECT_NE(text.find("use --global-batch-size 63 or 66"), std::string::npos) << text;
}

TEST(MakePlan, FlagsAreThoseOfTheEngine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {kBase + "batch-sise = 8\n", "f.toml:5: options: --batch-sise is unknown to 'train clip'"},
      {kBase + "fsdp = true\n", "f.toml:5: options: --fsdp"},
      {kBase + "logs = \"/x\"\n", "f.toml:5: 'logs' is not for a sweep file"},
      {kBase + "resume = \"latest\"\n", "'resume' is not for a sweep file"},
      {kBase + "epochs = 0\n", "options: --epochs got '0', expected an integer >= 1"},
      {kBase + "accum-freq = \"nodes / 2\"\n", "options: --accum-freq got '0.5', expected an integer"},
      {kBase + "precision = \"fp8\"\n", "options: --precision got 'fp8'"},
      {kBase + "[axes]\nmodel = [\"RN50\"]\n", "f.toml:3: 'model' is an axis (line 6) and set here too"},
      {kBase + "[axes]\nenv.A = [1]\n[env]\nA = 2\n", "'A' is an axis (line 6) and set here too"},
      {kBase + "[axes]\nmodle = [\"RN50\"]\n", "f.toml:6: options: --modle is unknown"},
      {"name = \"x\"\n[train]\nmodel = \"ViT-B-33\"\ntrain-data = \"d\"\n", "ViT-B-33"},
      {"name = \"x\"\n[train]\nmodel = \"ViT-B-32\"\n", "there is nothing to do"},
      {"command = \"train clpi\"\n" + kBase, "is no command"},
      {"command = \"train clap\"\n" + kBase, "--tokenizer-vocab is needed"},
      {"command = \"ckpt reshard\"\n" + kBase, "`lockstep ckpt reshard` is not in this version yet"},
      {"command = \"ckpt list\"\n" + kBase, "a sweep of 'ckpt list' is not possible"},
      {core::replace_all(kBase, "\"x\"", "\"a/b\""), "the name 'a/b' is no folder name"},
      {kBase + "lr = \"warmup * 1\"\nwarmup = \"lr + 1\"\n", "refers to itself"},
      {kBase + "lr = \"1e-3 *\"\n", "f.toml:5: 'lr': formula '1e-3 *', column 7"},
      {kBase + "val-data = \"${NOWHERE}/x\"\n", "f.toml:5: 'val-data': ${NOWHERE} is not set"},
      {kBase + "val-data = \"${NOWHERE\"\n", "the brace of '${' is not closed"},
      {kBase + "[axes]\nnodes = [0]\n", "nodes is 0, expected a whole number from 1"},
      {kBase + "[axes]\nnodes = [1.5]\n", "nodes is 1.5"},
      {"ranks-per-node = \"nodes / 2\"\n" + kBase, "ranks-per-node is 0.5"},
      {kBase + "[when.\"nodes\"]\nskip = true\n", "expected true or false, got a number (1)"},
      {kBase + "[when.\"nodes >= 1\"]\nskip = true\n", "every point is left out"},
      {kBase + "[env]\n\"A-B\" = 1\n", "environment variable 'A-B'"},
      {"repeats = 200\n" + kBase + "[axes]\nnodes = \"1-100\"\n", "the axes make 20000 points"}};
  for (const auto& [text, expected] : cases)
    EXPECT_NE(plan_error_of(text).find(expected), std::string::npos) << text << " -> " << plan_error_of(text);
}

const std::string kLatency =
    "name = \"x\"\ncommand = \"bench latency\"\n[axes]\nprecisions = [\"fp32\", \"bf16\"]\n[bench]\nbatch-size = [1, "
    "8]\n[slurm]\ntime = \"00:10:00\"\n";

TEST(MakePlan, BenchmarksArePointsThatWriteOneFileAndSaveNothing) {
  const Plan plan = plan_of(kLatency);
  ASSERT_EQ(plan.points.size(), 2u);
  EXPECT_EQ(plan.result, ResultKind::kBenchDocument);
  EXPECT_EQ(plan.points[1].flags, (std::vector<std::string>{"--precisions=bf16", "--batch-size", "1", "8"}));
  EXPECT_FALSE(plan.points[0].global_batch);
  EXPECT_EQ(request_lines(plan.points[0]).find("--signal"), std::string::npos) << "there is no checkpoint to save";
  const SweepState state = new_state(plan, "/s", "/bin/lockstep");
  EXPECT_EQ(state.points[0].run, "runs/0001-precisions_fp32.json");
  EXPECT_EQ(state.points[0].arguments.back(), "--output=/s/runs/0001-precisions_fp32.json");
  EXPECT_FALSE(has(state.points[0].arguments, "--resume=latest"));
  EXPECT_EQ(plan_of(kBase).result, ResultKind::kRunRecord);
}

TEST(MakePlan, FlagsOfBenchmarksAreThoseOfTheEngine) {
  const auto with = [](const std::string& more) {
    return core::replace_all(kLatency, "[bench]\n", "[bench]\n" + more);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {with("text-lenght = 9\n"), "f.toml:6: options: --text-lenght is unknown to 'bench latency'"},
      {with("output = \"a.json\"\n"), "f.toml:6: 'output' is not for a sweep file: every point writes its result"},
      {with("mode = \"list\"\n"), "'mode' is not for a sweep file"},
      {with("towers = [\"sound\"]\n"), "--towers 'sound' is unknown"},
      {"ranks-per-node = 2\n" + kLatency, "latency is that of one rank, there are 2"},
      {"scaling = \"weak\"\n" + kLatency, "'scaling' is of training, the command is 'bench latency'"},
      {kLatency + "stop-before-end = 60\n", "slurm key 'stop-before-end' is for commands that save a checkpoint"},
      {core::replace_all(kLatency, "[bench]", "[train]"), "f.toml:5: [train] holds flags, and the command is 'bench"},
      {core::replace_all(kBase, "[train]", "[bench]"),
       "f.toml:2: [bench] holds flags, and the command is 'train clip'"},
      {kLatency + "[train]\nseed = 1\n", "[train] and [bench] (line 5) both hold flags"}};
  for (const auto& [text, expected] : cases)
    EXPECT_NE(plan_error_of(text).find(expected), std::string::npos) << text << " -> " << plan_error_of(text);
}

TEST(MakePlan, VariablesComeFromTheCallerFirstThenTheFile) {
  const std::string text = kBase +
                           "[variables]\nACCOUNT = \"default\"\n[slurm]\naccount = \"${ACCOUNT}\"\nsetup = [\"echo "
                           "$HOME $${SLURM_JOB_ID}\"]\n";
  EXPECT_TRUE(has(plan_of(text).points[0].slurm.sbatch, "--account=default"));
  const Plan given = plan_of(text, {{"ACCOUNT", "p1"}});
  EXPECT_TRUE(has(given.points[0].slurm.sbatch, "--account=p1"));
  EXPECT_EQ(given.points[0].slurm.setup.at(0), "echo $HOME ${SLURM_JOB_ID}");
}

TEST(MakePlan, AnAxisMayBeAVariableThatHoldsARange) {
  const std::string text = kBase + "[variables]\nNODES = \"1-8*2\"\n[axes]\nnodes = \"${NODES}\"\n";
  EXPECT_EQ(plan_of(text).points.size(), 4u);
  EXPECT_EQ(plan_of(text, {{"NODES", "1,3"}}).points.back().nodes, 3);
  EXPECT_THROW(plan_of(text, {{"NODES", "many"}}), UsageError);
}

TEST(SlurmRequest, KeysBecomeOptions) {
  const Plan plan = plan_of(kBase +
                            "[axes]\nnodes = [2]\n[slurm]\naccount = \"a\"\nexclusive = true\ncontiguous = "
                            "false\nwait-all-nodes = true\ncpus-per-task = \"8 * "
                            "nodes\"\ncpu-bind = \"v\"\naccel-bind = \"gn\"\ngres = \"gpu:4\"\nsbatch = "
                            "[\"--mail-type=END\", \"-v\"]\nsrun = [\"--mpi=none\"]\nstop-before-end = "
                            "60\ntime = \"1-00:00:00\"\nrequeue = false\n");
  const SlurmRequest& request = plan.points[0].slurm;
  for (const char* option :
       {"--account=a", "--exclusive", "--wait-all-nodes=1", "--gres=gpu:4", "--mail-type=END", "-v"})
    EXPECT_TRUE(has(request.sbatch, option)) << option;
  EXPECT_FALSE(has(request.sbatch, "--contiguous"));
  EXPECT_EQ(request.srun, (std::vector<std::string>{"--cpu-bind=v", "--accel-bind=gn", "--mpi=none"}));
  EXPECT_EQ(request.cpus_per_task, 16);
  const std::string lines = request_lines(plan.points[0]);
  EXPECT_NE(
      lines.find(
          "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=16\n#SBATCH --time=1-00:00:00\n"),
      std::string::npos)
      << lines;
  EXPECT_NE(lines.find("#SBATCH --signal=B:USR1@60\n#SBATCH --no-requeue\n"), std::string::npos) << lines;
}

TEST(SlurmRequest, AnEmptyVariableLeavesItsOptionOut) {
  const std::string text = kBase + "[axes]\nnodes = [1]\n[slurm]\ngres = \"${GRES}\"\n";
  EXPECT_TRUE(has(plan_of(text, {{"GRES", "gpu:4"}}).points[0].slurm.sbatch, "--gres=gpu:4"));
  EXPECT_TRUE(plan_of(text, {{"GRES", ""}}).points[0].slurm.sbatch.empty());
}

TEST(SlurmRequest, GpusOfANodeAreThoseOfItsGenericResourcesAlone) {
  const std::vector<std::pair<std::string, int64_t>> cases{{"gres = \"gpu:4\"", 4},
                                                           {"gres = \"gpu\"", 1},
                                                           {"gres = \"gpu:a100\"", 1},
                                                           {"gres = \"gpu:a100:4\"", 4},
                                                           {"gres = \"gpu:4,tmpfs:200g\"", 4},
                                                           {"gres = \"gpu:4,tmpfs:200\"", 4},
                                                           {"gres = \"gpu:a100:4,lustre:1\"", 4},
                                                           {"gres = \"tmpfs:200,gpu:4\"", 4},
                                                           {"gres = \"gpu:a100:4,gpu:v100:2,nic:1k\"", 6},
                                                           {"gres = \"gpumem:16\"", 0},
                                                           {"gres = \"tmpfs:200\"", 0},
                                                           {"gpus-per-node = 4", 4},
                                                           {"gpus-per-node = \"a100:4\"", 4},
                                                           {"gpus-per-node = \"a100:4,v100:2\"", 6},
                                                           {"gres = \"tmpfs:200\"\ngpus-per-node = 4", 4},
                                                           {"sbatch = [\"--gres=lustre:1,gpu:2\"]", 2}};
  for (const auto& [line, num_gpus] : cases) {
    const NodeDevices devices = devices_of_node(plan_of(kBase + "[slurm]\n" + line + "\n").points[0]);
    EXPECT_EQ(devices.count, num_gpus) << line;
    EXPECT_EQ(devices.unit, num_gpus > 0 ? "GPU-hours" : "") << line;
  }
  const Plan cores = plan_of(kBase + "[slurm]\ngres = \"tmpfs:200\"\ncpus-per-task = 8\n");
  EXPECT_EQ(devices_of_node(cores.points[0]).unit, "core-hours");
}

TEST(SlurmRequest, AnOptionMayStandBesideItsValue) {
  const SlurmRequest request = plan_of(kBase +
                                       "[slurm]\nsbatch = [\"--mail-type END\", \"--constraint  'a b'\", \"-C x\", "
                                       "\"--comm-x=a b\"]\nsrun = [\"--mpi none\", \"-m block:cyclic\", \"-l\"]\n")
                                   .points[0]
                                   .slurm;
  EXPECT_EQ(request.sbatch, (std::vector<std::string>{"--mail-type=END", "--constraint=a b", "-C x", "--comm-x=a b"}));
  EXPECT_EQ(request.srun, (std::vector<std::string>{"--mpi=none", "-m", "block:cyclic", "-l"}));
}

TEST(SlurmRequest, WhatTheSweepWritesItselfIsRefusedInEverySpelling) {
  for (const std::string option : {"--nodes=2",
                                   "--nodes 2",
                                   "-N 2",
                                   "-N2",
                                   "-t 5",
                                   "-o x",
                                   "-e x",
                                   "-J x",
                                   "-n 4",
                                   "-c 2",
                                   "-a 0-3",
                                   "-D /x",
                                   "-d 7",
                                   "--comment=mine",
                                   "--comment mine",
                                   "--chdir=/x",
                                   "--cpus-per-task=2",
                                   "--out=x",
                                   "--no-requeue",
                                   "--requeue"}) {
    const std::string text = plan_error_of(kBase + "[slurm]\nsbatch = [\"" + option + "\"]\n");
    EXPECT_NE(text.find("f.toml:"), std::string::npos) << option << " -> " << text;
    EXPECT_NE(text.find(", which the sweep "), std::string::npos) << option << " -> " << text;
  }
  for (const std::string option : {"-N 2", "--nodes=2", "--ntasks 4", "-n4", "--ntasks-per-node=2", "-c 2"}) {
    const std::string text = plan_error_of(kBase + "[slurm]\nsrun = [\"" + option + "\"]\n");
    EXPECT_NE(text.find(", which the sweep "), std::string::npos) << option << " -> " << text;
  }
  EXPECT_EQ(plan_error_of(kBase + "[slurm]\nsbatch = [\"--time-min=5\", \"-v\"]\nsrun = [\"--output=x\"]\n"), "");
  const std::string word = plan_error_of(kBase + "[slurm]\nsrun = [\"mpi\"]\n");
  EXPECT_NE(word.find("has the line 'mpi'"), std::string::npos) << word;
}

TEST(MakePlan, AShellVariableInAValueOfTheEnvironmentIsWarnedOf) {
  const Plan plan = plan_of(kBase +
                            "[axes]\nnodes = [1, 2]\n[env]\nPATH = \"/opt/bin:$PATH\"\nHERE = \"$${PWD}/x\"\n"
                            "COST = \"5$ and $1\"\n");
  ASSERT_EQ(plan.warnings.size(), 2u) << core::join(plan.warnings, "; ");
  EXPECT_NE(plan.warnings[0].find("PATH is the text '/opt/bin:$PATH'"), std::string::npos) << plan.warnings[0];
  EXPECT_NE(plan.warnings[0].find("setup = ['export PATH=\"/opt/bin:$PATH\"']"), std::string::npos) << plan.warnings[0];
  EXPECT_NE(plan.warnings[1].find("HERE is the text '${PWD}/x'"), std::string::npos) << plan.warnings[1];
}

TEST(SlurmRequest, RefusesWhatCannotBe) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"acount = \"a\"", "slurm key 'acount' is unknown"},
      {"exclusive = \"yes\"", "slurm key 'exclusive' is 'yes', expected true or false"},
      {"cpus-per-task = 0", "is 0, expected a whole number from 1 on"},
      {"cpus-per-task = \"nodes / 2\"", "is 0.5"},
      {"cpus-per-task = [1, 2]", "expected a number or a formula"},
      {"account = [\"a\", \"b\"]", "'account' is a list, expected one value"},
      {"account = \"a\\nb\"", "line break"},
      {"sbatch = [\"mail\"]", "has the line 'mail'"},
      {"sbatch = [\"--nodes=4\"]", "sets --nodes, which the sweep writes itself"},
      {"time = \"soon\"", "'soon' is no time"},
      {"time = \"00:01:00\"", "120 s before the end of a job of 60 s"}};
  for (const auto& [line, expected] : cases) {
    const std::string text = plan_error_of(kBase + "[slurm]\n" + line + "\n");
    EXPECT_NE(text.find(expected), std::string::npos) << line << " -> " << text;
  }
}

TEST(TextTable, NoPartIsWiderThanATerminal) {
  std::vector<std::vector<std::string>> rows(3);
  for (size_t row = 0; row < rows.size(); ++row)
    for (int column = 0; column < 12; ++column)
      rows[row].push_back(row == 0 ? fmt::format("a column {}", column)
                                   : fmt::format("{}", 100 * static_cast<int>(row) + column));
  const std::string text = text_table(rows);
  size_t num_leads = 0;
  for (const std::string& line : core::split(text, "\n")) {
    EXPECT_LE(line.size(), 80u) << line;
    num_leads += core::starts_with(line, "a column 0") ? 1 : 0;
  }
  EXPECT_EQ(num_leads, 3u);
  for (int column = 0; column < 12; ++column)
    EXPECT_NE(text.find(fmt::format("{}", 200 + column)), std::string::npos) << column;
  EXPECT_EQ(text_table({{"x", "y"}, {"1", "abc"}}), "x  y\n1  abc\n");
  EXPECT_EQ(text_table({{"x"}, {"1"}}), "x\n1\n");
}

TEST(SlurmRequest, Times) {
  const std::vector<std::pair<std::string, int64_t>> cases{{"15", 900},      {"30:00", 1800},    {"01:30:00", 5400},
                                                           {"1-12", 129600}, {"1-00:30", 88200}, {"2-00:00:01", 172801},
                                                           {"90m", 5400},    {"2h", 7200},       {"45s", 45}};
  for (const auto& [text, seconds] : cases) EXPECT_EQ(parse_time_limit(text, "x"), seconds) << text;
  for (const char* text : {"", "0", "-5", "1:2:3:4", "1-", "x", "1d", "99999999999999999999", "00:00:00", "m"})
    EXPECT_THROW(parse_time_limit(text, "x"), UsageError) << text;
  EXPECT_EQ(time_limit_text(900), "00:15:00");
  EXPECT_EQ(time_limit_text(172801), "2-00:00:01");
}

}  // namespace
}  // namespace lockstep::sweep
