#include "analysis/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <map>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/join_first.h"
#include "core/json.h"
#include "core/log.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "logs/failure.h"

namespace lockstep::analysis {
namespace {
namespace fs = std::filesystem;
constexpr int kMaxDepth = 8, kSweepVersion = 1;

/// False also where the folder may not be searched: whoever lists it tells.
bool holds(const fs::path& folder, const char* name) {
  std::error_code failure;
  return fs::exists(folder / name, failure);
}
}  // namespace

bool is_record(const fs::path& folder) { return holds(folder, "run.json") || holds(folder, "steps.jsonl"); }

namespace {
bool is_sweep(const fs::path& folder) { return holds(folder, "sweep.json"); }

bool has_ending(const fs::path& file, std::initializer_list<const char*> endings) {
  return std::find(endings.begin(), endings.end(), file.extension()) != endings.end();
}
bool ends_like_output(const fs::path& file) { return has_ending(file, {".log", ".out", ".txt", ".err"}); }
bool looks_like_log(const fs::path& file) { return ends_like_output(file) || has_ending(file, {".csv", ".tsv"}); }
/// Not read, but told.
bool is_packed_log(const fs::path& file) {
  return has_ending(file, {".gz", ".bz2", ".xz", ".zst"}) && looks_like_log(file.stem());
}
/// What a job prints, in which a failed one leaves its last words.
bool is_output_of_job(const fs::path& file) { return ends_like_output(file) && file.filename() != "params.txt"; }

/// What `lockstep report` left: its page beside the folder of its tables.
bool is_report(const fs::path& folder) {
  std::error_code failure;
  return (fs::exists(folder / "report.html", failure) || fs::exists(folder / "report.md", failure)) &&
         fs::is_directory(folder / "tables", failure);
}

/// Tables and figures of a report are results, no runs; logs beside them still count.
bool is_part_of_report(const fs::path& folder) {
  const fs::path name = folder.filename();
  return (name == "tables" || name == "figures") && is_report(folder.parent_path());
}

struct Found {
  std::vector<fs::path> records{}, logs{}, unstarted{};
  std::set<fs::path> reports{};  ///< Whose tables and figures were passed over.
};

/// A folder with the log that a run opens first, and neither a record nor a line of measurement: the run ended before
/// either began.
bool is_unstarted_run(const fs::path& folder) {
  std::error_code failure;
  const fs::path log = folder / "out.log";
  return fs::is_regular_file(log, failure) && !is_record(folder) && !logs::guess_format(log);
}

/// "failed: CUDA out of memory", from the end of a log; empty where nothing there tells of a failure.
std::string end_of_log(const fs::path& log) {
  record::RunData run;
  logs::note_failure_of_log(log, run);
  return run.state.empty() ? "" : fmt::format("{}: {}", run.state == "stopped" ? "was stopped" : "failed", run.message);
}

std::string unstarted_text(const fs::path& folder) {
  if (const std::string end = end_of_log(folder / "out.log"); !end.empty())
    return fmt::format("'{}' holds no line of measurement; its out.log ends as that of a run that {}", folder.string(),
                       end);
  return fmt::format(
      "'{}' holds out.log and neither run.json nor a line of measurement: the run ended before its record began; its "
      "out.log, or the job's log, says why",
      folder.string());
}

void search(const fs::path& folder, int depth, Found& found);

/// A folder with nothing to read in it may be a run that never came to its record.
void search_below(const fs::path& folder, int depth, Found& found) {
  const size_t num_runs = found.records.size() + found.unstarted.size(), num_logs = found.logs.size();
  search(folder, depth, found);
  if (found.records.size() + found.unstarted.size() > num_runs || !is_unstarted_run(folder)) return;
  const auto first_log = found.logs.begin() + static_cast<ptrdiff_t>(num_logs);
  if (std::any_of(first_log, found.logs.end(), [](const fs::path& log) { return logs::guess_format(log).has_value(); }))
    return;
  found.logs.resize(num_logs);
  found.unstarted.push_back(folder);
}

/// Records and sweeps below a folder; a record is not searched further, tables and figures of reports not at all.
void search(const fs::path& folder, int depth, Found& found) {
  std::error_code failure;
  std::vector<fs::path> entries = core::list_folder(folder, failure);
  if (failure)
    core::log_warning("report: '{}' cannot be read, what lies there is left out: {}", folder.string(),
                      failure.message());
  std::sort(entries.begin(), entries.end(),
            [](const fs::path& a, const fs::path& b) { return core::natural_less(a.string(), b.string()); });
  std::string unseen;
  for (const fs::path& path : entries) {
    const fs::file_type type = fs::status(path, failure).type();
    if (type == fs::file_type::none && unseen.empty())
      unseen = fmt::format("'{}': {}", path.string(), failure.message());
    if (type == fs::file_type::directory) {
      if (fs::is_symlink(path, failure) && !is_record(path) && !is_sweep(path))
        continue;  // of links to folders above there are more ways than anyone can go
      if (is_record(path) || is_sweep(path))
        found.records.push_back(path);
      else if (is_part_of_report(path))
        found.reports.insert(folder);
      else if (depth < kMaxDepth)
        search_below(path, depth + 1, found);
    } else if (type != fs::file_type::regular) {
      continue;  // a pipe would hold the report up
    } else if (looks_like_log(path) || is_packed_log(path) ||
               (path.extension() == ".json" && logs::is_benchmark_result(path))) {
      found.logs.push_back(path);
    }
  }
  if (!unseen.empty())
    core::log_warning("report: what cannot be looked at in '{}' is left out; the first: {}", folder.string(), unseen);
}

/// "'a' and 2 more"
std::string reports_text(const std::set<fs::path>& reports) {
  return fmt::format("'{}'{}", reports.begin()->string(),
                     reports.size() > 1 ? fmt::format(" and {} more", reports.size() - 1) : "");
}

/// Axes that the record tells by itself: they are the size and the batch of a point, not its configuration.
bool is_size_axis(const std::string& axis) {
  static const std::set<std::string> kAxes = {"nodes",      "batch-size",     "global-batch-size",
                                              "accum-freq", "nproc-per-node", "ranks-per-node"};
  return kAxes.contains(core::replace_all(axis, "_", "-"));
}

/// An integer in [1, 1000000]: products of two of them are sizes of runs.
int64_t size_of(const core::Json& point, const char* key) {
  constexpr int64_t kMost = 1'000'000;
  const auto number = core::integer_of(point.at(key));
  if (!number || *number < 1 || *number > kMost)
    throw DataError(fmt::format("'{}'={} is no integer in [1, {}]", key, point.at(key).dump().substr(0, 60), kMost));
  return *number;
}

Source sweep_source(const fs::path& folder, const core::Json& point, bool is_local) {
  const auto plain = [](const core::Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  Source source{.path = folder / point.at("run").get<std::string>()};
  for (const char* key : {"axes", "tags"})
    for (const auto& [axis, value] : point.at(key).items())
      if (!is_size_axis(axis)) source.tags[axis] = plain(value);
  source.state = point.at("state");
  source.message = point.at("message");
  const int64_t num_nodes = size_of(point, "nodes");
  source.devices = num_nodes * size_of(point, "ranks_per_node");
  source.nodes = is_local ? 1 : num_nodes;
  if (const auto& jobs = point.at("jobs"); !jobs.empty()) source.job = "job " + jobs.back().at("id").get<std::string>();
  return source;
}

/// The points that sweep.json tells; DataError with the place when it is damaged.
std::vector<Source> read_sweep(const fs::path& folder, const core::Json& sweep) {
  std::vector<Source> points;
  try {
    const bool is_local =
        sweep.value("mode", "") == "local";  // all its ranks ran on this machine, whatever the axis says
    for (const core::Json& point : sweep.at("points")) points.push_back(sweep_source(folder, point, is_local));
  } catch (const core::Json::exception& error) {
    const std::string words = error.what();
    throw DataError(fmt::format("report: '{}', entry {} of its points: {}", (folder / "sweep.json").string(),
                                points.size() + 1,
                                words.substr(words.find("] ") == std::string::npos ? 0 : words.find("] ") + 2)));
  }
  return points;
}

/// How a sweep.json comes back.
std::string sweep_hint(const fs::path& folder) {
  return fmt::format(
      "move it away and call `lockstep sweep {} --output {}` (with the --set of the first time): it writes sweep.json "
      "anew from the sweep's file and takes the runs for what their records say; then `lockstep sweep collect {}` and "
      "the report tell the axes again",
      (folder / "sweep.toml").string(), fs::absolute(folder).lexically_normal().parent_path().string(),
      folder.string());
}

/// Points of a sweep (docs/sweep.md); those that left no record stay in the list, so that they are told. Of a damaged
/// sweep.json the damage is told and the runs below the folder are taken as they are.
void add_sweep(const fs::path& folder, std::vector<Source>& sources) {
  const fs::path file = folder / "sweep.json";
  int64_t version = 0;
  try {
    const core::Json sweep = core::read_json_file(file);
    if (sweep.is_object() && sweep.contains("sweep_version") && sweep["sweep_version"].is_number_integer())
      version = sweep["sweep_version"];
    if (version <= kSweepVersion) {
      const std::vector<Source> points = read_sweep(folder, sweep);
      sources.insert(sources.end(), points.begin(), points.end());
      return;
    }
  } catch (const DataError& damage) {
    Found found;
    search(folder, 0, found);
    std::vector<fs::path>& records = found.records;
    std::erase_if(records, [](const fs::path& record) { return !is_record(record); });
    if (records.empty())
      throw DataError(
          fmt::format("report: '{}' is damaged (cut off or changed by hand), and no run lies below its folder: {}",
                      file.string(), damage.what()),
          sweep_hint(folder));
    for (const fs::path& record : records) sources.push_back({.path = record});
    sources.push_back({.path = file,
                       .damage = fmt::format(
                           "'{}' is damaged (cut off or changed by hand): the {} runs below its folder are reported, "
                           "without the sweep's axes and without the points that left no record ({}). To mend it, {}",
                           file.string(), records.size(), damage.what(), sweep_hint(folder))});
    return;
  }
  throw DataError(
      fmt::format("report: '{}' has sweep_version {}, this lockstep knows {}", file.string(), version, kSweepVersion),
      "use a newer lockstep");
}

[[noreturn]] void throw_nothing_found(const fs::path& folder, const Found& found) {
  if (!found.reports.empty())
    throw EnvironmentError(fmt::format("report: nothing to report in '{}': it holds reports ({}) and no runs",
                                       folder.string(), reports_text(found.reports)),
                           "give the runs or logs that the report was made from");
  for (const fs::path& log : found.logs)
    if (has_ending(log, {".csv", ".tsv"})) logs::read_log(log);  // throws with what a table of steps lacks
  const bool is_run = is_unstarted_run(folder);
  if (is_run || !found.unstarted.empty())
    throw EnvironmentError("report: nothing to report: " + unstarted_text(is_run ? folder : found.unstarted.front()),
                           "mend what ended the run and start it again");
  throw EnvironmentError(
      fmt::format(
          "report: nothing to report in '{}': no run.json, no sweep.json and no log of a known program below it",
          folder.string()),
      "give the folder of a run, or name log files and their format (--from)");
}

/// A log without a measurement whose end tells of a failure, as a source that says so; nothing for any other file.
std::optional<Source> failed_log(const fs::path& log) {
  const std::string end = is_output_of_job(log) ? end_of_log(log) : "";
  if (end.empty()) return std::nullopt;
  return Source{
      .path = log,
      .damage = fmt::format("'{}' holds no line of measurement; it ends as that of a run that {}", log.string(), end)};
}

/// Adds what the logs of a folder hold: measurements, or beside records the word that they were left out; last words of
/// failed jobs; of the rest the names are told.
void add_logs(const Found& found, std::vector<Source>& sources) {
  std::vector<std::string> passed_over;
  const size_t num_before = sources.size();
  std::vector<Source> failed;
  for (const fs::path& log : found.logs) {
    const bool is_benchmark = logs::is_benchmark_result(log);
    const auto format = is_benchmark ? std::nullopt : logs::guess_format(log);
    if (is_benchmark || (found.records.empty() && (format || is_packed_log(log) || logs::is_result_table(log)))) {
      sources.push_back({.path = log});
    } else if (format) {
      failed.push_back(
          {.path = log,
           .damage = fmt::format("'{}' holds measurements ({}) and lies beside records of runs: it is taken for the "
                                 "output of one of them; to have it reported name the file itself",
                                 log.string(), logs::to_text(*format))});
    } else if (auto source = failed_log(log)) {
      failed.push_back(std::move(*source));
    } else if (is_output_of_job(log)) {
      passed_over.push_back(fmt::format("'{}'", log.string()));
    }
  }
  const bool has_another_reason =
      found.records.empty() && sources.size() == num_before && (!found.unstarted.empty() || !found.reports.empty());
  if (!has_another_reason) sources.insert(sources.end(), failed.begin(), failed.end());
  if (passed_over.empty()) return;
  constexpr size_t kMaxNames = 5;
  core::log_info("report: no line of measurement and no sign of a failure, passed over: {}",
                 core::join_first(passed_over, kMaxNames));
}

/// Whatever lies below a folder; EnvironmentError when that is nothing.
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
  const size_t num_before = sources.size();
  if (!is_unstarted_run(folder) || !found.records.empty()) add_logs(found, sources);
  if (found.records.empty() && sources.size() == num_before) throw_nothing_found(folder, found);
  for (const fs::path& run : found.unstarted) sources.push_back({.path = run, .damage = unstarted_text(run)});
  if (found.reports.empty()) return;
  core::log_info("report: tables and figures of reports were passed over: {}", reports_text(found.reports));
}

/// Without links; of a path that may not be searched as it is named.
fs::path real_path(const fs::path& path) {
  std::error_code failure;
  const fs::path real = fs::weakly_canonical(path, failure);
  return failure ? path.lexically_normal() : real;
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
}  // namespace

std::vector<Source> find_sources(const std::vector<std::string>& inputs) {
  std::vector<Source> sources, empty;
  std::exception_ptr first_failure;
  for (const std::string& input : inputs) {
    const fs::path path(input);
    if (!fs::exists(path))
      throw EnvironmentError(fmt::format("report: '{}' does not exist", input),
                             "give run folders (<logs>/<name>), sweep folders, logs or CSV tables");
    if (!fs::is_directory(path)) {
      sources.push_back({.path = path});
      continue;
    }
    try {
      add_folder(path, sources);
    } catch (const Error& error) {
      if (!first_failure) first_failure = std::current_exception();
      empty.push_back({.path = path, .damage = error.what()});
    }
  }
  if (sources.empty() && first_failure) std::rethrow_exception(first_failure);
  sources.insert(sources.end(), empty.begin(), empty.end());
  std::set<fs::path> seen;
  std::erase_if(sources, [&](const Source& source) { return !seen.insert(real_path(source.path)).second; });
  name_sources(sources);
  return sources;
}

}  // namespace lockstep::analysis
