#include "data/pictures/image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "data/pictures/image_codecs.h"
#include "unit/data/image_golden.h"

namespace lockstep::data {
namespace {

using golden::read_bytes;

std::vector<std::byte> image_bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::vector<std::string> encoded_files() {
  std::vector<std::string> names;
  const core::Json decoded = golden::read_json("decode");
  for (const core::Json& row : decoded["cases"]) names.push_back(row[0]);
  return names;
}

/// The message of the DataError that decoding throws; fails when there is none.
std::string refusal(std::span<const std::byte> bytes, const DecodeLimits& limits = {}) {
  try {
    decode_image(bytes, "some-key", limits);
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("some-key"), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
    return error.what();
  }
  ADD_FAILURE() << "decoded without an error";
  return "";
}

TEST(Image, DecodesWhatPillowDecodes) {
  const core::Json golden = golden::read_json("decode");
  ASSERT_GE(golden["cases"].size(), 40u);
  for (const core::Json& row : golden["cases"]) {
    const std::string name = row[0];
    const Image image = decode_image(read_bytes(golden::folder() / name), name);
    EXPECT_EQ(image.width, row[1].get<int>()) << name;
    EXPECT_EQ(image.height, row[2].get<int>()) << name;
    ASSERT_EQ(image.rgb_YXC.size(), static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
    EXPECT_EQ(golden::crc(image.rgb_YXC), row[3].get<uint32_t>()) << name;
  }
}

TEST(Image, ReusesMemory) {
  Image image;
  const auto large = read_bytes(golden::folder() / "jpeg_444.jpg"),
             small = read_bytes(golden::folder() / "webp_lossless.webp");
  decode_image_into(large, "large", {}, image);
  const uint8_t* memory = image.rgb_YXC.data();
  const uint32_t before = golden::crc(image.rgb_YXC);
  decode_image_into(small, "small", {}, image);
  EXPECT_EQ(image.width, 31);
  decode_image_into(large, "large", {}, image);
  EXPECT_EQ(image.rgb_YXC.data(), memory);
  EXPECT_EQ(golden::crc(image.rgb_YXC), before);
}

TEST(Image, NamesForeignFormats) {
  EXPECT_NE(refusal(image_bytes_of("GIF89a......")).find("a GIF"), std::string::npos);
  EXPECT_NE(refusal(image_bytes_of("<!DOCTYPE html>")).find("HTML"), std::string::npos);
  EXPECT_NE(refusal({}).find("an empty file"), std::string::npos);
  EXPECT_NE(refusal(image_bytes_of("\x01\x02xy")).find("01 02 78 79"), std::string::npos);
  EXPECT_NE(refusal(read_bytes(golden::folder() / "animated.webp")).find("animated"), std::string::npos);
}

TEST(Image, RefusesAbsurdSizesBeforeAllocating) {
  // Headers that announce 65,500 x 65,500 (JPEG, PNG: 2^31 - 1) pixels in a few bytes.
  auto jpeg = read_bytes(golden::folder() / "jpeg_420.jpg");
  const std::array frame{std::byte{0xff}, std::byte{0xc0}};
  const auto at = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) - jpeg.begin();
  for (const size_t i : {5u, 7u}) {
    jpeg[static_cast<size_t>(at) + i] = std::byte{0xff};
    jpeg[static_cast<size_t>(at) + i + 1] = std::byte{0xdc};
  }
  EXPECT_NE(refusal(jpeg).find("65500 x 65500 pixels, expected at least 1 x 1 and at most 89478485"),
            std::string::npos);
  auto png = read_bytes(golden::folder() / "png_c2_d8.png");
  for (const size_t i : {16u, 20u}) {
    png[i] = std::byte{0x7f};
    for (const size_t j : {1u, 2u, 3u}) png[i + j] = std::byte{0xff};
  }
  const uint32_t sum = golden::crc({reinterpret_cast<const uint8_t*>(png.data()) + 12, 17});
  for (size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<std::byte>(sum >> (24 - 8 * i));
  EXPECT_NE(refusal(png).find("2147483647 x 2147483647"), std::string::npos);
  for (const std::string& name : encoded_files()) {
    if (name == "jpeg_1x1.jpg") continue;
    EXPECT_NE(refusal(read_bytes(golden::folder() / name), {.max_pixels = 100}).find("at most 100 pixels"),
              std::string::npos)
        << name;
  }
}

TEST(Image, EveryTruncationIsAnError) {
  for (const std::string& name : encoded_files()) {
    const auto whole = read_bytes(golden::folder() / name);
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
      EXPECT_THROW(decode_image(std::span(whole).first(size), name), DataError)
          << name << " cut to " << size << " bytes";
    }
    // The last byte is part of the end marker (JPEG) or of a checksum (PNG); WebP chunks may be padded.
    if (name.find(".webp") == std::string::npos) {
      EXPECT_THROW(decode_image(std::span(whole).first(whole.size() - 1), name), DataError) << name;
    }
  }
}

TEST(Image, WhatPillowReadsOverIsRead) {
  // Garbage between two markers: libjpeg warns, skips it and goes on.
  auto jpeg = read_bytes(golden::folder() / "jpeg_420.jpg");
  const std::array tables{std::byte{0xff}, std::byte{0xc4}};
  jpeg.insert(std::search(jpeg.begin(), jpeg.end(), tables.begin(), tables.end()), 5, std::byte{0x11});
  const Image read = decode_image(jpeg, "garbage"),
              whole = decode_image(read_bytes(golden::folder() / "jpeg_420.jpg"), "whole");
  EXPECT_EQ(read.rgb_YXC, whole.rgb_YXC);
}

TEST(Image, EndlessScansAreRefused) {
  // A progressive file whose last scan is repeated hundreds of times costs time and adds nothing.
  const auto jpeg = read_bytes(golden::folder() / "jpeg_grey_progressive.jpg");
  const std::array scan{std::byte{0xff}, std::byte{0xda}};
  const auto last = std::find_end(jpeg.begin(), jpeg.end(), scan.begin(), scan.end());
  std::vector<std::byte> longer(jpeg.begin(), jpeg.end() - 2);
  for (int i = 0; i < 300; ++i) longer.insert(longer.end(), last, jpeg.end() - 2);
  longer.insert(longer.end(), jpeg.end() - 2, jpeg.end());
  refusal(longer);
}

/// Flips bits, overwrites, cuts, repeats and deletes: whatever comes out must decode or throw DataError.
TEST(Image, MutatedFilesNeverCrash) {
  const std::vector<std::string> names = encoded_files();
  core::CounterRng rng(core::stream_key({4242}));
  int num_refused = 0, num_decoded = 0;
  Image image;
  for (int round = 0; round < 8000; ++round) {
    const std::string& name = names[rng.below(names.size())];
    auto bytes = read_bytes(golden::folder() / name);
    const uint64_t num_changes = 1 + rng.below(4);
    for (uint64_t i = 0; i < num_changes && bytes.size() > 16; ++i) {
      const size_t at = rng.below(bytes.size());
      switch (rng.below(5)) {
        case 0: bytes[at] ^= static_cast<std::byte>(1u << rng.below(8)); break;
        case 1: bytes[at] = static_cast<std::byte>(rng.below(256)); break;
        case 2: bytes.resize(at + 1); break;
        case 3:
          bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                      bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), at + 7)));
          break;
        default: {
          const std::vector<std::byte> copy(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end());
          bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(rng.below(bytes.size())), copy.begin(), copy.end());
        }
      }
    }
    try {
      decode_image_into(bytes, name, {.max_pixels = 1'000'000}, image);
      ++num_decoded;
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_GT(num_decoded, 100);
}

TEST(Image, JpegRegionHasThePixelsOfTheWhole) {
  core::CounterRng rng(core::stream_key({77}));
  Image whole, part;
  int num_partial = 0;
  for (const int quality : {30, 95}) {
    for (const std::string name : {"jpeg_444.jpg", "jpeg_422.jpg", "jpeg_420.jpg", "jpeg_grey.jpg", "jpeg_rgb.jpg",
                                   "jpeg_restart.jpg", "large"}) {
      const auto bytes = name == "large" ? encode_jpeg(golden::generate(199, 133, quality == 30), quality)
                                         : read_bytes(golden::folder() / name);
      decode_image_into(bytes, name, {}, whole);
      for (int i = 0; i < 60; ++i) {
        const int w = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(whole.width)));
        const int h = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(whole.height)));
        const Region wanted{static_cast<int>(rng.below(static_cast<uint64_t>(whole.width - w) + 1)),
                            static_cast<int>(rng.below(static_cast<uint64_t>(whole.height - h) + 1)), w, h};
        JpegReader reader(bytes, name, {});
        ASSERT_TRUE(reader.can_read_region()) << name;
        const Region held = reader.read_region(wanted, part);
        num_partial += held.width < whole.width || held.height < whole.height;
        ASSERT_TRUE(held.x <= wanted.x && held.y <= wanted.y && held.x + held.width >= w + wanted.x &&
                    held.y + held.height >= h + wanted.y);
        for (int y = 0; y < h; ++y) {
          const auto* seen =
              part.rgb_YXC.data() + (static_cast<size_t>(wanted.y + y - held.y) * static_cast<size_t>(held.width) +
                                     static_cast<size_t>(wanted.x - held.x)) *
                                        3;
          const auto* expected =
              whole.rgb_YXC.data() +
              (static_cast<size_t>(wanted.y + y) * static_cast<size_t>(whole.width) + static_cast<size_t>(wanted.x)) *
                  3;
          ASSERT_EQ(std::memcmp(seen, expected, static_cast<size_t>(w) * 3), 0) << name << " row " << wanted.y + y;
        }
      }
    }
  }
  EXPECT_GT(num_partial, 500);
}

TEST(Image, RegionOfAReducedJpegHasThePixelsOfTheReducedWhole) {
  core::CounterRng rng(core::stream_key({78}));
  Image whole, part;
  for (const int divisor : {2, 4, 8}) {
    for (const std::string name : {"jpeg_444.jpg", "jpeg_422.jpg", "jpeg_420.jpg", "jpeg_grey.jpg", "large"}) {
      const auto bytes =
          name == "large" ? encode_jpeg(golden::generate(399, 333, 1), 85) : read_bytes(golden::folder() / name);
      JpegReader all(bytes, name, {});
      const int full_width = all.width();
      all.reduce(divisor);
      EXPECT_EQ(all.width(), (full_width + divisor - 1) / divisor);
      all.read_all(whole);
      for (int i = 0; i < 60; ++i) {
        const int w = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(whole.width)));
        const int h = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(whole.height)));
        const Region wanted{static_cast<int>(rng.below(static_cast<uint64_t>(whole.width - w) + 1)),
                            static_cast<int>(rng.below(static_cast<uint64_t>(whole.height - h) + 1)), w, h};
        JpegReader reader(bytes, name, {});
        reader.reduce(divisor);
        const Region held = reader.read_region(wanted, part);
        for (int y = 0; y < h; ++y) {
          const size_t seen_at = static_cast<size_t>((wanted.y + y - held.y) * held.width + wanted.x - held.x) * 3;
          const size_t expected_at = static_cast<size_t>((wanted.y + y) * whole.width + wanted.x) * 3;
          ASSERT_EQ(std::memcmp(part.rgb_YXC.data() + seen_at, whole.rgb_YXC.data() + expected_at,
                                static_cast<size_t>(w) * 3),
                    0)
              << name << " / " << divisor << " row " << wanted.y + y;
        }
      }
    }
  }
}

TEST(Image, RegionIsRefusedWhereItWouldNotBeExact) {
  for (const char* name : {"jpeg_420_progressive.jpg", "jpeg_cmyk.jpg", "jpeg_ycck.jpg"}) {
    const auto bytes = read_bytes(golden::folder() / name);
    EXPECT_FALSE(JpegReader(bytes, name, {}).can_read_region()) << name;
  }
  auto cut = read_bytes(golden::folder() / "jpeg_420.jpg");
  cut.pop_back();
  EXPECT_FALSE(JpegReader(cut, "cut", {}).can_read_region());
}

TEST(Image, EncodedJpegComesBack) {
  const Image image = golden::generate(70, 50, 1);
  const Image back = decode_image(encode_jpeg(image, 95), "own");
  ASSERT_EQ(back.width, 70);
  ASSERT_EQ(back.height, 50);
  double sum = 0;
  for (size_t i = 0; i < image.rgb_YXC.size(); ++i)
    sum += std::abs(static_cast<int>(image.rgb_YXC[i]) - static_cast<int>(back.rgb_YXC[i]));
  EXPECT_LT(sum / static_cast<double>(image.rgb_YXC.size()), 12.0);
  EXPECT_LT(encode_jpeg(image, 30).size(), encode_jpeg(image, 95).size());
  EXPECT_THROW(encode_jpeg({.width = 70000, .height = 1, .rgb_YXC = std::vector<uint8_t>(210000)}, 90), DataError);
}

}  // namespace
}  // namespace lockstep::data
