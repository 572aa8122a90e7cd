#pragma once
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/files.h"

namespace lockstep::tests {

/// Writes tar archives byte by byte, good ones and bad ones.
class TarBytes {
 public:
  static std::string header(const std::string& name, uint64_t size, char type = '0', const std::string& prefix = "",
                            bool gnu = false) {
    std::string block(512, '\0');
    block.replace(0, std::min<size_t>(name.size(), 100), name.substr(0, 100));
    block.replace(100, 7, "0000644");
    block.replace(108, 7, "0000000");
    block.replace(116, 7, "0000000");
    block.replace(124, 11, fmt::format("{:011o}", size));
    block.replace(136, 11, "00000000000");
    block[156] = type;
    if (gnu) {
      block.replace(257, 8, std::string("ustar  \0", 8));
    } else {
      block.replace(257, 8,
                    std::string("ustar\0"
                                "00",
                                8));
    }
    block.replace(345, prefix.size(), prefix);
    return with_checksum(block);
  }

  static std::string with_checksum(std::string block) {
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    block.replace(148, 8, std::string(fmt::format("{:06o}", sum)) + std::string("\0 ", 2));
    return block;
  }

  static std::string padded(const std::string& data) {
    return data + std::string((512 - data.size() % 512) % 512, '\0');
  }
  static std::string member(const std::string& name, const std::string& data) {
    return header(name, data.size()) + padded(data);
  }
  static std::string end() { return std::string(1024, '\0'); }
  static std::string pax(const std::string& records, char type = 'x') {
    return header("pax", records.size(), type) + padded(records);
  }
  static std::string record(const std::string& key, const std::string& value) {
    const std::string tail = fmt::format(" {}={}\n", key, value);
    size_t length = tail.size() + 1;
    while (std::to_string(length).size() + tail.size() != length) ++length;
    return std::to_string(length) + tail;
  }
  static std::string long_name(const std::string& name) {
    return header("././@LongLink", name.size() + 1, 'L', "", true) + padded(name + std::string(1, '\0'));
  }
};

/// `num` samples "<first + i>" with a picture and a caption that name shard and sample.
inline std::string sample_tar(const std::string& shard, int num, int first = 0) {
  std::string bytes;
  for (int i = first; i < first + num; ++i) {
    const std::string key = fmt::format("{:05}", i);
    bytes += TarBytes::member(
        key + ".jpg", fmt::format("image {} {}", shard, key) + std::string(static_cast<size_t>(i * 37 % 700), 'x'));
    bytes += TarBytes::member(key + ".txt", fmt::format("caption {} {}", shard, key));
  }
  return bytes + TarBytes::end();
}

inline std::string write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      << bytes;  // not write_file_atomic: its fsync would cost most of the test's time
  return path.string();
}

/// Shards 000.tar, 001.tar, ... with the given numbers of samples; returns their brace list.
inline std::string write_shards(const std::filesystem::path& folder, const std::vector<int>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = fmt::format("{:03}", i);
    write_file(folder / (name + ".tar"), sample_tar(name, sizes[i]));
  }
  return fmt::format("{}/{{000..{:03}}}.tar", folder.string(), sizes.size() - 1);
}

}  // namespace lockstep::tests
