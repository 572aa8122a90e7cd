#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/run.h"
#include "logs/logs.h"

namespace lockstep::analysis {

/// One thing to read: a run folder or a log.
struct Source {
  std::filesystem::path path{};
  std::string name{};                         ///< Unique among all.
  std::map<std::string, std::string> tags{};  ///< Axes of a sweep that are no facts of their own.
  std::string state{}, message{}, job{};      ///< As the sweep knows them, where the run itself does not tell.
  std::optional<int64_t> nodes{}, devices{};  ///< Likewise; of a local sweep one node.
  std::string damage{};  ///< Why it is not read at all: a damaged sweep.json, a run that ended before its record began.
};

/// Does a folder hold the record of a run, or what is left of one?
bool is_record(const std::filesystem::path& folder);

/// Expands what the user named: a record, a log, a sweep folder (sweep.json), or a folder with any of these below it. A
/// folder in which nothing is found becomes a source that says so; EnvironmentError for what does not exist, and when
/// nothing is found in any.
std::vector<Source> find_sources(const std::vector<std::string>& inputs);

struct LoadOptions {
  std::optional<logs::LogFormat> format{};
  record::MetaOptions meta{};
  AnalysisOptions analysis{};
  std::function<void(size_t done, size_t total)> on_progress{};
};

/// Reads and summarises the runs of every source, several sources at a time; raw columns are dropped run by run, so
/// memory is bounded by the largest sources that are read at one time. A source that cannot be read becomes a run that
/// says why; when none can be read the first error is thrown, and usage errors always are.
std::vector<RunSummary> load_sources(const std::vector<Source>& sources, const LoadOptions& options);

}  // namespace lockstep::analysis
