#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using core::Json;
using tests::ProgramResult;
using tests::run_lockstep;

struct RecordPlan {
  std::string name = "run";
  int nodes = 1, local_batch = 8;
  double step_ms = 100;
  int num_steps = 400;
  std::string state = "finished";
  bool is_profiled = false;
  bool is_cut = false;          ///< The last line lacks its end.
  bool only_evaluates = false;  ///< Started without training data.
};

/// A run record as the trainer leaves it, with a known step time.
fs::path write_record(const fs::path& logs, const RecordPlan& plan) {
  const fs::path folder = logs / plan.name;
  fs::create_directories(folder);
  const int devices = 4 * plan.nodes, batch = plan.local_batch * devices;
  const Json setup = {{"task", "clip"},
                      {"model", "ViT-B-32"},
                      {"precision", "bf16"},
                      {"device", "NVIDIA H100 80GB HBM3"},
                      {"nodes", plan.nodes},
                      {"devices", devices},
                      {"global_batch", batch},
                      {"samples_per_device", plan.local_batch},
                      {"accum", 1},
                      {"sample_unit", "samples"},
                      {"forward_gflops_per_sample", 14.78},
                      {"flops_formula", "test"},
                      {"peak_tflops_per_device", 989},
                      {"peak_source", "datasheet"},
                      {"is_synthetic", false},
                      {"is_profiled", plan.is_profiled}};
  const Json run = {{"record_version", 1},
                    {"attempts",
                     {{{"attempt", 1},
                       {"started_s", 1.7e9},
                       {"host", "n1"},
                       {"pid", 1},
                       {"setup", setup},
                       {"plan", {{"steps_per_epoch", plan.only_evaluates ? 0 : 100}}}}}}};
  core::write_file_atomic(folder / "run.json", run.dump());
  const Json status = {
      {"record_version", 1},  {"state", plan.state},     {"attempt", 1},
      {"heartbeat_s", 1.7e9}, {"heartbeat_every_s", 10}, {"message", plan.state == "failed" ? "out of memory" : ""},
      {"dropped_lines", 0}};
  core::write_file_atomic(folder / "status.json", status.dump());
  std::string steps;
  double time_s = 1.7e9;
  for (int i = 0; i < plan.num_steps; ++i) {
    const double ms = plan.step_ms * (1 + 0.01 * std::sin(12.9898 * i * i)) + (i < 15 ? plan.step_ms : 0);
    time_s += ms / 1e3;
    const Json step = {{"attempt", 1},
                       {"step", i},
                       {"samples", batch},
                       {"samples_seen", batch * (i + 1)},
                       {"step_ms", ms},
                       {"data_wait_ms", 0.2},
                       {"samples_per_s", 1e3 * batch / ms},
                       {"loss", 5.0 / (1 + 0.01 * i)},
                       {"lr", 1e-3},
                       {"time_s", time_s}};
    steps += step.dump() + "\n";
  }
  if (plan.is_cut) steps.resize(steps.size() - 20);
  core::write_file_atomic(folder / "steps.jsonl", steps);
  return folder;
}

/// Lines of the terminal as one, so that sentences are found wherever they are wrapped.
std::string flat(const std::string& text) {
  std::string words;
  for (const std::string& word : core::split(core::replace_all(text, "\n", " "), " "))
    if (!word.empty()) words += (words.empty() ? "" : " ") + word;
  return words;
}

std::string read_or_empty(const fs::path& path) { return fs::exists(path) ? core::read_file(path) : ""; }

TEST(ReportCommand, ASweepOfRecordsBecomesAPageWithKnownNumbers) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs", out = folder.path() / "out";
  for (const auto& [nodes, ms] : {std::pair{1, 100.0}, {2, 105.0}, {4, 112.0}})
    write_record(logs, {.name = fmt::format("n{}", nodes), .nodes = nodes, .step_ms = ms});
  const ProgramResult made = run_lockstep({"report", logs.string(), "-o", out.string()});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(flat(made.out).find("weak scaling"), std::string::npos) << made.out;
  const std::string last = made.out.substr(made.out.rfind('\n', made.out.size() - 2) + 1);
  EXPECT_EQ(last, (out / "report.html").string() + "\n") << "the page's path ends the output";
  const std::string page = read_or_empty(out / "report.html");
  EXPECT_NE(page.find("Scaling efficiency"), std::string::npos);
  EXPECT_NE(page.find("89."), std::string::npos);
  EXPECT_NE(read_or_empty(out / "report.md").find("weak scaling"), std::string::npos);
  EXPECT_TRUE(fs::exists(out / "tables" / "scaling-curve-1.csv"));
  EXPECT_TRUE(fs::exists(out / "figures" / "efficiency.svg"));

  const ProgramResult json = run_lockstep({"report", logs.string(), "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json analysis = Json::parse(json.out);
  const Json& points = analysis.at("curves").at(0).at("points");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points.at(2).at("efficiency").at("value").get<double>(), 100.0 / 112.0, 0.005);
  EXPECT_NEAR(points.at(0).at("mfu").get<double>(), 3 * 14.78e9 * 80 / 989e12, 1e-5);
  EXPECT_EQ(analysis.at("curves").at(0).at("scaling"), "weak scaling");
}

TEST(ReportCommand, FormatsAreWrittenAsAsked) {
  core::TempDir folder;
  write_record(folder.path(), {});
  const fs::path out = folder.path() / "out";
  const ProgramResult result =
      run_lockstep({"report", (folder.path() / "run").string(), "-o", out.string(), "--format", "html,csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  size_t csv = 0, html = 0, other = 0;
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    if (!entry.is_regular_file()) continue;
    const std::string ending = entry.path().extension().string();
    (ending == ".csv" ? csv : ending == ".html" ? html : other) += 1;
  }
  EXPECT_GE(csv, 3u);
  EXPECT_EQ(html, 1u);
  EXPECT_EQ(other, 1u) << "report.files, for the next report";
  write_record(folder.path(), {.name = "n2", .nodes = 2});
  core::write_file_atomic(out / "tables" / "mine.csv", "of the user");
  const ProgramResult again = run_lockstep({"report", (folder.path() / "run").string(), (folder.path() / "n2").string(),
                                            "-o", out.string(), "--format", "html,csv"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(fs::exists(out / "figures" / "efficiency.csv"));
  const ProgramResult replaced =
      run_lockstep({"report", (folder.path() / "run").string(), "-o", out.string(), "--format", "html,csv"});
  EXPECT_FALSE(fs::exists(out / "figures" / "efficiency.csv"))
      << "one size has no efficiency; the curve before is not its own";
  EXPECT_NE(flat(replaced.out).find("of the report before in '" + out.string() + "' removed"), std::string::npos)
      << replaced.out;
  EXPECT_TRUE(fs::exists(out / "tables" / "mine.csv"));
  const ProgramResult wrong = run_lockstep({"report", (folder.path() / "run").string(), "--format", "htm"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("did you mean 'html'"), std::string::npos) << wrong.err;
}

TEST(ReportCommand, TheCommandInTheReadmeWritesThePlotAboveIt) {
  const fs::path root = LOCKSTEP_SOURCE_DIR;
  const std::string readme = core::read_file(root / "README.md");
  std::smatch command, plot, file;
  ASSERT_TRUE(std::regex_search(readme, command, std::regex("`lockstep (report [^`]*) -o report`")));
  ASSERT_TRUE(std::regex_search(readme, plot, std::regex(R"(\]\((docs/images/[^)]*\.svg)\))")));
  ASSERT_TRUE(std::regex_search(readme, file, std::regex("`report/(figures/[^`]*)`")));
  const core::TempDir folder;
  std::vector<std::string> args = core::split(command[1].str(), " ");
  for (std::string& arg : args)
    if (core::starts_with(arg, "tests/")) arg = (root / arg).string();
  args.insert(args.end(), {"-o", folder.path().string()});
  const ProgramResult made = run_lockstep(args);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string drawn = read_or_empty(folder.path() / file[1].str());
  EXPECT_GT(drawn.size(), 1000u);
  EXPECT_TRUE(drawn == read_or_empty(root / plot[1].str())) << "copy " << file[1] << " to " << plot[1];
}

TEST(ReportCommand, BadInputIsExplainedAndNothingIsLeftOutSilently) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs";
  write_record(logs, {.name = "whole", .nodes = 1});
  write_record(logs, {.name = "cut", .nodes = 2, .is_cut = true});
  write_record(logs, {.name = "failed", .nodes = 4, .num_steps = 0, .state = "failed"});
  write_record(logs, {.name = "profiled", .nodes = 2, .step_ms = 300, .is_profiled = true});
  fs::create_directories(logs / "broken");
  core::write_file_atomic(logs / "broken" / "run.json", "{\"record_version\": 99, \"attempts\": []}");
  const ProgramResult result = run_lockstep({"report", logs.string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json analysis = Json::parse(result.out);
  std::map<std::string, std::string> left;
  for (const Json& one : analysis.at("left_out")) left[one.at("run")] = one.at("reason");
  EXPECT_EQ(left.size(), 3u) << analysis.at("left_out").dump(1);
  EXPECT_NE(left["failed"].find("out of memory"), std::string::npos) << left["failed"];
  EXPECT_NE(left["profiled"].find("profiler"), std::string::npos) << left["profiled"];
  EXPECT_FALSE(left["broken"].empty());
  EXPECT_EQ(analysis.at("runs").size(), 5u) << "every run is listed";
  EXPECT_NEAR(analysis.at("curves").at(0).at("points").at(1).at("step_p50_ms").get<double>(), 100, 1)
      << "the profile is not in the point";
  bool is_cut_reported = false;
  for (const Json& run : analysis.at("runs"))
    if (run.at("name") == "cut")
      for (const Json& problem : run.at("problems"))
        is_cut_reported |= problem.get<std::string>().find("cut") != std::string::npos ||
                           problem.get<std::string>().find("last line") != std::string::npos;
  EXPECT_TRUE(is_cut_reported) << analysis.at("runs").dump(1).substr(0, 3000);
  const ProgramResult text = run_lockstep({"report", logs.string(), "-o", (folder.path() / "out").string()});
  for (const char* word : {"failed", "profiled", "broken"})
    EXPECT_NE(flat(text.out).find(word), std::string::npos) << text.out;
}

TEST(ReportCommand, RunsThatEndedBeforeTheirRecordBeganAreLeftOutInWords) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs";
  write_record(logs, {.name = "n1", .nodes = 1});
  write_record(logs, {.name = "n2", .nodes = 2, .step_ms = 104});
  fs::create_directories(logs / "n4" / "checkpoints");
  core::write_file_atomic(logs / "n4" / "out.log", "2026-01-31,12:00:00 | WARNING | train: no index\n");
  fs::create_directories(logs / "n8");
  const std::string out = (folder.path() / "out").string();
  // Each folder by its name, as the shell expands logs/*, and all by one name.
  const ProgramResult each = run_lockstep({"report", (logs / "n1").string(), (logs / "n2").string(),
                                           (logs / "n4").string(), (logs / "n8").string(), "-o", out});
  ASSERT_EQ(each.exit_code, 0) << each.err;
  EXPECT_NE(flat(each.out).find("left out: n4: "), std::string::npos) << each.out;
  EXPECT_NE(flat(each.out).find("the run ended before its record began"), std::string::npos) << each.out;
  EXPECT_NE(flat(each.out).find("left out: n8: "), std::string::npos) << each.out;
  EXPECT_NE(flat(each.out).find("weak scaling"), std::string::npos) << "the others are reported";
  const ProgramResult all = run_lockstep({"report", logs.string(), "-o", out});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_NE(flat(all.out).find("left out: n4: "), std::string::npos) << all.out;
  const ProgramResult none = run_lockstep({"report", (logs / "n4").string(), (logs / "n8").string(), "-o", out});
  EXPECT_EQ(none.exit_code, 6) << none.out;
  EXPECT_NE(none.err.find("the run ended before its record began"), std::string::npos) << none.err;
  // A report among the folders is passed over, too; a CSV table beside an empty folder stays a table.
  ASSERT_TRUE(fs::exists(folder.path() / "out" / "tables"));
  EXPECT_EQ(run_lockstep({"report", (logs / "n1").string(), out, "-o", out}).exit_code, 0);
  const std::string table = std::string(LOCKSTEP_GOLDEN_DIR) + "/published/clap_htsat_base_jupiter.csv";
  const ProgramResult tables = run_lockstep({"report", table, (logs / "n8").string(), "-o", out});
  EXPECT_EQ(tables.exit_code, 0) << tables.err;
  EXPECT_NE(tables.err.find("left out"), std::string::npos) << tables.err;
}

TEST(ReportCommand, AnEvaluationIsToldAsOne) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs";
  write_record(logs, {.name = "trained"});
  write_record(logs, {.name = "tested", .num_steps = 0, .only_evaluates = true});
  const ProgramResult report = run_lockstep({"report", logs.string(), "-o", (folder.path() / "out").string()});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_NE(report.out.find("- evaluation"), std::string::npos) << report.out;
  EXPECT_NE(flat(report.out).find("left out: tested: it was started to evaluate, and trained nothing"),
            std::string::npos)
      << report.out;
  EXPECT_EQ(report.out.find("no step was recorded"), std::string::npos) << report.out;
}

TEST(ReportCommand, AReportOnNothingHasTheCodeOfBadInput) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs";
  const std::string out = (folder.path() / "out").string();
  const std::string failed = write_record(logs, {.name = "failed", .num_steps = 0, .state = "failed"}).string(),
                    other = write_record(logs, {.name = "other", .num_steps = 0, .state = "failed"}).string();
  for (const bool is_json : {false, true}) {
    std::vector<std::string> call = {"report", failed, other, "-o", out};
    if (is_json) call.emplace_back("--json");
    const ProgramResult nothing = run_lockstep(call);
    EXPECT_EQ(nothing.exit_code, 4) << nothing.out;
    EXPECT_NE(nothing.err.find("no measurement was found in 2 runs: no step, and no result of a benchmark"),
              std::string::npos)
        << nothing.err;
    EXPECT_NE(flat(nothing.out).find("out of memory"), std::string::npos) << "what is known is told: " << nothing.out;
  }
  EXPECT_TRUE(fs::exists(fs::path(out) / "report.html"));
  const std::string whole = write_record(logs, {.name = "whole"}).string();
  EXPECT_EQ(run_lockstep({"report", failed, whole, "-o", out}).exit_code, 0);
}

TEST(ReportCommand, ADamagedRecordIsToldOnTheTerminalWithFileAndReason) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs";
  write_record(logs, {.name = "whole"});
  for (const char* name : {"half", "half-too"}) {
    write_record(logs, {.name = name});
    core::write_file_atomic(logs / name / "run.json", "{\"record_version\": 1,\n");
  }
  const ProgramResult report = run_lockstep({"report", logs.string(), "-o", (folder.path() / "out").string()});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  for (const char* name : {"half", "half-too"}) {
    const std::string file = (logs / name / "run.json").string();
    const std::string said = flat(report.out);
    const size_t at = said.find(fmt::format("problem: {}: run.json: ", (logs / name).string()));
    ASSERT_NE(at, std::string::npos) << report.out;
    const std::string line = said.substr(at, said.find("problem: ", at + 1) - at);
    EXPECT_NE(line.find(file), std::string::npos) << line;
    EXPECT_NE(line.find("parse error at line 2"), std::string::npos) << line;
    EXPECT_EQ(line.find("json.exception"), std::string::npos) << line;
  }
  EXPECT_EQ(report.out.find(fmt::format("problem: {}:", (logs / "whole").string())), std::string::npos) << report.out;

  const ProgramResult compared =
      run_lockstep({"report", "compare", (logs / "whole").string(), (logs / "half").string()});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_NE(flat(compared.out).find(fmt::format("problem: {}: run.json: ", (logs / "half").string())),
            std::string::npos)
      << compared.out;
}

TEST(ReportCommand, OneRepeatAndAMissingBaseAreSaidInWords) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs";
  for (const int nodes : {2, 4}) write_record(logs, {.name = fmt::format("n{}", nodes), .nodes = nodes});
  const ProgramResult result =
      run_lockstep({"report", logs.string(), "-o", (folder.path() / "out").string(), "--base-nodes", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(flat(result.out).find("the base asked for, 1 node, has no valid point"), std::string::npos) << result.out;
  EXPECT_NE(flat(result.out).find("One job only at 2 nodes, 4 nodes"), std::string::npos) << result.out;
}

TEST(ReportCommand, LogsOfOpenClipNeedTheirNodesAndTakeThemFromThePath) {
  core::TempDir folder;
  const fs::path golden = fs::path(LOCKSTEP_GOLDEN_DIR) / "logs";
  fs::path log;
  for (const auto& entry : fs::recursive_directory_iterator(golden))
    if (entry.is_regular_file() && entry.path().filename().string().find("openclip") != std::string::npos)
      log = entry.path();
  ASSERT_FALSE(log.empty()) << "no golden log of OpenCLIP below " << golden;
  for (const int nodes : {1, 2}) {
    fs::create_directories(folder.path() / fmt::format("bench_n{}_x", nodes));
    fs::copy_file(log, folder.path() / fmt::format("bench_n{}_x", nodes) / "out.log");
  }
  const ProgramResult asked = run_lockstep({"report", folder.path().string(), "--json"});
  ASSERT_EQ(asked.exit_code, 0) << asked.err;
  const std::string missing = Json::parse(asked.out).at("missing").dump();
  EXPECT_NE(missing.find("nodes"), std::string::npos) << missing;
  const ProgramResult made =
      run_lockstep({"report", folder.path().string(), "--json", "--meta", "bench_n(?<nodes>[0-9]+)_", "--fwd-gflops",
                    "14.78", "--peak-tflops", "989"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Json analysis = Json::parse(made.out);
  std::set<int> nodes;
  for (const Json& curve : analysis.at("curves"))
    for (const Json& point : curve.at("points")) nodes.insert(point.at("nodes").get<int>());
  EXPECT_EQ(nodes, (std::set<int>{1, 2}));
  EXPECT_EQ(made.err.find("--meta"), std::string::npos) << made.err;
  const ProgramResult useless =
      run_lockstep({"report", folder.path().string(), "--json", "--meta", "bensh_n(?<nodes>[0-9]+)_"});
  ASSERT_EQ(useless.exit_code, 0) << useless.err;
  EXPECT_NE(useless.err.find("is found in 0 of 2 paths"), std::string::npos) << useless.err;
}

TEST(ReportCommand, PublishedTablesAreRecomputedAndTheirDifferencesListed) {
  core::TempDir folder;
  const std::string table = std::string(LOCKSTEP_GOLDEN_DIR) + "/published/clap_htsat_base_jupiter.csv";
  const ProgramResult result = run_lockstep({"report", table, "-o", (folder.path() / "out").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(flat(result.out).find("does not follow"), std::string::npos) << result.out;
  EXPECT_TRUE(fs::exists(folder.path() / "out" / "report.html"));
  const ProgramResult json = run_lockstep({"report", table, "--json"});
  EXPECT_EQ(Json::parse(json.out).at("tables").at(0).at("cells").size(), 24u);
  write_record(folder.path(), {});
  EXPECT_EQ(run_lockstep({"report", table, (folder.path() / "run").string()}).exit_code, 2);
}

TEST(ReportCommand, AProposalOfATableAsksPredictForWhatWasNotMeasured) {
  core::TempDir folder;
  const fs::path table = folder.path() / "mine.csv", out = folder.path() / "out";
  for (const char* text :
       {"nodes,samples_per_s\n1,1000\n2,1950\n4,3800\n8,7300\n",
        "nodes,gpus,global_batch,step_time_s\n1,4,256,0.500\n2,8,512,0.512\n4,16,1024,0.530\n8,32,2048,0.55\n",
        "nodes,precision,tokens_per_s\n1,fp8,1000\n2,fp8,1950\n4,fp8,3800\n8,fp8,7300\n1,bf16,600\n2,bf16,1190\n"
        "4,bf16,2350\n8,bf16,4600\n"}) {
    core::write_file_atomic(table, text);
    const auto proposal_for = [&](const char* nodes) {
      const ProgramResult result = run_lockstep(
          {"report", table.string(), "-o", out.string(), "--proposal", "--job-nodes", nodes, "--format", "md"});
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return read_or_empty(out / "proposal" / "report.md");
    };
    const std::string beyond = proposal_for("32");
    for (const char* words : {"predicted, not measured (M15)", "of the rate per node at 8 nodes it keeps",
                              "lockstep predict", "calibrated on the 4 measured sizes"})
      EXPECT_NE(beyond.find(words), std::string::npos) << words << "\n" << text << beyond;
    EXPECT_EQ(beyond.find("extrapolated, not measured"), std::string::npos) << beyond;
    EXPECT_EQ(proposal_for("8").find("M15"), std::string::npos) << "a size that was measured";
  }
  // What it keeps is what `lockstep predict` says of the same table.
  core::write_file_atomic(table, "nodes,samples_per_s\n1,1000\n2,1950\n4,3800\n8,7300\n");
  const ProgramResult predicted = run_lockstep({"predict", table.string(), "--nodes", "32", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const double rate = Json::parse(predicted.out).at(0).at("predicted").at(0).at("rate").at("p50").get<double>();
  ASSERT_EQ(run_lockstep({"report", table.string(), "-o", out.string(), "--proposal", "--job-nodes", "32"}).exit_code,
            0);
  const std::string text = read_or_empty(out / "proposal" / "report.md");
  EXPECT_NE(text.find(fmt::format("it keeps {:.1f} %", 100 * rate / 32 / (7300.0 / 8))), std::string::npos) << text;
}

TEST(ReportCommand, OwnTablesAreAppliedWithAndRefuseWhatTheyCannotTell) {
  core::TempDir folder;
  const fs::path table = folder.path() / "mine.csv", out = folder.path() / "out";
  core::write_file_atomic(table,
                          "nodes,gpus,global_batch,samples_per_s\n1,4,64,100\n1,4,64,104\n2,8,128,180\n2,8,128,184\n");
  const ProgramResult result = run_lockstep({"report", table.string(), "-o", out.string(), "--proposal",
                                             "--budget-samples", "1e9", "--target-efficiency", "95"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(flat(result.out).find("Whether a larger size keeps 95 % cannot be decided"), std::string::npos)
      << result.out;
  EXPECT_NE(flat(run_lockstep({"report", table.string(), "-o", out.string(), "--target-efficiency", "50"}).out)
                .find("The largest measured size that keeps 50 % is 2 nodes"),
            std::string::npos);
  const std::string text = read_or_empty(out / "proposal" / "report.md");
  for (const char* words : {"Resource estimate", "4 rows of a table of results", "not measured", "Student's t"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  for (const char* words : {"nan", "optimiser step", "Warm-up was detected"})
    EXPECT_EQ(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_TRUE(fs::exists(out / "report.html"));
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--protocol", "clap"},
                                                {"--warmup-steps", "3"},
                                                {"--model", "x"},
                                                {"--fact", "nodes=1"},
                                                {"--flops-set", "seed-000"}}) {
    std::vector<std::string> args = {"report", table.string(), "-o", out.string()};
    args.insert(args.end(), flags.begin(), flags.end());
    const ProgramResult refused = run_lockstep(args);
    EXPECT_EQ(refused.exit_code, 2) << flags[0];
    EXPECT_NE(refused.err.find(flags[0]), std::string::npos) << refused.err;
  }
  core::write_file_atomic(table, "nodes,loss\n1,2.5\n2,2.4\n");
  const ProgramResult no_rate = run_lockstep({"report", table.string(), "-o", out.string(), "--proposal"});
  EXPECT_EQ(no_rate.exit_code, 2);
  EXPECT_NE(no_rate.err.find("--proposal needs times or rates"), std::string::npos) << no_rate.err;
}

TEST(ReportCommand, AProposalOfWalltimesHasTableChartsAndEstimate) {
  core::TempDir folder;
  const fs::path table = folder.path() / "mine.csv", out = folder.path() / "out";
  core::write_file_atomic(table,
                          "nodes,cores,walltime_s\n1,128,3600\n2,256,1840\n4,512,960\n8,1024,520\n16,2048,310\n");
  const ProgramResult result =
      run_lockstep({"report", table.string(), "-o", out.string(), "--proposal", "--budget-runs", "40",
                    "--restart-share", "5", "--price-per-node-hour", "2", "--currency", "EUR"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(flat(result.out).find("Read as strong scaling"), std::string::npos) << result.out;
  const std::string text = read_or_empty(out / "proposal" / "report.md");
  for (const char* words :
       {"| nodes | cores | time (s) | speed-up | ideal speed-up | efficiency (%) | node-hours | core-hours |",
        "| 8 | 1024 | 520.0 | 6.92 | 8 | 86.5 | 1.156 | 147.9 |", "For 40 runs at 8 nodes", "| EUR |",
        "given with --budget-runs"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  for (const char* words : {"nan", "samples", "optimiser step", "pauses"})
    EXPECT_EQ(text.find(words), std::string::npos) << words << "\n" << text;
  size_t num_figures = 0;
  for (const char* name : {"efficiency", "speedup", "walltime"})
    for (const fs::directory_entry& file : fs::directory_iterator(out / "proposal" / "figures"))
      num_figures += file.path().extension() == ".svg" && file.path().stem().string().starts_with(name);
  EXPECT_EQ(num_figures, 3u);
  EXPECT_TRUE(fs::exists(out / "proposal" / "report.html"));
  const ProgramResult samples =
      run_lockstep({"report", table.string(), "-o", out.string(), "--proposal", "--budget-samples", "1e9"});
  EXPECT_EQ(samples.exit_code, 2);
  EXPECT_NE(samples.err.find("--budget-runs"), std::string::npos) << samples.err;
}

TEST(ReportCommand, TheProposalIsAFolderOfItsOwn) {
  core::TempDir folder;
  const fs::path logs = folder.path() / "logs", out = folder.path() / "out";
  for (const int nodes : {1, 2}) write_record(logs, {.name = fmt::format("n{}", nodes), .nodes = nodes});
  const ProgramResult result = run_lockstep(
      {"report", logs.string(), "-o", out.string(), "--proposal", "--restart-share", "10", "--budget-samples", "1e10"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string text = read_or_empty(out / "proposal" / "report.md");
  EXPECT_NE(text.find("Resource estimate"), std::string::npos);
  EXPECT_NE(text.find("node-hours"), std::string::npos);
  EXPECT_NE(text.find("lockstep report " + logs.string()), std::string::npos) << text;
  EXPECT_TRUE(fs::exists(out / "report.html"));
  EXPECT_EQ(flat(result.out).find("missing: the budget"), std::string::npos) << result.out;
  const ProgramResult unplanned = run_lockstep({"report", logs.string(), "-o", out.string(), "--proposal"});
  EXPECT_NE(flat(unplanned.out).find("missing: the budget"), std::string::npos) << unplanned.out;
}

TEST(ReportCommand, ComparesTwoRunsWithAVerdict) {
  core::TempDir folder;
  write_record(folder.path(), {.name = "a", .step_ms = 100});
  write_record(folder.path(), {.name = "b", .step_ms = 110});
  const ProgramResult result =
      run_lockstep({"report", "compare", (folder.path() / "a").string(), (folder.path() / "b").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(flat(result.out).find("these two runs differ"), std::string::npos) << result.out;
  EXPECT_EQ(flat(result.out).find("faster"), std::string::npos) << result.out;
  EXPECT_NE(flat(result.out).find("single run"), std::string::npos) << result.out;
  const Json json = Json::parse(
      run_lockstep({"report", "compare", (folder.path() / "a").string(), (folder.path() / "b").string(), "--json"})
          .out);
  EXPECT_NEAR(json.at("sizes").at(0).at("ratio").get<double>(), 100.0 / 110.0, 0.005);
  EXPECT_EQ(run_lockstep({"report", "compare", (folder.path() / "a").string()}).exit_code, 2);
}

TEST(ReportCommand, WritesAComparisonAsAPageAndATable) {
  core::TempDir folder;
  write_record(folder.path(), {.name = "a", .step_ms = 100});
  write_record(folder.path(), {.name = "b", .step_ms = 125});
  const fs::path out = folder.path() / "out";
  const ProgramResult result = run_lockstep(
      {"report", "compare", (folder.path() / "a").string(), (folder.path() / "b").string(), "-o", out.string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find((out / "report.html").string()), std::string::npos) << "where the page is\n" << result.out;
  const std::string page = read_or_empty(out / "report.html"), text = read_or_empty(out / "report.md");
  for (const char* part : {"a and b", "these two runs differ", "Rows named billed", "a single run of each side"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const std::vector<std::string> rows = core::split(read_or_empty(out / "tables" / "comparison.csv"), "\n");
  ASSERT_GE(rows.size(), 2u);
  const std::vector<std::string> titles = core::split(rows[0], ","), cells = core::split(rows[1], ",");
  const auto at = static_cast<size_t>(std::find(titles.begin(), titles.end(), "ratio") - titles.begin());
  ASSERT_LT(at, titles.size()) << rows[0];
  EXPECT_NEAR(std::stod(cells.at(cells.size() - (titles.size() - at))), 100.0 / 125.0, 0.005) << rows[1];
}

TEST(ReportCommand, ASecondReportDoesNotReadTheFirstOnesTables) {
  const core::TempDir folder;
  std::string steps = "step,step_time_s,samples\n";
  for (int i = 0; i < 60; ++i) steps += fmt::format("{},{},64\n", i, 0.5 + 0.001 * (i % 7));
  const auto report_in = [](const fs::path& logs) {
    return run_lockstep({"report", logs.string(), "-o", (logs / "report").string(), "--proposal", "--fact", "nodes=1",
                         "devices=4", "model=m"});
  };
  for (const char* side : {"m1", "pr1"}) {
    fs::create_directories(folder.path() / side);
    core::write_file_atomic(folder.path() / side / "steps.csv", steps);
    ASSERT_EQ(report_in(folder.path() / side).exit_code, 0);
    ASSERT_TRUE(fs::exists(folder.path() / side / "report" / "proposal" / "tables"));
    const ProgramResult again = report_in(folder.path() / side);
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_NE(again.err.find("tables and figures of reports were passed over"), std::string::npos) << again.err;
    EXPECT_NE(again.err.find((folder.path() / side / "report").string()), std::string::npos) << again.err;
  }
  const ProgramResult compared =
      run_lockstep({"report", "compare", (folder.path() / "m1").string(), (folder.path() / "pr1").string()});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_EQ(flat(compared.out).find("figures/"), std::string::npos) << compared.out;
  const ProgramResult only = run_lockstep({"report", (folder.path() / "m1" / "report").string()});
  EXPECT_EQ(only.exit_code, 6) << only.out;
  EXPECT_NE(only.err.find("it holds reports"), std::string::npos) << only.err;
  const std::string table = std::string(LOCKSTEP_GOLDEN_DIR) + "/published/clap_htsat_base_jupiter.csv",
                    log = (folder.path() / "m1" / "steps.csv").string();
  const ProgramResult mixed = run_lockstep({"report", log, table});
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_NE(mixed.err.find(fmt::format("'{}' is a table, '{}' is a run", table, log)), std::string::npos) << mixed.err;
}

TEST(ReportCommand, ASweepFolderBringsItsAxesAndItsUnstartedPoints) {
  core::TempDir folder;
  Json points = Json::array();
  for (const int nodes : {1, 2, 4}) {
    const std::string name = fmt::format("n{}", nodes);
    if (nodes < 4) write_record(folder.path() / "runs", {.name = name, .nodes = nodes});
    points.push_back({{"index", points.size()},
                      {"name", name},
                      {"axes", {{"nodes", nodes}}},
                      {"repeat", 1},
                      {"tags", Json::object()},
                      {"nodes", nodes},
                      {"ranks_per_node", 4},
                      {"run", "runs/" + name},
                      {"arguments", Json::array()},
                      {"state", nodes < 4 ? "finished" : "failed"},
                      {"message", nodes < 4 ? "" : "node 3 did not boot"},
                      {"jobs", {{{"id", std::to_string(100 + nodes)}}}}});
  }
  core::write_file_atomic(folder.path() / "sweep.json", Json{{"sweep_version", 1}, {"points", points}}.dump());
  const ProgramResult result = run_lockstep({"report", folder.path().string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json analysis = Json::parse(result.out);
  EXPECT_EQ(analysis.at("curves").size(), 1u);
  EXPECT_EQ(analysis.at("curves").at(0).at("scaling"), "weak scaling");
  ASSERT_EQ(analysis.at("left_out").size(), 1u);
  EXPECT_NE(analysis.at("left_out").at(0).at("reason").get<std::string>().find("node 3 did not boot"),
            std::string::npos);
  // The words of a start that failed before the record was opened stand in the sentences about failed runs.
  const std::string words = "comm: 3 of 4 ranks met at n1:29500 within 60 s";
  for (Json& point : points) {
    if (point.at("nodes") == 1) continue;
    point["state"] = "failed", point["message"] = words;
    Json status = core::read_json_file(folder.path() / "runs" / "n2" / "status.json");
    status["state"] = "stopped";
    core::write_file_atomic(folder.path() / "runs" / "n2" / "status.json", status.dump());
  }
  fs::create_directories(folder.path() / "runs" / "n4");  // it came no further
  core::write_file_atomic(folder.path() / "sweep.json", Json{{"sweep_version", 1}, {"points", points}}.dump());
  const ProgramResult failed = run_lockstep({"report", folder.path().string(), "-o", (folder.path() / "out").string()});
  ASSERT_EQ(failed.exit_code, 0) << failed.err;
  EXPECT_NE(flat(failed.out).find(fmt::format("it left no record; the sweep says it is failed ({})", words)),
            std::string::npos)
      << failed.out;
  EXPECT_NE(flat(failed.out).find("At 2 nodes every run failed"), std::string::npos) << failed.out;
  EXPECT_NE(flat(failed.out).find(fmt::format("n2 failed ({})", words)), std::string::npos) << failed.out;

  core::write_file_atomic(folder.path() / "sweep.json", "{\"sweep_version\": 1, \"points\": [{}]}");
  const ProgramResult damaged =
      run_lockstep({"report", folder.path().string(), "-o", (folder.path() / "out").string()});
  EXPECT_EQ(damaged.exit_code, 0) << damaged.err;
  for (const std::string& part : {std::string("is damaged"), std::string("entry 1 of its points: key 'run' not found"),
                                  fmt::format("`lockstep sweep {}", (folder.path() / "sweep.toml").string())})
    EXPECT_NE(flat(damaged.out).find(part), std::string::npos) << damaged.out;
  core::write_file_atomic(folder.path() / "sweep.json", "{\"sweep_version\": 1,\n \"poi");
  fs::remove_all(folder.path() / "runs");
  fs::remove_all(folder.path() / "out");
  const ProgramResult lost = run_lockstep({"report", folder.path().string()});
  EXPECT_EQ(lost.exit_code, 4) << lost.out;
  for (const char* part : {"sweep.json", "parse error at line 2", "sweep.toml"})
    EXPECT_NE(lost.err.find(part), std::string::npos) << lost.err;
}

TEST(ReportCommand, BenchmarksBesideRunsAreShownOrSaidToBeLeftOut) {
  core::TempDir folder;
  write_record(folder.path(), {.name = "n1", .nodes = 1});
  const auto document = [](const char* name, const Json& rows) {
    return Json{{"format", "lockstep-bench-1"},
                {"case", name},
                {"machine", {{"ranks", {{{"host", "a"}, {"device", "cpu"}}, {{"host", "b"}}}}}},
                {"rows", rows}}
        .dump();
  };
  Json rows = Json::array();
  for (const int bytes : {1000, 2000, 4000})
    rows.push_back({{"part", "all-reduce"},
                    {"bytes", bytes},
                    {"count", bytes / 4},
                    {"type", "float"},
                    {"redop", "sum"},
                    {"root", -1},
                    {"in_place_time_us", 10},
                    {"in_place_wrong", 0}});
  core::write_file_atomic(folder.path() / "net.json", document("collective", rows));
  core::write_file_atomic(folder.path() / "op.json", document("op", Json::array()));
  core::write_file_atomic(folder.path() / "other.json", "{}");
  const ProgramResult result = run_lockstep({"report", folder.path().string(), "-o", (folder.path() / "out").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("net.json  all_reduce  in place      2"), std::string::npos) << result.out;
  EXPECT_NE(flat(result.out).find("3.91 KiB"), std::string::npos)
      << "the size with the largest bandwidth: " << result.out;
  EXPECT_EQ(core::split(result.out, "net.json").size(), 4u)
      << "a line of the runs, and one in both parts of the table, for three sizes: " << result.out;
  EXPECT_NE(flat(result.out).find("left out: op.json: it is a result of `lockstep bench op`, not of training"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(flat(result.out).find("other.json"), std::string::npos);
  const std::string page = core::read_file(folder.path() / "out" / "report.html");
  EXPECT_NE(page.find("Bus bandwidth of collectives"), std::string::npos);
}

/// What a browser stumbles over in pages that `lockstep report` made; the hand-made page of render_page_test has all
/// the blocks, these the real data.
class ReportPage : public ::testing::Test {
 protected:
  void check(const fs::path& page) const {
    ASSERT_TRUE(fs::exists(page)) << page;
    const ProgramResult result = tests::run_program(
        {"/usr/bin/env", "python3", LOCKSTEP_SOURCE_DIR "/tests/support/check_page.py", "--quick", page.string()}, {},
        std::chrono::minutes(8));
    if (result.exit_code == kNoBrowser) GTEST_SKIP() << result.out;
    EXPECT_EQ(result.exit_code, 0) << page << "\n" << result.out << result.err;
  }
  static constexpr int kNoBrowser = 3;
  core::TempDir folder_{"lockstep_page"};
};

TEST_F(ReportPage, OfRunsAndTheirProposalHasNoProblemInABrowser) {
  const fs::path logs = folder_.path() / "logs", out = folder_.path() / "out";
  write_record(logs, {.name = "n1", .nodes = 1});
  write_record(logs, {.name = "n2", .nodes = 2, .step_ms = 106});
  const ProgramResult made = run_lockstep(
      {"report", logs.string(), "-o", out.string(), "--proposal", "--restart-share", "10", "--budget-samples", "1e10"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  check(out / "report.html");
  check(out / "proposal" / "report.html");
}

TEST_F(ReportPage, OfThePublishedTablesHasNoProblemInABrowser) {
  std::vector<std::string> words = {"report"};
  for (const auto& entry : fs::directory_iterator(fs::path(LOCKSTEP_GOLDEN_DIR) / "published"))
    words.push_back(entry.path().string());
  ASSERT_GT(words.size(), 5u);
  std::sort(words.begin() + 1, words.end());
  words.insert(words.end(), {"-o", (folder_.path() / "out").string()});
  const ProgramResult made = run_lockstep(words);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  check(folder_.path() / "out" / "report.html");
}

TEST(ReportCommand, OneFileOfStepsMayHoldSeveralSizesAndRepeats) {
  core::TempDir folder;
  const auto write_steps = [&](const char* name, double factor) {
    std::string text = "step,step_time_ms,global_batch,nodes,gpus,run\n";
    for (int step = 0; step < 100; ++step)  // all runs side by side, as a program writes that joins its logs
      for (const int nodes : {4, 1, 2})
        for (const char* run : {"a", "b"})
          text += fmt::format("{},{:.3f},{},{},{},{}\n", step,
                              factor * (100 + 4 * nodes + 0.1 * (step * 7919 % 13) + (*run == 'b' ? 0.3 : 0.0)),
                              256 * nodes, nodes, 4 * nodes, run);
    core::write_file_atomic(folder.path() / name, text);
    return (folder.path() / name).string();
  };
  const std::string file = write_steps("mine.csv", 1);
  const ProgramResult result = run_lockstep({"report", file, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json analysis = Json::parse(result.out);
  ASSERT_EQ(analysis.at("curves").size(), 1u);
  EXPECT_EQ(analysis.at("curves")[0].at("scaling"), "weak scaling");
  const Json& points = analysis.at("curves")[0].at("points");
  ASSERT_EQ(points.size(), 3u);
  double base_ms = 0;
  for (size_t at = 0; at < 3; ++at) {
    const int nodes = 1 << at;
    EXPECT_EQ(points[at].at("nodes"), nodes);
    EXPECT_EQ(points[at].at("devices"), 4 * nodes);
    EXPECT_EQ(points[at].at("samples_per_device"), 64);
    EXPECT_EQ(points[at].at("runs"), (Json{fmt::format("mine.csv [nodes={}, gpus={}, run=a]", nodes, 4 * nodes),
                                           fmt::format("mine.csv [nodes={}, gpus={}, run=b]", nodes, 4 * nodes)}));
    const double ms = points[at].at("step_p50_ms");
    EXPECT_NEAR(ms, 100.75 + 4 * nodes, 0.2);
    if (at == 0) base_ms = ms;
    EXPECT_NEAR(points[at].at("efficiency").at("value").get<double>(), base_ms / ms, 0.002);
  }
  EXPECT_EQ(analysis.at("left_out").size(), 0u) << analysis.at("left_out");
  ASSERT_EQ(analysis.at("runs").size(), 6u);
  for (const Json& run : analysis.at("runs")) EXPECT_EQ(run.at("problems").size(), 0u) << run.at("problems");

  const ProgramResult compared = run_lockstep({"report", "compare", file, write_steps("slower.csv", 1.25), "--json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const Json sizes = Json::parse(compared.out).at("sizes");
  ASSERT_EQ(sizes.size(), 3u);
  for (const Json& size : sizes) {
    EXPECT_EQ(size.at("runs_a"), 2) << size;
    EXPECT_EQ(size.at("conclusion"), "a_faster") << size;
    EXPECT_NEAR(size.at("ratio").get<double>(), 0.8, 1e-4) << size;
  }
}

TEST(ReportCommand, ARunFarSlowerThanItsRepeatIsLeftOutAndTheReportGoesOn) {
  core::TempDir folder;
  write_record(folder.path(), {.name = "n1", .nodes = 1, .step_ms = 100});
  write_record(folder.path(), {.name = "n4a", .nodes = 4, .step_ms = 110});
  write_record(folder.path(), {.name = "n4b", .nodes = 4, .step_ms = 16500});
  const ProgramResult result = run_lockstep({"report", folder.path().string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json analysis = Json::parse(result.out);
  ASSERT_EQ(analysis.at("curves").size(), 1u);
  ASSERT_EQ(analysis.at("curves")[0].at("points").size(), 2u);
  EXPECT_NEAR(analysis.at("curves")[0].at("points")[1].at("efficiency").at("value").get<double>(), 100.0 / 110, 0.01);
  EXPECT_EQ(analysis.at("curves")[0].at("points")[1].at("runs"), Json{"n4a"});
  const std::string left = analysis.at("left_out").dump();
  EXPECT_NE(left.find("n4b"), std::string::npos) << left;
  EXPECT_NE(left.find("those of n4a, a run of the same size"), std::string::npos) << left;
  EXPECT_EQ(left.find("milliseconds"), std::string::npos) << "own records tell their unit: " << left;

  const fs::path logs = folder.path() / "logs";
  fs::create_directories(logs);
  for (const auto& [name, size, ms] : {std::tuple{"one", 1, 500.0}, {"two_a", 2, 520.0}, {"two_b", 2, 0.52}}) {
    std::string text = "step,iteration_time,nodes,global_batch\n";  // no unit
    for (int step = 0; step < 60; ++step)
      text += fmt::format("{},{:.6f},{},{}\n", step, ms * (1 + 0.001 * (step * 7919 % 13)), size, 256 * size);
    core::write_file_atomic(logs / fmt::format("{}.csv", name), text);
  }
  const ProgramResult guessed = run_lockstep({"report", logs.string(), "--json"});
  ASSERT_EQ(guessed.exit_code, 0) << guessed.err;
  const Json of_logs = Json::parse(guessed.out);
  ASSERT_EQ(of_logs.at("curves").size(), 1u);
  EXPECT_EQ(of_logs.at("curves")[0].at("points").size(), 1u) << "which of the two at 2 nodes is right nobody can tell";
  EXPECT_EQ(of_logs.at("left_out").size(), 2u);
  EXPECT_NE(of_logs.at("left_out").dump().find("some are seconds and some milliseconds"), std::string::npos)
      << of_logs.at("left_out");
  fs::remove(logs / "one.csv");
  const ProgramResult refused = run_lockstep({"report", logs.string(), "--json"});
  EXPECT_EQ(refused.exit_code, 4) << refused.err;
  EXPECT_NE(refused.err.find("no repeats and are not pooled"), std::string::npos) << refused.err;
}

TEST(ReportCommand, ACopyOfALogIsNoRepeat) {
  const core::TempDir folder;
  const std::string golden = std::string(LOCKSTEP_GOLDEN_DIR) + "/logs/openclip.log";
  for (const char* copy : {"a", "b"}) {
    fs::create_directories(folder.path() / copy);
    fs::copy_file(golden, folder.path() / copy / "out.log");
  }
  const auto result = run_lockstep({"report", (folder.path() / "a").string(), (folder.path() / "b").string(), "-o",
                                    (folder.path() / "r").string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json report = Json::parse(result.out);
  EXPECT_EQ(report.at("curves").at(0).at("points").at(0).at("runs").size(), 1u);
  EXPECT_NE(report.at("left_out").dump().find("a copy, no repeat"), std::string::npos) << report.at("left_out").dump(1);
}

TEST(ReportCommand, FactsMayBeRepeatedAndStandBeforeTheLogs) {
  core::TempDir folder;
  const std::string log = (folder.path() / "n2" / "steps.csv").string();
  fs::create_directories(folder.path() / "n2");
  std::string steps = "step,step_time_s,samples\n";
  for (int i = 0; i < 60; ++i) steps += fmt::format("{},0.5,64\n", i);
  core::write_file_atomic(log, steps);
  const ProgramResult result =
      run_lockstep({"report", "--json", "--from", "csv", "--meta", "n(?<nodes>[0-9]+)/", "--fact", "devices_per_node=4",
                    "--fact", "model=m", "precision=bf16", log});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json analysis = Json::parse(result.out);
  const Json& run = analysis.at("runs").at(0);
  EXPECT_NE(run.dump().find("\"bf16\""), std::string::npos) << run.dump(1);
  EXPECT_EQ(analysis.at("curves").at(0).at("points").at(0).at("devices"), 8) << "the first --fact counts, too";
  const ProgramResult greedy = run_lockstep({"report", "--protocol", "clap", log});
  EXPECT_EQ(greedy.exit_code, 2);
  EXPECT_NE(greedy.err.find("--protocol took all words behind it"), std::string::npos) << greedy.err;
  EXPECT_NE(greedy.err.find(log), std::string::npos) << greedy.err;
}

TEST(ReportCommand, RefusesWrongUse) {
  core::TempDir folder;
  EXPECT_EQ(run_lockstep({"report"}).exit_code, 2);
  const ProgramResult missing = run_lockstep({"report", "/nowhere/run"});
  EXPECT_EQ(missing.exit_code, 6);
  EXPECT_NE(missing.err.find("/nowhere/run"), std::string::npos);
  EXPECT_EQ(run_lockstep({"report", folder.path().string()}).exit_code, 6) << "a folder without anything to report";
  EXPECT_EQ(run_lockstep({"report", folder.path().string(), "--synthetic-data", "--real-data"}).exit_code, 2);
  write_record(folder.path(), {});
  EXPECT_EQ(run_lockstep({"report", (folder.path() / "run").string(), "--fact", "nodes"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"report", (folder.path() / "run").string(), "--protocol", "clapp"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"report", (folder.path() / "run").string(), "--job-hours", "24"}).exit_code, 2)
      << "the evidence pack alone reads it";
  for (const auto& [flag, value, words] : {std::tuple("--target-efficiency", "0.8", "> 1 and <= 100"),
                                           {"--restart-share", "0.05", "5 for 5 %"},
                                           {"--peak-tflops", "989e12", "100000"},
                                           {"--fwd-gflops", "14.78e9", "<= 1000000000"}}) {
    const ProgramResult slip = run_lockstep({"report", (folder.path() / "run").string(), flag, value});
    EXPECT_EQ(slip.exit_code, 2) << flag;
    EXPECT_NE(slip.err.find(words), std::string::npos) << slip.err;
  }
  const ProgramResult help = run_lockstep({"report", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(flat(help.out).find("--proposal"), std::string::npos);
  EXPECT_NE(run_lockstep({"report", "compare", "--help"}).out.find("--paired"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
