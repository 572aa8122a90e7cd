// From sources to summaries of runs, several at a time.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "analysis/sources.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/is_there.h"
#include "core/log.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {
namespace fs = std::filesystem;
constexpr unsigned kMaxThreads = 8;

/// What a sweep says of its points by the tags fwd-gflops and peak-tflops, in place of what the run counted, which
/// stays beside it.
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
  return fmt::format("{} {} {} {}", core::xxh3_hex(bytes(steps.step_ms)), core::xxh3_hex(bytes(steps.loss)),
                     run.setup.nodes.value_or(0), run.setup.devices.value_or(0));
}

/// A copy of a run, in a backup folder say, is no repeat of it.
void leave_out_copies(const std::vector<std::string>& digests, std::vector<RunSummary>& runs) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (digests[i].empty() || !runs[i].series) continue;
    const auto [at, is_new] = first.emplace(digests[i], i);
    if (is_new) continue;
    runs[i].series.reset();
    runs[i].unusable =
        fmt::format("its steps are those of {}, time for time: a copy, no repeat", runs[at->second].name);
  }
}

/// The sweep knows of starts that ended before they could write to the record, in the rendezvous say.
void take_outcome_of_sweep(const Source& source, record::RunData& run) {
  const bool has_failed_since = (source.state == "failed" || source.state == "died") && run.state == "stopped";
  if (run.state.empty() || has_failed_since) {
    run.state = source.state;
    if (!source.message.empty()) run.message = source.message;
  } else if (run.message.empty()) {
    run.message = source.message;
  } else if (source.state == run.state && run.message.find(source.message) == std::string::npos) {
    run.message += fmt::format("; of its last start the sweep says: {}", source.message);
  }
}

/// What a source holds: most often one run.
struct Loaded {
  std::vector<RunSummary> runs{};
  std::vector<std::string> digests{};
};

/// The runs of a source, summarised; the raw steps of each are dropped before the next one is.
Loaded load_one(const Source& source, const LoadOptions& options) {
  if (!source.damage.empty()) throw DataError(source.damage, "");
  Loaded loaded;
  for (record::RunData& run : logs::read_log(source.path, options.format, {.meta = options.meta})) {
    run.name = run.part.empty() ? source.name : fmt::format("{} [{}]", source.name, run.part);
    for (const auto& [axis, value] : source.tags) run.setup.tags.emplace(axis, value);
    take_facts_from_tags(run.setup);
    take_outcome_of_sweep(source, run);
    if (run.allocation.empty()) run.allocation = source.job;
    if (!run.setup.nodes) run.setup.nodes = source.nodes;
    if (!run.setup.devices) run.setup.devices = source.devices;
    loaded.digests.push_back(digest_of(run));
    loaded.runs.push_back(summarise_run(std::move(run), options.analysis));
  }
  return loaded;
}

/// False also of what cannot be read: a record may be there.
bool is_known_to_be_absent(const fs::path& record) {
  try {
    return !core::is_there(record / "run.json") && !core::is_there(record / "steps.jsonl");
  } catch (const EnvironmentError&) {
    return false;
  }
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
  const bool has_no_record = !source.state.empty() && is_known_to_be_absent(source.path);
  const std::string why = source.message.empty() ? "" : fmt::format(" ({})", source.message);
  run.unusable =
      has_no_record ? fmt::format("it left no record; the sweep says it is {}{}", source.state, why) : error.what();
  return run;
}
/// A pattern that is found nowhere gives no fact: most likely it is wrong.
void warn_of_useless_meta(const std::vector<Source>& sources, const std::string& pattern) {
  if (pattern.empty() || sources.empty()) return;
  std::vector<const Source*> without;
  for (const Source& source : sources)
    if (!record::matches_path(pattern, source.path)) without.push_back(&source);
  if (without.empty()) return;
  core::log_warning(
      "report: --meta '{}' is found in {} of {} paths and gives no fact for the others; the first of them: '{}'",
      pattern, sources.size() - without.size(), sources.size(),
      fs::absolute(without.front()->path).lexically_normal().string());
}
}  // namespace

std::vector<RunSummary> load_sources(const std::vector<Source>& sources, const LoadOptions& options) {
  std::vector<Loaded> loaded(sources.size());
  std::vector<std::exception_ptr> unread(sources.size());
  std::exception_ptr fatal;  // wrong flags and our own mistakes: no source is to blame
  std::atomic<size_t> next = 0, done = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      std::exception_ptr mistake;
      try {
        loaded[i] = load_one(sources[i], options);
      } catch (const Error& error) {
        if (error.code() == ExitCode::kUsage || error.code() == ExitCode::kInternal) mistake = std::current_exception();
        unread[i] = std::current_exception();
        loaded[i] = {.runs = {unreadable(sources[i], error)}, .digests = {""}};
      } catch (...) {
        mistake = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (mistake) fatal = mistake;
      if (options.on_progress) options.on_progress(++done, sources.size());
    }
  };
  const auto work_to_the_end = [&] {
    try {
      work();
    } catch (...) {  // of a thread nothing may escape
      const std::lock_guard lock(mutex);
      fatal = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t num_threads =
        std::min<size_t>({std::max(1u, std::thread::hardware_concurrency()), kMaxThreads, sources.size()});
    try {
      for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(work_to_the_end);
    } catch (const std::system_error&) {  // no more threads here: fewer will do
    }
    work_to_the_end();
  }
  if (fatal) std::rethrow_exception(fatal);
  warn_of_useless_meta(sources, options.meta.path_pattern);
  Loaded all;
  for (Loaded& one : loaded) {
    std::move(one.runs.begin(), one.runs.end(), std::back_inserter(all.runs));
    std::move(one.digests.begin(), one.digests.end(), std::back_inserter(all.digests));
  }
  leave_out_copies(all.digests, all.runs);
  const bool none_read =
      std::all_of(unread.begin(), unread.end(), [](const std::exception_ptr& error) { return error != nullptr; });
  if (none_read && !unread.empty() && all.runs.front().state.empty()) std::rethrow_exception(unread.front());
  return std::move(all.runs);
}

}  // namespace lockstep::analysis
