#include "record/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep::record {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t index = 0; index < bytes.size(); ++index)
    value |= uint64_t{static_cast<uint8_t>(bytes[index])} << (8 * index);
  return value;
}

/// Payloads of TFRecords, checksums checked.
std::vector<std::string> read_records(std::string_view file) {
  std::vector<std::string> payloads;
  while (!file.empty()) {
    const uint64_t size = little_endian(file.substr(0, 8));
    EXPECT_EQ(little_endian(file.substr(8, 4)), masked_crc32c(file.substr(0, 8)));
    payloads.emplace_back(file.substr(12, size));
    EXPECT_EQ(little_endian(file.substr(12 + size, 4)), masked_crc32c(payloads.back()));
    file.remove_prefix(16 + size);
  }
  return payloads;
}

/// One field of a protobuf message.
struct Field {
  uint64_t number = 0, type = 0, integer = 0;
  std::string bytes{};
};

std::vector<Field> read_fields(std::string_view message) {
  std::vector<Field> fields;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(message.at(0));
      message.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!message.empty()) {
    const uint64_t key = varint();
    Field field{.number = key >> 3, .type = key & 7};
    if (field.type == 0) {
      field.integer = varint();
    } else {
      const size_t size = field.type == 1 ? 8 : field.type == 5 ? 4 : varint();
      field.bytes = message.substr(0, size);
      field.integer = little_endian(field.bytes.substr(0, 8));
      message.remove_prefix(size);
    }
    fields.push_back(field);
  }
  return fields;
}

TEST(TensorBoard, KnownChecksums) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, RecordsAreByteForByteThoseOfTheTensorboardPackage) {
  const core::Json golden = core::read_json_file(LOCKSTEP_GOLDEN_DIR "/record/tensorboard.json");
  EXPECT_EQ(hex(tfrecord(encode_version_event(golden.at("version_wall_time_s")))),
            golden.at("version").get<std::string>());
  int compared = 0;
  for (const core::Json& event : golden.at("events")) {
    NamedNumbers scalars;
    for (const core::Json& scalar : event["scalars"])
      scalars.emplace_back(scalar[0], std::stod(scalar[1].get<std::string>()));
    EXPECT_EQ(hex(tfrecord(encode_scalar_event(event["wall_time_s"], event["step"], scalars))),
              event["record"].get<std::string>());
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

TEST(TensorBoard, ScalarsOfAStep) {
  const std::vector<Field> event =
      read_fields(encode_scalar_event(12.5, 300, {{"train/loss", 0.25}, {"train/lr", -3}}));
  ASSERT_EQ(event.size(), 3u);
  EXPECT_EQ(event[0].number, 1u);
  EXPECT_EQ(std::bit_cast<double>(event[0].integer), 12.5);
  EXPECT_EQ(event[1].number, 2u);
  EXPECT_EQ(event[1].integer, 300u);
  EXPECT_EQ(event[2].number, 5u);
  const std::vector<Field> values = read_fields(event[2].bytes);
  ASSERT_EQ(values.size(), 2u);
  const std::vector<Field> value = read_fields(values[1].bytes);
  ASSERT_EQ(value.size(), 2u);
  EXPECT_EQ(value[0].bytes, "train/lr");
  EXPECT_EQ(value[1].number, 2u);
  EXPECT_EQ(value[1].type, 5u);
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(value[1].integer)), -3.0f);
}

TEST(TensorBoard, AFileOfEvents) {
  const core::TempDir folder;
  std::filesystem::path path;
  {
    AppendQueue queue;
    TensorBoardWriter first(folder.path() / "tensorboard", queue), second(folder.path() / "tensorboard", queue);
    EXPECT_NE(first.path(), second.path());
    path = first.path();
    for (int step = 0; step < 1000; ++step) first.add_scalars(step, {{"train/loss", std::exp(-step)}});
    first.add_scalars(1000, {{"train/loss", std::numeric_limits<double>::quiet_NaN()}});
    first.add_scalars(1001, {});
  }
  EXPECT_NE(path.filename().string().find("events.out.tfevents."), std::string::npos);
  const std::vector<std::string> events = read_records(core::read_file(path));
  ASSERT_EQ(events.size(), 1u + 1001u);  // the version, then one for each step with scalars
  EXPECT_EQ(read_fields(events[0])[1].bytes, "brain.Event:2");
  EXPECT_EQ(read_fields(events[1000])[1].integer, 999u);
}

TEST(TensorBoard, AFolderThatCannotBeMadeIsAnError) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "file", "x");
  AppendQueue queue;
  EXPECT_THROW(TensorBoardWriter(folder.path() / "file" / "tensorboard", queue), EnvironmentError);
}

}  // namespace
}  // namespace lockstep::record
