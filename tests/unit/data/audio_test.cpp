// Recordings of every kind: whole, in part, damaged at every place.
#include "data/sounds/audio.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/data/audio_bytes.h"

namespace lockstep::data {
namespace {

using tests::encode_audio;
using tests::melody;
using tests::relative_difference;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<float> read_part(const std::string& bytes, int64_t first, int64_t count) {
  AudioReader reader(bytes_of(bytes), "sound");
  std::vector<float> out;
  reader.read_mono(first, count, out);
  return out;
}

std::vector<float> read_all(const std::string& bytes) {
  return read_part(bytes, 0, AudioReader(bytes_of(bytes), "sound").info().num_frames);
}

/// The message of the DataError that reading everything throws.
std::string complaint_of(const std::string& bytes) {
  try {
    read_all(bytes);
  } catch (const DataError& error) {
    EXPECT_FALSE(error.hint().empty());
    EXPECT_NE(std::string(error.what()).find("recording in sound "), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

struct Kind {
  const char* name;
  int format, rate;
  double tolerance;       // of the whole against what was written: root mean square, relative
  double part_tolerance;  // of a part against the same stretch of the whole
};
// 16 and 24 bits: half a step and the truncation of the encoder. Vorbis, Opus and MP3 lose what is hard to hear; Opus
// decodes a part with another history.
const Kind kKinds[] = {{"wav16", tests::kWav16, 44100, 2e-4, 0},   {"wavfloat", tests::kWavFloat, 48000, 0, 0},
                       {"flac16", tests::kFlac16, 48000, 2e-4, 0}, {"flac24", tests::kFlac24, 32000, 1e-6, 0},
                       {"vorbis", tests::kVorbis, 44100, 0.1, 0},  {"opus", tests::kOpus, 48000, 0.1, 0.02}};

class AudioKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(AudioKinds, WholeAndInParts) {
  const Kind& kind = GetParam();
  const std::vector<float> written = melody(3 * kind.rate + 77, kind.rate);
  const std::string bytes = encode_audio(written, kind.rate, kind.format);
  AudioReader reader(bytes_of(bytes), "sound");
  EXPECT_EQ(reader.info().num_frames, static_cast<int64_t>(written.size()));
  EXPECT_EQ(reader.info().num_channels, 1);
  EXPECT_EQ(reader.info().sample_rate, kind.rate);
  const std::vector<float> whole = read_all(bytes);
  EXPECT_LE(tests::rms_difference(whole, written), kind.tolerance);
  core::CounterRng rng(7);
  for (int i = 0; i < 20; ++i) {
    const auto first = static_cast<int64_t>(rng.below(written.size()));
    const auto count = static_cast<int64_t>(rng.below(written.size() - static_cast<size_t>(first)) + 1);
    std::vector<float> part;
    reader.read_mono(first, count, part);  // one reader for all: seeks forth and back
    const std::span<const float> expected(whole.data() + first, static_cast<size_t>(count));
    EXPECT_LE(relative_difference(part, expected), kind.part_tolerance) << first << " " << count;
    EXPECT_EQ(part, read_part(bytes, first, count));  // and does not depend on where the reader stood
  }
}

TEST_P(AudioKinds, RefusesEveryCut) {
  const Kind& kind = GetParam();
  const std::string bytes = encode_audio(melody(kind.rate / 2, kind.rate), kind.rate, kind.format);
  const size_t step = std::max<size_t>(1, bytes.size() / 60);
  for (size_t size = 0; size < bytes.size() - 1; size += step)
    EXPECT_NE(complaint_of(bytes.substr(0, size)), "") << kind.name << " " << size;
}

TEST_P(AudioKinds, RefusesACutAlsoBehindThePartThatIsRead) {
  const Kind& kind = GetParam();
  const std::string bytes = encode_audio(melody(2 * kind.rate, kind.rate), kind.rate, kind.format);
  EXPECT_NO_THROW(read_part(bytes, 0, 1000));
  for (const double share : {0.6, 0.9, 0.99})
    EXPECT_THROW(read_part(bytes.substr(0, static_cast<size_t>(static_cast<double>(bytes.size()) * share)), 0, 1000),
                 DataError)
        << share;
}

INSTANTIATE_TEST_SUITE_P(All, AudioKinds, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace lockstep::data
