#include "report/analysis_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/log.h"
#include "core/strings.h"
#include "report/analysis_published.h"

namespace lockstep::report {
namespace {
namespace fs = std::filesystem;
constexpr int kMaxDepth = 8, kSweepVersion = 1;
constexpr unsigned kMaxThreads = 8;

bool is_record(const fs::path& folder) { return fs::exists(folder / "run.json") || fs::exists(folder / "steps.jsonl"); }
bool is_sweep(const fs::path& folder) { return fs::exists(folder / "sweep.json"); }

bool looks_like_log(const fs::path& file) {
  static const std::set<std::string> kEndings = {".log", ".out", ".txt", ".csv", ".err"};
  return kEndings.contains(file.extension().string());
}

/// What `lockstep report` left: its page beside the folder of its tables.
bool is_report(const fs::path& folder) {
  std::error_code failure;
  return (fs::exists(folder / "report.html", failure) || fs::exists(folder / "report.md", failure)) && fs::is_directory(folder / "tables", failure);
}

/// Tables and figures of a report are results, no runs; logs beside them still count.
bool is_part_of_report(const fs::path& folder) {
  const fs::path name = folder.filename();
  return (name == "tables" || name == "figures") && is_report(folder.parent_path());
}

struct Found {
  std::vector<fs::path> records{}, logs{};
  std::set<fs::path> reports{};  ///< Whose tables and figures were passed over.
};

/// Records and sweeps below a folder; a record is not searched further, tables and figures of reports not at all.
void search(const fs::path& folder, int depth, Found& found) {
  std::vector<fs::path> entries;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, failure))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end(),
            [](const fs::path& a, const fs::path& b) { return core::natural_less(a.string(), b.string()); });
  for (const fs::path& path : entries) {
    if (fs::is_directory(path, failure)) {
      if (is_record(path) || is_sweep(path))
        found.records.push_back(path);
      else if (is_part_of_report(path))
        found.reports.insert(folder);
      else if (depth < kMaxDepth)
        search(path, depth + 1, found);
    } else if (looks_like_log(path) || (path.extension() == ".json" && record::is_benchmark_result(path))) {
      found.logs.push_back(path);
    }
  }
}

/// "'a' and 2 more"
std::string reports_text(const std::set<fs::path>& reports) {
  return fmt::format("'{}'{}", reports.begin()->string(), reports.size() > 1 ? fmt::format(" and {} more", reports.size() - 1) : "");
}

/// Axes that the record tells by itself: they are the size and the batch of a point, not its configuration.
bool is_size_axis(const std::string& axis) {
  static const std::set<std::string> kAxes = {"nodes",      "batch-size",     "global-batch-size",
                                              "accum-freq", "nproc-per-node", "ranks-per-node"};
  return kAxes.contains(core::replace_all(axis, "_", "-"));
}

Source sweep_source(const fs::path& folder, const core::Json& point, bool is_local) {
  const auto plain = [](const core::Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  Source source{.path = folder / point.at("run").get<std::string>()};
  for (const char* key : {"axes", "tags"})
    for (const auto& [axis, value] : point.at(key).items())
      if (!is_size_axis(axis)) source.tags[axis] = plain(value);
  source.state = point.at("state");
  source.message = point.at("message");
  const auto num_nodes = point.at("nodes").get<int64_t>();
  source.devices = num_nodes * point.at("ranks_per_node").get<int64_t>();
  source.nodes = is_local ? 1 : num_nodes;
  if (const auto& jobs = point.at("jobs"); !jobs.empty()) source.job = "job " + jobs.back().at("id").get<std::string>();
  return source;
}

/// The points that sweep.json tells; DataError when it is damaged.
std::vector<Source> read_sweep(const fs::path& folder, const core::Json& sweep) {
  std::vector<Source> points;
  try {
    const bool is_local = sweep.value("mode", "") == "local";  // all its ranks ran on this machine, whatever the axis says
    for (const core::Json& point : sweep.at("points")) points.push_back(sweep_source(folder, point, is_local));
  } catch (const core::Json::exception&) {
    throw DataError(fmt::format("report: '{}' lacks facts of its points", (folder / "sweep.json").string()), "");
  }
  return points;
}

/// Points of a sweep (docs/sweep.md); those that left no record stay in the list, so that they are told. Of a damaged sweep.json the
/// damage is told and the runs below the folder are taken as they are.
void add_sweep(const fs::path& folder, std::vector<Source>& sources) {
  const fs::path file = folder / "sweep.json";
  int64_t version = 0;
  try {
    const core::Json sweep = core::read_json_file(file);
    if (sweep.is_object() && sweep.contains("sweep_version") && sweep["sweep_version"].is_number_integer()) version = sweep["sweep_version"];
    if (version <= kSweepVersion) {
      const std::vector<Source> points = read_sweep(folder, sweep);
      sources.insert(sources.end(), points.begin(), points.end());
      return;
    }
  } catch (const DataError&) {
    Found found;
    search(folder, 0, found);
    std::vector<fs::path>& records = found.records;
    std::erase_if(records, [](const fs::path& record) { return !is_record(record); });
    if (records.empty())
      throw DataError(fmt::format("report: '{}' is damaged (cut off or changed by hand), and no run lies below its folder", file.string()),
                      "name the run folders instead");
    for (const fs::path& record : records) sources.push_back({.path = record});
    sources.push_back({.path = file,
                       .damage = fmt::format("'{}' is damaged (cut off or changed by hand): the {} runs below its folder are reported, "
                                             "without the sweep's axes and without the points that left no record",
                                             file.string(), records.size())});
    return;
  }
  throw DataError(fmt::format("report: '{}' has sweep_version {}, this lockstep knows {}", file.string(), version, kSweepVersion),
                  "use a newer lockstep");
}

void add_folder(const fs::path& folder, std::vector<Source>& sources) {
  if (is_sweep(folder)) return add_sweep(folder, sources);
  if (is_record(folder)) {
    sources.push_back({.path = folder});
    return;
  }
  Found found;
  search(folder, 0, found);
  for (const fs::path& record : found.records) {
    if (is_sweep(record))
      add_sweep(record, sources);
    else
      sources.push_back({.path = record});
  }
  // Beside records other logs are those of the same runs, results of benchmarks are not.
  const size_t num_before = sources.size();
  for (const fs::path& log : found.logs)
    if (!found.records.empty() ? record::is_benchmark_result(log) : record::guess_format(log) || is_published_table(log)) sources.push_back({.path = log});
  if (found.reports.empty()) return;
  if (found.records.empty() && sources.size() == num_before)
    throw EnvironmentError(fmt::format("report: nothing to report in '{}': it holds reports ({}) and no runs", folder.string(), reports_text(found.reports)),
                           "give the runs or logs that the report was made from");
  core::log_info("report: tables and figures of reports were passed over: {}", reports_text(found.reports));
}

/// Last part of the path; where that is not unique, more of it.
void name_sources(std::vector<Source>& sources) {
  for (Source& source : sources) {
    fs::path path = source.path.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    source.name = path.filename().string();
    source.path = path;
  }
  std::map<std::string, size_t> counts;
  for (const Source& source : sources) ++counts[source.name];
  std::set<std::string> taken;
  for (Source& source : sources) {
    if (counts[source.name] > 1) source.name = (source.path.parent_path().filename() / source.path.filename()).string();
    std::string name = source.name;
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{} ({})", source.name, i);
    source.name = name;
  }
}

/// What a sweep says of its points by the tags fwd-gflops and peak-tflops, in place of what the run counted, which stays beside it.
void take_facts_from_tags(record::RunSetup& setup) {
  const auto number = [&](const char* name) {
    const auto tag = setup.tags.find(name);
    const auto value = tag == setup.tags.end() ? std::nullopt : core::parse_double(tag->second);
    return value && *value > 0 ? value : std::nullopt;
  };
  if (const auto gflops = number("fwd-gflops")) {
    if (setup.forward_gflops_per_sample && !setup.processed_gflops_per_sample) {
      setup.processed_gflops_per_sample = setup.forward_gflops_per_sample;
      setup.processed_formula = setup.flops_formula;
    }
    setup.forward_gflops_per_sample = gflops;
    setup.flops_formula = fmt::format("3 x {:g} GFLOP, the sweep's tag fwd-gflops", *gflops);
  }
  if (const auto tflops = number("peak-tflops")) {
    setup.peak_tflops_per_device = tflops;
    setup.peak_source = "the sweep's tag peak-tflops";
  }
}

/// Of what was measured: two runs never agree in every time and loss. "" where rows are too few to tell.
std::string digest_of(const record::RunData& run) {
  constexpr size_t kFewest = 10;
  const record::StepColumns& steps = run.steps;
  if (steps.step_ms.size() < kFewest) return "";
  const auto bytes = [](const std::vector<double>& column) { return std::as_bytes(std::span(column)); };
  return fmt::format("{} {} {} {}", core::xxh3_hex(bytes(steps.step_ms)), core::xxh3_hex(bytes(steps.loss)), run.setup.nodes.value_or(0),
                     run.setup.devices.value_or(0));
}

/// A copy of a run, in a backup folder say, is no repeat of it.
void leave_out_copies(const std::vector<std::string>& digests, std::vector<RunSummary>& runs) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (digests[i].empty() || !runs[i].series) continue;
    const auto [at, is_new] = first.emplace(digests[i], i);
    if (is_new) continue;
    runs[i].series.reset();
    runs[i].unusable = fmt::format("its steps are those of {}, time for time: a copy, no repeat", runs[at->second].name);
  }
}

RunSummary load_one(const Source& source, const LoadOptions& options, std::string& digest) {
  if (!source.damage.empty()) throw DataError(source.damage, "");
  record::RunData run = record::read_log(source.path, options.format, {.meta = options.meta});
  run.name = source.name;
  for (const auto& [axis, value] : source.tags) run.setup.tags.emplace(axis, value);
  take_facts_from_tags(run.setup);
  if (run.state.empty()) run.state = source.state;
  if (run.message.empty()) run.message = source.message;
  if (run.allocation.empty()) run.allocation = source.job;
  if (!run.setup.nodes) run.setup.nodes = source.nodes;
  if (!run.setup.devices) run.setup.devices = source.devices;
  digest = digest_of(run);
  return summarise_run(std::move(run), options.analysis);
}

/// A source that could not be read, as a run that says so.
RunSummary unreadable(const Source& source, const Error& error) {
  RunSummary run;
  run.name = source.name;
  run.source = source.path;
  run.state = source.state;
  run.message = source.message;
  run.setup.tags = source.tags;
  run.setup.nodes = source.nodes;
  run.setup.devices = source.devices;
  const bool has_no_record = !source.state.empty() && !fs::exists(source.path);
  const std::string why = source.message.empty() ? "" : fmt::format(" ({})", source.message);
  run.unusable = has_no_record ? fmt::format("it left no record; the sweep says it is {}{}", source.state, why) : error.what();
  return run;
}
}  // namespace

std::vector<Source> find_sources(const std::vector<std::string>& inputs) {
  std::vector<Source> sources;
  for (const std::string& input : inputs) {
    const fs::path path(input);
    if (!fs::exists(path))
      throw EnvironmentError(fmt::format("report: '{}' does not exist", input),
                             "give run folders (<logs>/<name>), sweep folders, logs or CSV tables");
    const size_t before = sources.size();
    if (fs::is_directory(path))
      add_folder(path, sources);
    else
      sources.push_back({.path = path});
    if (sources.size() == before)
      throw EnvironmentError(
          fmt::format("report: nothing to report in '{}': no run.json, no sweep.json and no log of a known program below it",
                      input),
          "give the folder of a run, or name log files and their format (--from)");
  }
  std::set<fs::path> seen;
  std::erase_if(sources, [&](const Source& source) { return !seen.insert(fs::weakly_canonical(source.path)).second; });
  name_sources(sources);
  return sources;
}

namespace {
/// A pattern that is found nowhere gives no fact: most likely it is wrong.
void warn_of_useless_meta(const std::vector<Source>& sources, const std::string& pattern) {
  if (pattern.empty() || sources.empty()) return;
  std::vector<const Source*> without;
  for (const Source& source : sources)
    if (!record::matches_path(pattern, source.path)) without.push_back(&source);
  if (without.empty()) return;
  core::log_warning("report: --meta '{}' is found in {} of {} paths and gives no fact for the others; the first of them: '{}'", pattern,
                    sources.size() - without.size(), sources.size(), fs::absolute(without.front()->path).lexically_normal().string());
}
}  // namespace

std::vector<RunSummary> load_sources(const std::vector<Source>& sources, const LoadOptions& options) {
  std::vector<RunSummary> runs(sources.size());
  std::vector<std::exception_ptr> unread(sources.size());
  std::vector<std::string> digests(sources.size());
  std::exception_ptr fatal;  // wrong flags and our own mistakes: no source is to blame
  std::atomic<size_t> next = 0, done = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      std::exception_ptr mistake;
      try {
        runs[i] = load_one(sources[i], options, digests[i]);
      } catch (const Error& error) {
        if (error.code() == ExitCode::kUsage || error.code() == ExitCode::kInternal) mistake = std::current_exception();
        unread[i] = std::current_exception();
        runs[i] = unreadable(sources[i], error);
      } catch (...) {
        mistake = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (mistake) fatal = mistake;
      if (options.on_progress) options.on_progress(++done, sources.size());
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t num_threads = std::min<size_t>({std::max(1u, std::thread::hardware_concurrency()), kMaxThreads, sources.size()});
    for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
    work();
  }
  if (fatal) std::rethrow_exception(fatal);
  warn_of_useless_meta(sources, options.meta.path_pattern);
  leave_out_copies(digests, runs);
  const bool none_read =
      std::all_of(unread.begin(), unread.end(), [](const std::exception_ptr& error) { return error != nullptr; });
  if (none_read && !unread.empty() && runs.front().state.empty()) std::rethrow_exception(unread.front());
  return runs;
}

}  // namespace lockstep::report
