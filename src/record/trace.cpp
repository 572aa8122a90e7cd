#include "record/trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"

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
    throw DataError(fmt::format("record: '{}' is no Chrome trace: it has no list traceEvents", path.string()),
                    "give a file that `lockstep profile` wrote");
  const auto base = trace.json.find("baseTimeNanoseconds");
  if (base != trace.json.end() && base->is_number()) trace.base_us = base->get<double>() / 1000;
  return trace;
}

/// What the time stamps of a trace count from; 0 where it does not say so. Reads the file without building a tree of
/// it, which takes many times as long.
double read_base_us(const std::filesystem::path& path) {
  const std::string text = core::read_file(path);
  const simdjson::padded_string padded(text);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  double base_ns = 0;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document["baseTimeNanoseconds"].get(base_ns) != simdjson::SUCCESS)
    return 0;
  return base_ns / 1000;
}

/// The event with its process named after the rank, and its times on the common clock.
core::Json moved(core::Json event, int rank, double shift_us) {
  if (!event.is_object()) return event;
  const auto pid = event.find("pid");
  const std::string process = pid == event.end() ? "" : pid->is_string() ? pid->get<std::string>() : pid->dump();
  event["pid"] = fmt::format("rank {}: {}", rank, process);
  if (const auto ts = event.find("ts"); ts != event.end() && ts->is_number()) *ts = ts->get<double>() + shift_us;
  if (const auto id = event.find("id"); id != event.end())
    *id = fmt::format("{}.{}", rank, id->is_string() ? id->get<std::string>() : id->dump());
  return event;
}

/// A number from 0 to 10^15; 0 where there is none.
double amount_at(const core::Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  const double value = found != object.end() && found->is_number() ? found->get<double>() : 0;
  constexpr double kMost = 1e15;
  return value > 0 && value <= kMost ? value : 0;
}

/// "allreduce", "_allgather_base" and "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" alike to one name; empty: no
/// collective.
std::string collective_of(const std::string& text) {
  const std::string plain = core::replace_all(core::to_lower_ascii(text), "_", "");
  constexpr std::pair<std::string_view, const char*> kKinds[] = {
      {"allreduce", "all_reduce"}, {"reducescatter", "reduce_scatter"},
      {"allgather", "all_gather"}, {"alltoall", "all_to_all"},
      {"broadcast", "broadcast"},  {"sendrecv", "send_recv"},
      {"send", "send_recv"},       {"recv", "send_recv"},
      {"reduce", "reduce"},        {"gather", "gather"},
      {"scatter", "scatter"}};
  for (const auto& [part, kind] : kKinds)
    if (plain.find(part) != std::string::npos) return kind;
  return "";
}

/// The kernel of a collective as one call of it; count 0: another event.
DeviceCollective read_kernel(const core::Json& event) {
  const std::string name = core::text_at(event, "name"), category = core::text_at(event, "cat");
  if (category != "kernel" || core::to_lower_ascii(name).find("nccl") == std::string::npos) return {};
  const double duration_us = amount_at(event, "dur");
  if (duration_us <= 0) return {};
  static const core::Json kNone = core::Json::object();
  const auto found = event.find("args");
  const core::Json& args = found != event.end() && found->is_object() ? *found : kNone;
  DeviceCollective call{.kind = collective_of(core::text_at(args, "Collective name")),
                        .type = core::text_at(args, "dtype")};
  if (call.kind.empty()) call.kind = collective_of(name);
  if (call.kind.empty()) call.kind = name.substr(0, name.find('('));
  call.num_elements =
      static_cast<int64_t>(std::max(amount_at(args, "In msg nelems"), amount_at(args, "Out msg nelems")));
  call.group_size = static_cast<int>(std::min(amount_at(args, "Group size"), 1e7));
  call.count = 1;
  call.total_ms = duration_us / 1000;
  return call;
}

std::vector<DeviceCollective> collectives_of(const core::Json& events) {
  std::map<std::tuple<std::string, std::string, int64_t, int>, DeviceCollective> sums;
  for (const core::Json& event : events) {
    const DeviceCollective call = read_kernel(event);
    if (call.count == 0) continue;
    const auto [place, is_new] = sums.try_emplace({call.kind, call.type, call.num_elements, call.group_size}, call);
    if (!is_new) place->second.count += 1, place->second.total_ms += call.total_ms;
  }
  std::vector<DeviceCollective> all;
  for (auto& [key, sum] : sums) all.push_back(std::move(sum));
  std::stable_sort(all.begin(), all.end(),
                   [](const DeviceCollective& a, const DeviceCollective& b) { return a.total_ms > b.total_ms; });
  return all;
}

std::optional<DeviceUse> use_of(const core::Json& events) {
  std::vector<std::pair<double, double>> spans_us;  // begin and end of each kernel and copy
  for (const core::Json& event : events) {
    const std::string category = core::text_at(event, "cat");
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    const double begin = amount_at(event, "ts"), duration = amount_at(event, "dur");
    if (duration > 0) spans_us.emplace_back(begin, begin + duration);
  }
  if (spans_us.empty()) return std::nullopt;
  std::sort(spans_us.begin(), spans_us.end());
  constexpr double kGap_us = 1;
  DeviceUse use;
  double covered_to = spans_us.front().first;
  for (const auto& [begin, end] : spans_us) {
    if (begin - covered_to >= kGap_us) {
      ++use.num_gaps;
      use.longest_gap_ms = std::max(use.longest_gap_ms, (begin - covered_to) / 1000);
    }
    use.busy_ms += std::max(0.0, end - std::max(begin, covered_to)) / 1000;
    covered_to = std::max(covered_to, end);
  }
  use.span_ms = (covered_to - spans_us.front().first) / 1000;
  return use;
}

}  // namespace

DeviceTrace read_device_trace(const std::filesystem::path& trace) {
  const Trace read = read_trace(0, trace);
  const core::Json& events = read.json.at("traceEvents");
  return {.collectives = collectives_of(events), .use = use_of(events)};
}

int64_t merge_traces(const std::vector<std::pair<int, std::filesystem::path>>& traces_by_rank,
                     const std::filesystem::path& output) {
  // Every file is read twice, so that only one at a time is in memory: as JSON it takes many times its size, and there
  // is one of every rank.
  double base_us = std::numeric_limits<double>::infinity();
  for (const auto& [rank, path] : traces_by_rank) base_us = std::min(base_us, read_base_us(path));
  core::AtomicFile file(output);
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const auto write = [&] {
    file.write(std::as_bytes(std::span(text)));
    text.clear();
  };
  constexpr size_t kPiece = 1 << 20;  // not a call of the system for each event
  int64_t num_events = 0;
  for (const auto& [rank, path] : traces_by_rank) {
    Trace trace = read_trace(rank, path);
    for (auto& event : trace.json["traceEvents"]) {
      text += (num_events++ > 0 ? ",\n" : "") + moved(std::move(event), trace.rank, trace.base_us - base_us).dump();
      if (text.size() >= kPiece) write();
    }
  }
  text += "\n]}\n";
  write();
  file.commit();
  return num_events;
}

}  // namespace lockstep::record
