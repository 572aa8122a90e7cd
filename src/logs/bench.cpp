// Results of `lockstep bench`: JSON documents, and the text of every case but `collective` (whose
// text is that of nccl-tests).
#include "logs/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "core/counted.h"
#include "core/csv_table.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "logs/parser.h"
#include "record/bus_factor.h"

namespace lockstep::logs {
namespace {
using core::Json;

constexpr std::string_view kFormatName = "lockstep-bench-1", kTextHead = "# lockstep bench ";
constexpr double kBytesPerUsToGb = 1e-3;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A number above or at zero.
std::optional<double> amount_of(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

void read_machine(const Json& document, record::RunData& run) {
  std::set<std::string> hosts;
  const auto machine = document.find("machine");
  const auto ranks = machine != document.end() && machine->is_object() ? machine->find("ranks") : document.end();
  if (machine == document.end() || !machine->is_object() || ranks == machine->end() || !ranks->is_array()) return;
  for (const Json& rank : *ranks) {
    if (!rank.is_object()) continue;
    if (const std::string host = text_of(rank, "host"); !host.empty()) hosts.insert(host);
    if (run.setup.device.empty()) run.setup.device = text_of(rank, "device_name");
    if (const std::string device = text_of(rank, "device"); !device.empty()) run.setup.is_on_cpu = device == "cpu";
  }
  if (!ranks->empty()) run.setup.devices = static_cast<int64_t>(ranks->size());
  if (!hosts.empty()) run.setup.nodes = static_cast<int64_t>(hosts.size());
}

/// One row of `bench collective`: up to two points. False when it holds no usable time.
bool read_collective(const Json& row, record::RunData& run) {
  constexpr double kMaxBytes = 1e18, kMinTimeUs = 1e-3;  // beyond these the file is damaged
  const auto bytes = amount_of(row, "bytes"), count = amount_of(row, "count");
  if (!bytes || *bytes > kMaxBytes || !count) return false;
  bool has_time = false;
  for (const bool is_in_place : {false, true}) {
    const std::string prefix = is_in_place ? "in_place_" : "";
    const auto time_us = amount_of(row, prefix + "time_us"), wrong = amount_of(row, prefix + "wrong");
    if (!time_us || *time_us < kMinTimeUs) continue;
    record::CollectivePoint point{.kind = core::replace_all(text_of(row, "part"), "-", "_"),
                                  .type = text_of(row, "type"),
                                  .operation = text_of(row, "redop"),
                                  .num_ranks = static_cast<int>(run.setup.devices.value_or(0)),
                                  .bytes = *bytes,
                                  .count = std::llround(std::min(*count, 1e15)),
                                  .is_in_place = is_in_place,
                                  .time_us = *time_us};
    if (point.operation == "none") point.operation.clear();
    if (const auto root = amount_of(row, "root")) point.root = std::llround(std::min(*root, 1e9));
    if (wrong) point.num_wrong = std::llround(std::min(*wrong, 1e15));
    point.algbw_gbytes_per_s = *bytes / *time_us * kBytesPerUsToGb;
    const auto factor = record::bus_factor(point.kind, point.num_ranks);
    point.busbw_gbytes_per_s = factor ? point.algbw_gbytes_per_s * *factor
                                      : amount_of(row, prefix + "busbw_gbytes_per_s").value_or(record::kUnknown);
    run.collective_points.push_back(std::move(point));
    has_time = true;
  }
  return has_time;
}

/// One row of `bench latency`; false when it holds no time.
bool read_latency(const Json& row, record::RunData& run) {
  const auto batch = amount_of(row, "batch"), p50 = amount_of(row, "p50_ms");
  if (!batch || *batch < 1 || *batch > 1e9 || !p50) return false;
  const auto number = [&](const char* key) { return amount_of(row, key).value_or(record::LatencyPoint::kNone); };
  record::LatencyPoint point{.model = text_of(row, "model"),
                             .precision = text_of(row, "precision"),
                             .from = text_of(row, "from"),
                             .tower = text_of(row, "tower"),
                             .batch = std::llround(*batch),
                             .text_tokens = std::llround(std::min(amount_of(row, "text_tokens").value_or(0), 1e9)),
                             .p50_ms = *p50,
                             .p50_low_ms = number("p50_low_ms"),
                             .p50_high_ms = number("p50_high_ms"),
                             .p90_ms = number("p90_ms"),
                             .p99_ms = number("p99_ms"),
                             .per_s = number("per_s"),
                             .tokens_per_s = number("tokens_per_s"),
                             .first_ms = number("first_ms")};
  if (const auto stages = row.find("stages_ms"); stages != row.end() && stages->is_object())
    for (const auto& [stage, value] : stages->items())
      if (value.is_number()) point.stages_ms[stage] = value.get<double>();
  if (run.setup.model.empty()) run.setup.model = point.model;
  run.latency_points.push_back(std::move(point));
  return true;
}

/// The program and type of a column "trt_fp16_s"; nothing for any other.
std::optional<std::pair<std::string, std::string>> latency_column(const std::string& name) {
  const auto words = core::split(name, "_");
  constexpr size_t kWords = 3;
  if (words.size() != kWords || words.back() != "s") return std::nullopt;
  const bool is_type = words[1] == "fp32" || words[1] == "fp16" || words[1] == "bf16" || words[1] == "fp8";
  if (!is_type || words[0].empty()) return std::nullopt;
  return std::pair(words[0] == "trt" ? "TensorRT" : words[0], words[1]);
}

/// "; it measured a peak of 0.185 TFLOP/s in bf16": what a report can take from `bench op`.
std::string measured_peaks(const Json& document) {
  const auto summary = document.find("summary");
  if (summary == document.end() || !summary->is_object()) return "";
  const auto peaks = summary->find("measured_peak_tflops");
  std::vector<std::string> texts;
  if (peaks != summary->end() && peaks->is_object())
    for (const auto& [type, value] : peaks->items())
      if (value.is_number()) texts.push_back(fmt::format("{:.4g} TFLOP/s in {}", value.get<double>(), type));
  return texts.empty()
             ? ""
             : fmt::format("; it measured a peak of {} (--measured-peak-tflops takes it)", core::join(texts, ", "));
}

/// The text of a case whose rows a report does not read: named, not guessed at.
class BenchTextParser : public LogParser {
 public:
  using LogParser::LogParser;
  LineUse read(const LogLine& line) override {
    if (!core::starts_with(line.text, kTextHead)) return LineUse::kOther;
    const std::string_view rest = line.text.substr(kTextHead.size());
    builder_.run().message = bench_case_message(rest.substr(0, rest.find(':')));
    return LineUse::kUsed;
  }
};
}  // namespace

bool is_bench_document(const std::filesystem::path& file) {
  constexpr size_t kSearchedBytes = 64 << 10;  // behind the command line, which may be long
  std::ifstream stream(file, std::ios::binary);
  std::error_code failure;
  const uintmax_t size = std::filesystem::file_size(file, failure);  // of a pipe there is none
  std::string head(failure ? kSearchedBytes : std::min<uintmax_t>(size, kSearchedBytes), '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(stream.gcount()));
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string::npos && head[first] == '{' &&
         head.find(fmt::format("\"{}\"", kFormatName)) != std::string::npos;
}

std::string bench_case_message(std::string_view name) {
  const bool is_name = !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string_view::npos;
  return fmt::format("it is a result of `lockstep bench{}{}`, not of training", is_name ? " " : "",
                     is_name ? name : "");
}

void read_bench_document(const std::filesystem::path& file, record::RunData& run) {
  const Json document = core::read_json_file(file);
  if (!document.is_object() || text_of(document, "format") != kFormatName)
    throw DataError(
        fmt::format("record: '{}' is no result of `lockstep bench`: its format is not {}", file.string(), kFormatName),
        "");
  const std::string name = text_of(document, "case");
  run.command = text_of(document, "command");
  read_machine(document, run);
  const auto rows = document.find("rows");
  const bool has_rows = rows != document.end() && rows->is_array();
  const auto mark = document.find("incomplete");
  const bool is_incomplete = mark != document.end() && mark->is_boolean() && mark->get<bool>();
  if ((name != "collective" && name != "latency") || !has_rows) {
    run.message = bench_case_message(name) + measured_peaks(document) + (is_incomplete ? "; it had not ended" : "");
    return;
  }
  if (is_incomplete)
    run.problems.push_back(fmt::format("the measurement had not ended when this was written: it has {}",
                                       core::counted(std::ssize(*rows), "row")));
  int64_t num_untimed = 0, num_wrong = 0;
  for (const Json& row : *rows)
    num_untimed += row.is_object() && (name == "latency" ? read_latency(row, run) : read_collective(row, run)) ? 0 : 1;
  for (const record::CollectivePoint& point : run.collective_points)
    num_wrong += point.num_wrong.value_or(0) > 0 ? 1 : 0;
  if (num_untimed > 0)
    run.problems.push_back(fmt::format("{} of {} rows hold no time: only verified (--mode verify), or damaged",
                                       num_untimed, rows->size()));
  if (num_wrong > 0) run.problems.push_back(fmt::format("{} points have wrong results", num_wrong));
  if (run.collective_points.empty() && run.latency_points.empty())
    run.message = bench_case_message(name) + ", and timed nothing";
}

bool is_latency_table(const std::filesystem::path& file) {
  std::error_code failure;
  if (file.extension() != ".csv" || !std::filesystem::is_regular_file(file, failure)) return false;
  try {
    const auto columns = core::read_table_header(file);
    return columns && std::count(columns->begin(), columns->end(), "batch") == 1 &&
           std::any_of(columns->begin(), columns->end(), [](const auto& name) { return latency_column(name); });
  } catch (const DataError&) {
    return false;
  }
}

void read_latency_table(const std::filesystem::path& file, record::RunData& run) {
  const core::CsvTable table = core::read_table(file);
  const auto place = [&](std::string_view name) {
    return static_cast<size_t>(std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin());
  };
  const size_t batch_column = place("batch"), model_column = place("model");
  for (size_t row = 0; row < table.rows.size(); ++row)
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const auto told = latency_column(table.columns[column]);
      const std::string& text = table.rows[row][column];
      if (!told || text.empty()) continue;
      const auto seconds = core::parse_double(text);
      const auto batch = core::parse_int(table.rows[row][batch_column]);
      if (!seconds || !(*seconds > 0) || !batch || *batch < 1)
        throw DataError(fmt::format("record: '{}' line {}: batch '{}' with the latency '{}', expected numbers above 0",
                                    file.string(), table.lines[row], table.rows[row][batch_column], text),
                        "");
      constexpr double kMsPerS = 1e3;
      run.latency_points.push_back({.program = told->first,
                                    .model = model_column < table.columns.size() ? table.rows[row][model_column] : "",
                                    .precision = told->second,
                                    .batch = *batch,
                                    .p50_ms = kMsPerS * *seconds,
                                    .per_s = static_cast<double>(*batch) / *seconds});
    }
}

LogReader bench_reader() {
  return {.is_own_line =
              [](std::string_view line) {
                return core::starts_with(line, kTextHead) &&
                       !core::starts_with(line.substr(kTextHead.size()), "collective");
              },
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<BenchTextParser>(builder);
          }};
}

}  // namespace lockstep::logs
