#include "record/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep::record {
namespace {

struct Trace {
  int rank = 0;
  double base_us = 0;  // what its time stamps count from
  core::Json json;
};

Trace read_trace(int rank, const std::filesystem::path& path) {
  Trace trace{.rank = rank, .json = core::parse_json(core::read_file(path), path.string())};
  const auto events = trace.json.find("traceEvents");
  if (!trace.json.is_object() || events == trace.json.end() || !events->is_array())
    throw DataError(fmt::format("record: '{}' is no Chrome trace: it has no list traceEvents", path.string()), "give a file that `lockstep profile` wrote");
  const auto base = trace.json.find("baseTimeNanoseconds");
  if (base != trace.json.end() && base->is_number()) trace.base_us = base->get<double>() / 1000;
  return trace;
}

/// What the time stamps of a trace count from; the trace itself is not kept.
double read_base_us(const std::filesystem::path& path) { return read_trace(0, path).base_us; }

/// The event with its process named after the rank, and its times on the common clock.
core::Json moved(core::Json event, int rank, double shift_us) {
  if (!event.is_object()) return event;
  const auto pid = event.find("pid");
  const std::string process = pid == event.end() ? "" : pid->is_string() ? pid->get<std::string>() : pid->dump();
  event["pid"] = fmt::format("rank {}: {}", rank, process);
  if (const auto ts = event.find("ts"); ts != event.end() && ts->is_number()) *ts = ts->get<double>() + shift_us;
  if (const auto id = event.find("id"); id != event.end()) *id = fmt::format("{}.{}", rank, id->is_string() ? id->get<std::string>() : id->dump());
  return event;
}

}  // namespace

int64_t merge_traces(const std::vector<std::pair<int, std::filesystem::path>>& traces_by_rank, const std::filesystem::path& output) {
  // Every file is read twice, so that only one at a time is in memory: as JSON it takes many times its size, and there is one of every rank.
  double base_us = std::numeric_limits<double>::infinity();
  for (const auto& [rank, path] : traces_by_rank) base_us = std::min(base_us, read_base_us(path));
  core::AtomicFile file(output);
  const auto write = [&](const std::string& text) { file.write(std::as_bytes(std::span(text))); };
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  int64_t num_events = 0;
  for (const auto& [rank, path] : traces_by_rank) {
    Trace trace = read_trace(rank, path);
    for (auto& event : trace.json["traceEvents"])
      write((num_events++ > 0 ? ",\n" : "") + moved(std::move(event), trace.rank, trace.base_us - base_us).dump());
  }
  write("\n]}\n");
  file.commit();
  return num_events;
}

}  // namespace lockstep::record
