#include "record/wandb.h"

#include <fmt/chrono.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/host_name.h"
#include "record/protobuf_wire.h"

namespace lockstep::record {
namespace fs = std::filesystem;
namespace {
using protobuf::put_bytes, protobuf::put_integer;

// Fields of wandb_internal.proto.
constexpr uint32_t kRecordNumber = 1, kRecordHistory = 2, kRecordSummary = 3, kRecordRun = 17, kRecordExit = 18,
                   kRecordHeader = 21;
constexpr uint32_t kHeaderVersion = 1, kVersionProducer = 1, kVersionMinConsumer = 2;
constexpr uint32_t kRunId = 1, kRunProject = 3, kRunConfig = 4, kRunDisplayName = 8, kRunNotes = 9, kRunHost = 13,
                   kRunStartTime = 17, kRunResumed = 18;
constexpr uint32_t kUpdate = 1, kItemKey = 1, kItemNestedKey = 2, kItemValue = 16;  // of config, summary and history
constexpr uint32_t kHistoryItem = 1, kHistoryStep = 2, kStepNumber = 1;
constexpr uint32_t kExitCode = 1, kExitRuntime = 2;
constexpr uint32_t kTimeSeconds = 1, kTimeNanos = 2;
constexpr const char* kMinConsumer = "0.12.0";  ///< Of wandb: the first that reads these records.

constexpr size_t kBlockBytes = 32768, kFrameHeaderBytes = 7;
enum FrameType : uint8_t { kWholeRecord = 1, kFirstFrame = 2, kMiddleFrame = 3, kLastFrame = 4 };

/// As Python's json writes it: numbers that are none have names there.
std::string number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return core::Json(value).dump();
}

std::string item(uint32_t key_field, std::string_view key, std::string_view value_json) {
  std::string bytes;
  put_bytes(bytes, key_field, key);
  put_bytes(bytes, kItemValue, value_json);
  return bytes;
}

std::string numbered(int64_t number, uint32_t field, std::string_view message) {
  std::string record;
  put_integer(record, kRecordNumber, number);
  put_bytes(record, field, message);
  return record;
}

std::string timestamp(double unix_time_s) {
  const double whole_s = std::floor(unix_time_s);
  std::string bytes;
  put_integer(bytes, kTimeSeconds, static_cast<int64_t>(whole_s));
  put_integer(bytes, kTimeNanos, static_cast<int64_t>((unix_time_s - whole_s) * 1e9));
  return bytes;
}
}  // namespace

std::string wandb_id(std::string_view run_name) {
  std::string id(run_name);
  std::replace_if(
      id.begin(), id.end(), [](char c) { return std::string_view("/\\#?%:").find(c) != std::string::npos; }, '-');
  return id;
}

std::string encode_wandb_header(int64_t number, const std::string& producer) {
  std::string version, header;
  put_bytes(version, kVersionProducer, producer);
  put_bytes(version, kVersionMinConsumer, kMinConsumer);
  put_bytes(header, kHeaderVersion, version);
  return numbered(number, kRecordHeader, header);
}

std::string encode_wandb_run(int64_t number, const WandbRun& run, const std::string& host, double start_time_s) {
  std::string config, message;
  for (const auto& [name, value] : run.config.items()) put_bytes(config, kUpdate, item(kItemKey, name, value.dump()));
  put_bytes(message, kRunId, run.id);
  put_bytes(message, kRunProject, run.project);
  put_bytes(message, kRunConfig, config);
  put_bytes(message, kRunDisplayName, run.id);
  if (!run.notes.empty()) put_bytes(message, kRunNotes, run.notes);
  put_bytes(message, kRunHost, host);
  put_bytes(message, kRunStartTime, timestamp(start_time_s));
  put_integer(message, kRunResumed, run.is_resumed ? 1 : 0);
  return numbered(number, kRecordRun, message);
}

std::string encode_wandb_summary(int64_t number, const NamedNumbers& values) {
  std::string summary;
  for (const auto& [name, value] : values) put_bytes(summary, kUpdate, item(kItemNestedKey, name, number_json(value)));
  return numbered(number, kRecordSummary, summary);
}

std::string encode_wandb_history(int64_t number, int64_t step, const NamedNumbers& values) {
  std::string history, step_message;
  const auto add = [&](std::string_view name, const std::string& value_json) {
    put_bytes(history, kHistoryItem, item(kItemNestedKey, name, value_json));
  };
  add("_step", std::to_string(step));
  for (const auto& [name, value] : values) add(name, number_json(value));
  put_integer(step_message, kStepNumber, step);
  put_bytes(history, kHistoryStep, step_message);
  return numbered(number, kRecordHistory, history);
}

std::string encode_wandb_exit(int64_t number, int exit_code, int64_t runtime_s) {
  std::string message;
  put_integer(message, kExitCode, exit_code);
  put_integer(message, kExitRuntime, runtime_s);
  return numbered(number, kRecordExit, message);
}

std::string WandbFrames::file_header() {
  std::string header = ":W&B";
  protobuf::put_little_endian(header, uint16_t{0xbee1});
  header.push_back('\0');  // version of the format
  return header;
}

std::string WandbFrames::frame(std::string_view record) {
  std::string bytes;
  bool is_first = true, is_last = false;
  while (!is_last) {
    size_t left = kBlockBytes - (offset_ + bytes.size()) % kBlockBytes;
    if (left < kFrameHeaderBytes) {
      bytes.append(left, '\0');
      left = kBlockBytes;
    }
    const std::string_view piece = record.substr(0, left - kFrameHeaderBytes);
    record.remove_prefix(piece.size());
    is_last = record.empty();
    const uint8_t type = is_first ? (is_last ? kWholeRecord : kFirstFrame) : (is_last ? kLastFrame : kMiddleFrame);
    const uLong of_type = ::crc32(0, &type, 1);
    const uLong crc = ::crc32(of_type, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    protobuf::put_little_endian(bytes, static_cast<uint32_t>(crc));
    protobuf::put_little_endian(bytes, static_cast<uint16_t>(piece.size()));
    bytes.push_back(static_cast<char>(type));
    bytes += piece;
    is_first = false;
  }
  offset_ += bytes.size();
  return bytes;
}

WandbWriter::WandbWriter(const fs::path& folder, const WandbRun& run, AppendQueue& queue)
    : queue_(queue), start_time_s_(core::unix_seconds()) {
  const auto second = static_cast<std::time_t>(start_time_s_);
  const fs::path run_folder = folder / fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", fmt::localtime(second), run.id);
  std::error_code failure;
  fs::create_directories(run_folder / "files", failure);
  if (failure) {
    errno = failure.value();
    core::throw_errno("record: cannot create", run_folder);
  }
  path_ = run_folder / fmt::format("run-{}.wandb", run.id);
  file_ = queue_.open_file(path_, /*ends_cut_line=*/false);
  queue_.append(file_, WandbFrames::file_header());
  append(encode_wandb_header(next_number(), "lockstep"));
  append(encode_wandb_run(next_number(), run, core::host_name(), start_time_s_));
}

void WandbWriter::add_scalars(int64_t step, const NamedNumbers& scalars) {
  if (scalars.empty()) return;
  last_step_ = std::max(last_step_, step);
  const double now_s = core::unix_seconds();
  NamedNumbers values = scalars;
  values.emplace_back("_timestamp", now_s);
  values.emplace_back("_runtime", now_s - start_time_s_);
  append(encode_wandb_summary(next_number(), values));
  append(encode_wandb_history(next_number(), last_step_, values));
}

void WandbWriter::finish(int exit_code) {
  append(encode_wandb_exit(next_number(), exit_code, static_cast<int64_t>(core::unix_seconds() - start_time_s_)));
}

}  // namespace lockstep::record
