#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pictures/image_types.h"

namespace lockstep::data {

/// One JPEG: the constructor parses the header and checks the size, then exactly one of the read functions may be
/// called, after reduce() or without it. `bytes` must outlive the reader. All throw DataError.
class JpegReader {
 public:
  JpegReader(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits);
  ~JpegReader();

  /// Of what the read functions give.
  int width() const;
  int height() const;

  /// From here on the picture is one of 1 / divisor (2, 4 or 8) of its width and height, rounded up: libjpeg decodes
  /// that many coefficients of each block alone, so its pixels are not means of those of the whole.
  void reduce(int divisor);

  /// True where read_region gives the very pixels of the whole picture: baseline, grey or 4:4:4, 4:2:2, 4:2:0, and
  /// complete at its end.
  bool can_read_region() const;

  void read_all(Image& out);

  /// Decodes a part that covers `wanted` and returns which; `out` then holds that part. The neighbours that chroma
  /// upsampling looks at are decoded too and left out. Data after the last row needed is not looked at. Call only where
  /// can_read_region().
  Region read_region(const Region& wanted, Image& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

void decode_png(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits, Image& out);
void decode_webp(std::span<const std::byte> bytes, std::string_view name, const DecodeLimits& limits, Image& out);

/// Baseline JPEG with 4:2:0 chroma (as Pillow writes by default), standard Huffman tables. quality 1..100.
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

}  // namespace lockstep::data
