// Foreign bytes: every flipped bit and every lie of a header is noticed, or changes nothing.
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/sounds/audio.h"
#include "unit/data/audio_bytes.h"

namespace lockstep::data {
namespace {

using tests::encode_audio;
using tests::melody;

/// The recording, or nothing where it was refused.
std::vector<float> read(const std::string& bytes) {
  std::vector<float> out;
  try {
    AudioReader reader(std::as_bytes(std::span(bytes)), "sound");
    reader.read_mono(0, reader.info().num_frames, out);
  } catch (const DataError&) {
    return {};
  }
  return out;
}

TEST(AudioDamage, OneFlippedBitIsNoticedOrHarmless) {
  for (const int format : {tests::kFlac16, tests::kVorbis, tests::kOpus}) {
    const std::string whole = encode_audio(melody(24000, 48000), 48000, format);
    const std::vector<float> expected = read(whole);
    ASSERT_EQ(expected.size(), 24000u);
    core::CounterRng rng(static_cast<uint64_t>(format));
    int num_noticed = 0;
    for (int i = 0; i < 400; ++i) {
      std::string bytes = whole;
      const uint64_t at = rng.below(bytes.size()), bit = rng.below(8);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const std::vector<float> seen = read(bytes);
      if (seen.empty()) ++num_noticed;
      // What FLAC's head says about the stream is not covered by a checksum; the sound is.
      const bool is_sound = at > 100;
      EXPECT_TRUE(seen.empty() || !is_sound || seen == expected) << format << " byte " << at << " bit " << bit;
    }
    EXPECT_GT(num_noticed, 350) << format;
  }
}

TEST(AudioDamage, RandomBytesBehindAGoodHeadNeverCrash) {
  for (const int format : {tests::kWav16, tests::kWavFloat, tests::kFlac16, tests::kVorbis, tests::kOpus}) {
    const std::string whole = encode_audio(melody(6000, 48000), 48000, format);
    core::CounterRng rng(static_cast<uint64_t>(format) + 1);
    for (int i = 0; i < 300; ++i) {
      std::string bytes = whole;
      const uint64_t num = 1 + rng.below(30), reach = i % 2 == 0 ? std::min<uint64_t>(bytes.size(), 200) : bytes.size();
      for (uint64_t k = 0; k < num; ++k) bytes[rng.below(reach)] = static_cast<char>(rng.below(256));
      if (i % 3 == 0) bytes.resize(rng.below(bytes.size()));
      EXPECT_LE(read(bytes).size(), size_t{1} << 24);
    }
  }
}

TEST(AudioDamage, LyingLengthsOfAFlac) {
  const std::string whole = encode_audio(melody(24000, 48000), 48000, tests::kFlac16);
  // Total samples: 36 bits, the low half of byte 21 and bytes 22 to 25.
  std::string bytes = whole;
  bytes[21] = static_cast<char>(bytes[21] & 0xf0);
  std::fill(bytes.begin() + 22, bytes.begin() + 26, '\0');  // not told: counted by decoding
  EXPECT_EQ(read(bytes), read(whole));
  AudioReader reader(std::as_bytes(std::span(bytes)), "sound");
  EXPECT_EQ(reader.info().num_frames, 24000);
  std::vector<float> part;
  reader.read_mono(9000, 500, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), read(whole).begin() + 9000));
  const AudioLimits short_limit{.max_seconds = 0.25};
  EXPECT_THROW(AudioReader(std::as_bytes(std::span(bytes)), "sound", short_limit), DataError);
  for (const double share : {0.3, 0.6, 0.9}) {
    std::string damaged = bytes, cut = bytes;
    damaged[static_cast<size_t>(share * static_cast<double>(bytes.size()))] ^= 16;
    cut.resize(static_cast<size_t>(share * static_cast<double>(bytes.size())));
    EXPECT_TRUE(read(damaged).empty()) << share;
    EXPECT_TRUE(read(cut).empty()) << share;
  }
  bytes[21] = static_cast<char>(bytes[21] | 0x0f);
  std::fill(bytes.begin() + 22, bytes.begin() + 26, '\xff');
  EXPECT_TRUE(read(bytes).empty());
  bytes = whole;
  bytes[24] = static_cast<char>(bytes[24] + 1);  // 256 frames too many
  EXPECT_TRUE(read(bytes).empty());
  AudioReader longer(std::as_bytes(std::span(bytes)), "sound");
  EXPECT_THROW(longer.read_mono(0, 100, part), DataError);  // noticed although the part itself is there
}

TEST(AudioDamage, WavWithoutALengthIsReadToItsEnd) {
  const std::string whole = encode_audio(melody(5000, 48000), 48000, tests::kWav16);
  std::string bytes = whole;
  for (const size_t at : {size_t{4}, bytes.find("data") + 4})
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), 4, '\xff');
  EXPECT_EQ(read(bytes), read(whole));
  bytes = whole;
  bytes[bytes.find("data") + 5] ^= 0x40;  // more than there is
  EXPECT_TRUE(read(bytes).empty());
}

}  // namespace
}  // namespace lockstep::data
