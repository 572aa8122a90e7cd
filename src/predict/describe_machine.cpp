#include "predict/describe_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "hw/device_specs.h"

namespace lockstep::predict {
namespace {

constexpr const char* kCommands =
    "write them with `lockstep bench op --output op.json`, the same under `lockstep launch --nproc-per-node N --`, and "
    "`lockstep launch --nproc-per-node N -- bench collective --output collective.json`";

constexpr int64_t kSmallBytes = 4096;  // what a call of so many takes is latency

/// A number of one document, with the command that measured it.
struct Found {
  double value = 0;
  std::string command{};
};

/// Rates of a device: of matrix products by their type, and of its memory.
struct Rates {
  std::map<std::string, Found> peaks_tflops{};
  std::optional<Found> memory_tbytes_per_s{};
};

/// What the documents told.
struct Findings {
  std::string host{}, device{};
  size_t num_ranks = 1;
  int64_t num_cores = 0;  ///< Where ranks compute on them.
  double memory_gbytes = 0;
  std::map<size_t, Rates> rates{};  ///< By the number of devices that computed at the same time.
  std::optional<Found> link_gbytes_per_s{}, link_latency_us{};
};

core::Json read_document(const std::string& path) {
  const core::Json json = core::read_json_file(path);
  if (json.is_object() && json.value("incomplete", core::Json()) == true)
    throw DataError(fmt::format("predict: '{}' is of a `lockstep bench` that had not ended", path),
                    "measure again, and let it end");
  if (!json.is_object() || json.value("format", core::Json()) != "lockstep-bench-1" || !json.contains("machine") ||
      !json.contains("summary"))
    throw DataError(fmt::format("predict: '{}' is no document of `lockstep bench`", path), kCommands);
  return json;
}

/// "24684096 kB" in GB.
double memory_gbytes_of(const std::string& text) {
  const auto kib = core::parse_double(text.substr(0, text.find(' ')));
  return kib ? *kib * 1024 / 1e9 : 0;
}

void keep_larger(std::optional<Found>& place, double value, const std::string& command) {
  if (value > 0 && (!place || value > place->value)) place = Found{value, command};
}

bool is_peak_type(std::string_view type) {
  return type == "fp32" || type == "tf32" || type == "fp16" || type == "bf16" || type == "fp8";
}

void take_op(const core::Json& document, const std::string& command, Rates& found) {
  const core::Json& summary = document.at("summary");
  const core::Json peaks = summary.value("measured_peak_tflops", core::Json::object());
  const core::Json rates = summary.value("measured_memory_gbytes_per_s", core::Json::object());
  for (const auto& [type, tflops] : peaks.items()) {
    if (!is_peak_type(type) || !tflops.is_number() || tflops.get<double>() <= 0) continue;
    Found& peak = found.peaks_tflops[type];
    if (tflops.get<double>() > peak.value) peak = {tflops.get<double>(), command};
  }
  for (const auto& [type, rate] : rates.items())
    if (rate.is_number()) keep_larger(found.memory_tbytes_per_s, rate.get<double>() / 1000, command);
}

/// The highest bus bandwidth of an all-reduce: what large buckets get. The shortest time of a small one: its latency.
void take_collectives(const core::Json& document, const std::string& command, Findings& found) {
  for (const core::Json& row : document.value("rows", core::Json::array())) {
    if (row.value("part", "") != "all-reduce") continue;
    const core::Json rate = row.value("in_place_busbw_gbytes_per_s", core::Json());
    if (rate.is_number()) keep_larger(found.link_gbytes_per_s, rate.get<double>(), command);
    const core::Json time = row.value("in_place_time_us", core::Json());
    if (!time.is_number() || time.get<double>() <= 0 || row.value("bytes", kSmallBytes + 1) > kSmallBytes) continue;
    if (!found.link_latency_us || time.get<double>() < found.link_latency_us->value)
      found.link_latency_us = Found{time.get<double>(), command};
  }
}

void take_document(const std::string& path, Findings& found) {
  const core::Json document = read_document(path);
  const core::Json& machine = document.at("machine");
  const core::Json ranks = machine.value("ranks", core::Json::array());
  const std::string command = document.value("command", path);
  const std::string host = ranks.empty() ? "" : ranks.front().value("host", "");
  if (!found.host.empty() && host != found.host)
    throw UsageError(fmt::format("predict: the documents are of '{}' and '{}' (in '{}')", found.host, host, path),
                     "describe one machine at a time");
  found.host = host;
  found.num_ranks = std::max(found.num_ranks, ranks.size());
  if (!ranks.empty()) {
    found.device = ranks.front().value("device_name", "");
    const auto threads = std::max<int64_t>(1, ranks.front().value("threads", int64_t{1}));
    if (ranks.front().value("device", "") == "cpu")
      found.num_cores = std::max<int64_t>(1, machine.value("cpu_cores", int64_t{1}) / threads);
  }
  found.memory_gbytes = std::max(found.memory_gbytes, memory_gbytes_of(machine.value("memory", "")));
  if (document.value("case", "") == "op") take_op(document, command, found.rates[std::max<size_t>(1, ranks.size())]);
  if (document.value("case", "") == "collective") take_collectives(document, command, found);
}

/// Text of a TOML string: control characters, quotes and backslashes are not worth keeping in a name.
std::string plain_text(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c >= ' ' && c != '"' && c != '\\' && c != 127) out += c;
  return out;
}

std::string line_of(const std::string& key, const Found& found) {
  return fmt::format("{} = {:.6g}  # {}\n", key, found.value, plain_text(found.command));
}
/// Each rate as it is with the fewest devices that it was measured with.
Rates of_fewest(const std::map<size_t, Rates>& rates) {
  Rates fewest;
  for (const auto& [num_devices, of_these] : rates) {
    fewest.peaks_tflops.insert(of_these.peaks_tflops.begin(), of_these.peaks_tflops.end());
    if (!fewest.memory_tbytes_per_s) fewest.memory_tbytes_per_s = of_these.memory_tbytes_per_s;
  }
  return fewest;
}

/// How much faster a device is alone than while all compute: the mean over the types of products, and of the memory.
std::string contention_lines(const Rates& alone, const Rates& together) {
  double sum = 0;
  int num_types = 0;
  for (const auto& [type, peak] : alone.peaks_tflops)
    if (const auto same = together.peaks_tflops.find(type); same != together.peaks_tflops.end())
      sum += peak.value / same->second.value, ++num_types;
  std::string text;
  const auto add = [&](const char* key, double ratio, const Found& measured) {
    text += line_of(key, {std::max(1.0, ratio), measured.command});
  };
  if (num_types > 0) add("product-contention", sum / num_types, together.peaks_tflops.begin()->second);
  if (alone.memory_tbytes_per_s && together.memory_tbytes_per_s)
    add("memory-contention", alone.memory_tbytes_per_s->value / together.memory_tbytes_per_s->value,
        *together.memory_tbytes_per_s);
  return text;
}
/// `bench op` multiplies fp32 numbers as such; training has TF32 for them where it may. "" where that is not known.
std::string tf32_line(const Rates& alone, const hw::DeviceSpec& board) {
  const auto measured = alone.peaks_tflops.find("bf16");
  const auto tf32 = hw::peak_tflops(board, hw::ComputeType::kTf32),
             bf16 = hw::peak_tflops(board, hw::ComputeType::kBf16);
  if (measured == alone.peaks_tflops.end() || alone.peaks_tflops.contains("tf32") || !tf32 || !bf16) return "";
  return fmt::format("peak-tf32-tflops = {:.6g}  # not measured: as much of the data sheet's {:g} as bf16 reached\n",
                     *tf32 * measured->second.value / *bf16, *tf32);
}
}  // namespace

std::string describe_machine(const std::vector<std::string>& bench_documents) {
  if (bench_documents.empty())
    throw UsageError("predict: --describe-this-machine needs documents of `lockstep bench`", kCommands);
  Findings found;
  for (const std::string& path : bench_documents) {
    try {
      take_document(path, found);
    } catch (const core::Json::exception& error) {
      throw DataError(fmt::format("predict: '{}' is no whole document of `lockstep bench`: {}", path, error.what()),
                      kCommands);
    }
  }
  const Rates alone = of_fewest(found.rates);
  if (alone.peaks_tflops.empty())
    throw UsageError("predict: no document tells a peak (of a matrix product by `bench op`)", kCommands);
  const hw::DeviceSpec* board = found.num_cores > 0 ? nullptr : hw::find_device(found.device).spec;
  const size_t all = found.num_cores > 0 ? static_cast<size_t>(found.num_cores) : found.num_ranks;
  const double ranks = static_cast<double>(std::max(all, found.num_ranks));
  std::string text = fmt::format(
      "# Measured, not read off data sheets. What lies between hosts is not known.\n"
      "name = \"{}\"\nsource = \"lockstep bench\"\n",
      plain_text(found.host + ", " + found.device));
  if (found.num_cores > 0)
    text += fmt::format(
        "devices-per-node = 1  # each rank counts as a node\n"
        "devices-at-a-time = {}  # ranks that have cores of their own; more share them\n",
        found.num_cores);
  else
    text += fmt::format("devices-per-node = {}\n", found.num_ranks);
  for (const auto& [type, peak] : alone.peaks_tflops) text += line_of(fmt::format("peak-{}-tflops", type), peak);
  if (board != nullptr) text += tf32_line(alone, *board);
  if (alone.memory_tbytes_per_s) text += line_of("memory-tbytes-per-s", *alone.memory_tbytes_per_s);
  if (all > 1 && found.rates.contains(1) && found.rates.contains(all))
    text += contention_lines(found.rates.at(1), found.rates.at(all));
  else if (all > 1)
    text += "# product-contention =   # not measured: `bench op` by one rank and by all of them at once tells it\n";
  if (board != nullptr)
    text += fmt::format("memory-gbytes = {:.4g}  # {}\n", board->memory_gbytes, board->name);
  else if (found.memory_gbytes > 0)
    text += fmt::format("memory-gbytes = {:.4g}  # of the host, over its ranks\n", found.memory_gbytes / ranks);
  if (found.link_latency_us) text += line_of("link-latency-us", *found.link_latency_us);
  if (found.link_gbytes_per_s) {
    text += line_of("link-gbytes-per-s", *found.link_gbytes_per_s);
    text += fmt::format("node-gbytes-per-s = {:.6g}  # as inside the host: give the network's rate\n",
                        found.link_gbytes_per_s->value);
  } else {
    text +=
        "num-nodes = 1  # how fast ranks exchange data was not measured: `bench collective` on two ranks tells it\n";
  }
  return text;
}

}  // namespace lockstep::predict
