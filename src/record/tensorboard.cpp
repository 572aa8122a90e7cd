#include "record/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/host_name.h"
#include "record/protobuf_wire.h"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ kReversedPolynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

using namespace protobuf;  // NOLINT

// Fields of event.proto and summary.proto.
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;

std::string event_with_time(double wall_time_s) {
  std::string event;
  if (wall_time_s == 0) return event;  // a field at its default is left out, as protobuf's own serialisers do
  put_key(event, kEventWallTime, kFixed64);
  put_little_endian(event, std::bit_cast<uint64_t>(wall_time_s));
  return event;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string tfrecord(std::string_view payload) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(payload.size()));
  put_little_endian(record, masked_crc32c(record));
  record += payload;
  put_little_endian(record, masked_crc32c(payload));
  return record;
}

std::string encode_version_event(double wall_time_s) {
  std::string event = event_with_time(wall_time_s);
  put_bytes(event, kEventFileVersion, "brain.Event:2");
  return event;
}

std::string encode_scalar_event(double wall_time_s, int64_t step, const NamedNumbers& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, kValueTag, tag);
    put_key(value, kValueSimple, kFixed32);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(number)));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = event_with_time(wall_time_s);
  put_integer(event, kEventStep, step);
  put_bytes(event, kEventSummary, summary);
  return event;
}

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, AppendQueue& queue) : queue_(queue) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    errno = failure.value();
    core::throw_errno("record: cannot create", folder);
  }
  const double now_s = core::unix_seconds();
  for (int serial = 0; path_.empty() || fs::exists(path_); ++serial)
    path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(now_s), core::host_name(),
                                 ::getpid(), serial);
  file_ = queue_.open_file(path_, /*ends_cut_line=*/false);
  queue_.append(file_, tfrecord(encode_version_event(now_s)));
}

void TensorBoardWriter::add_scalars(int64_t step, const NamedNumbers& scalars) {
  if (!scalars.empty()) queue_.append(file_, tfrecord(encode_scalar_event(core::unix_seconds(), step, scalars)));
}

}  // namespace lockstep::record
