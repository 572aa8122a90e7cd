#pragma once
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/json.h"
#include "data/pictures/image.h"

namespace lockstep::data::golden {

inline std::filesystem::path folder() { return std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "image"; }
inline core::Json read_json(const std::string& name) { return core::read_json_file(folder() / (name + ".json")); }

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  const std::string text = core::read_file(path);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline uint32_t crc(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.data(), static_cast<unsigned>(bytes.size())));
}

/// The same picture as generate() in ref/make_image_goldens.py: kind 0 noise, 1 smooth with edges, 2 black and white.
inline Image generate(int width, int height, int kind) {
  Image image{.width = width, .height = height, .rgb_YXC = {}};
  for (uint32_t y = 0; y < static_cast<uint32_t>(height); ++y) {
    for (uint32_t x = 0; x < static_cast<uint32_t>(width); ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        uint32_t mixed = (x * 73856093u ^ y * 19349663u ^ c * 83492791u) * 2654435761u;
        mixed = (mixed ^ mixed >> 15) * 2246822519u;
        const uint32_t noise = mixed >> 24, smooth = (x * 2 + y * 3 + c * 50 + (x / 9 + y / 7) % 2 * 60) / 2 % 256;
        image.rgb_YXC.push_back(static_cast<uint8_t>(kind == 0 ? noise : kind == 1 ? smooth : (noise >> 7) * 255));
      }
    }
  }
  return image;
}

}  // namespace lockstep::data::golden
