#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "record/append_queue.h"
#include "record/steps.h"

namespace lockstep::record {

/// CRC-32C (Castagnoli) of bytes.
uint32_t crc32c(std::string_view bytes);
/// As TFRecord files store it: rotated right by 15 bits, plus 0xa282ead8.
uint32_t masked_crc32c(std::string_view bytes);
/// One TFRecord: little-endian length, its masked CRC, the payload, its masked CRC.
std::string tfrecord(std::string_view payload);

/// Serialised protobuf Event with the file version "brain.Event:2", the first record of an event file.
std::string encode_version_event(double wall_time_s);
/// Serialised protobuf Event with scalars of one step (Summary.Value.simple_value, a float).
std::string encode_scalar_event(double wall_time_s, int64_t step, const NamedNumbers& scalars);

/// Writes scalars to a TensorBoard event file of its own in `folder` (created where needed). Writing happens on
/// `queue`'s thread; the queue must outlive the writer. EnvironmentError when the file cannot be created.
class TensorBoardWriter {
 public:
  TensorBoardWriter(const std::filesystem::path& folder, AppendQueue& queue);
  void add_scalars(int64_t step, const NamedNumbers& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  AppendQueue& queue_;
  int file_ = -1;
};

}  // namespace lockstep::record
