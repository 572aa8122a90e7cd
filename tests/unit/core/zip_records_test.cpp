#include "core/zip_records.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "core/files.h"
#include "support/error_text.h"

namespace lockstep::core {
namespace {

const std::filesystem::path kWhole = std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "pt" / "openclip_ddp.pt";

template <typename T> std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// One stored record "a/x" of an archive whose offsets and sizes stand in the fields of 64 bits, as of a file above
/// 4 GiB.
std::string long_archive(const std::string& content, uint32_t crc) {
  using U2 = uint16_t;
  using U4 = uint32_t;
  using U8 = uint64_t;
  const std::string name = "a/x";
  std::string bytes = little_endian<U4>(0x04034b50) + std::string(22, '\0') + little_endian<U2>(3) +
                      little_endian<U2>(0) + name + content;
  const U8 directory = bytes.size();
  bytes += little_endian<U4>(0x02014b50) + std::string(12, '\0') + little_endian<U4>(crc) +
           little_endian<U4>(0xffffffff) + little_endian<U4>(0xffffffff) + little_endian<U2>(3) +
           little_endian<U2>(28) + std::string(10, '\0') + little_endian<U4>(0xffffffff) + name + little_endian<U2>(1) +
           little_endian<U2>(24) + little_endian<U8>(content.size()) + little_endian<U8>(content.size()) +
           little_endian<U8>(0);
  const U8 end = bytes.size();
  bytes += little_endian<U4>(0x06064b50) + std::string(28, '\0') + little_endian<U8>(1) + little_endian<U8>(end) +
           little_endian<U8>(directory);
  bytes += little_endian<U4>(0x07064b50) + little_endian<U4>(0) + little_endian<U8>(end) + little_endian<U4>(1);
  return bytes + little_endian<U4>(0x06054b50) + std::string(18, '\xff');
}

TEST(ZipRecords, AFlippedByteNamesItsRecord) {
  const ZipCheck whole = check_zip_records(kWhole);
  EXPECT_GT(whole.num_checked, 3u);
  EXPECT_TRUE(whole.problems.empty()) << whole.problems.front();
  const TempDir folder;
  for (const ZipRecord& record : read_zip_directory(kWhole)) {
    ASSERT_TRUE(record.is_stored && record.bytes > 0) << record.name;
    std::string bytes = read_file(kWhole);
    uint16_t lengths[2];  // of name and extra field
    std::memcpy(lengths, bytes.data() + record.header_offset + 26, sizeof lengths);
    bytes[record.header_offset + 30 + lengths[0] + lengths[1] + record.bytes / 2] ^= 1;
    write_file_atomic(folder.path() / "flip.pt", bytes);
    const ZipCheck check = check_zip_records(folder.path() / "flip.pt");
    ASSERT_EQ(check.problems.size(), 1u) << record.name;
    EXPECT_TRUE(tests::holds(check.problems.front(), "record '" + record.name + "' is damaged: CRC-32"));
  }
}

TEST(ZipRecords, ArchivesOfMoreThanFourGigabytesHaveLongNumbers) {
  const TempDir folder;
  const std::string content = "123456789";
  EXPECT_EQ(crc32_of(std::as_bytes(std::span(content))), 0xcbf43926) << "the check value of CRC-32/ISO-HDLC";
  write_file_atomic(folder.path() / "long.zip", long_archive(content, 0xcbf43926));
  const auto records = read_zip_directory(folder.path() / "long.zip");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].name, "a/x");
  EXPECT_EQ(records[0].bytes, 9u);
  EXPECT_EQ(check_zip_records(folder.path() / "long.zip").num_checked, 1u);
  EXPECT_TRUE(check_zip_records(folder.path() / "long.zip").problems.empty());
  write_file_atomic(folder.path() / "long.zip", long_archive(content, 0));
  EXPECT_EQ(check_zip_records(folder.path() / "long.zip").num_without_checksum, 1u);
}

TEST(ZipRecords, RecordsThatLieOverOneAnotherAreRefused) {
  using U2 = uint16_t;
  using U4 = uint32_t;
  const TempDir folder;
  const std::string content(4096, 'x');
  const uint32_t crc = crc32_of(std::as_bytes(std::span(content)));
  std::string bytes = little_endian<U4>(0x04034b50) + std::string(22, '\0') + little_endian<U2>(3) +
                      little_endian<U2>(0) + "a/x" + content;
  const auto directory = static_cast<U4>(bytes.size());
  constexpr U2 kNumRecords = 1000;  // of a file of 54 kB: 4 MB; of one of 4 GB: hours
  for (U2 i = 0; i < kNumRecords; ++i)
    bytes += little_endian<U4>(0x02014b50) + std::string(12, '\0') + little_endian<U4>(crc) + little_endian<U4>(4096) +
             little_endian<U4>(4096) + little_endian<U2>(3) + std::string(16, '\0') + "a/x";
  const auto directory_bytes = static_cast<U4>(bytes.size()) - directory;
  bytes += little_endian<U4>(0x06054b50) + std::string(4, '\0') + little_endian<U2>(kNumRecords) +
           little_endian<U2>(kNumRecords) + little_endian<U4>(directory_bytes) + little_endian<U4>(directory) +
           little_endian<U2>(0);
  write_file_atomic(folder.path() / "bomb.pt", bytes);
  EXPECT_EQ(read_zip_directory(folder.path() / "bomb.pt").size(), kNumRecords);
  const std::string refused = tests::message_of<DataError>([&] { check_zip_records(folder.path() / "bomb.pt"); });
  EXPECT_TRUE(tests::holds(refused, "its records lie over one another, 'a/x' of bytes=4096")) << refused;
}

TEST(ZipRecords, WhatIsCutOffIsRefused) {
  const TempDir folder;
  const std::string whole = long_archive("123456789", 0xcbf43926);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file_atomic(folder.path() / "cut.zip", whole.substr(0, size));
    EXPECT_TRUE(tests::holds(tests::message_of<DataError>([&] { check_zip_records(folder.path() / "cut.zip"); }),
                             "is no whole zip archive"))
        << size;
  }
}

}  // namespace
}  // namespace lockstep::core
