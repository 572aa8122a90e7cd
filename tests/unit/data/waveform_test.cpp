// From a recording to a clip: mixing, rates, cutting, filling, the int16 round trip.
#include "data/sounds/waveform.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>

#include "core/error.h"
#include "data/sounds/audio_resample.h"
#include "unit/data/audio_bytes.h"

namespace lockstep::data {
namespace {

using tests::encode_audio;
using tests::melody;
using tests::relative_difference;

struct Clip {
  std::vector<float> values;
  int64_t length = 0;
};

Clip clip_of(const std::string& bytes, const WaveformConfig& config, uint64_t key = 0) {
  WaveformScratch scratch;
  Clip clip{.values = std::vector<float>(static_cast<size_t>(config.clip_samples), 9.0f)};
  clip.length = read_waveform(std::as_bytes(std::span(bytes)), "sound", config, key, clip.values, scratch);
  return clip;
}

/// A plain configuration: nothing is rounded or resampled.
WaveformConfig plain(int64_t rate, int64_t clip_samples) {
  return {.sample_rate = rate, .clip_samples = clip_samples, .int16_round_trip = false};
}

std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  for (float& value : values) value /= 65536;
  return values;
}

TEST(Waveform, FillsShortRecordings) {
  const std::vector<float> three = {0.25f, -0.5f, 0.75f};
  const std::string bytes = encode_audio(three, 8000, tests::kWavFloat);
  WaveformConfig config = plain(8000, 8);
  const auto filled = [&](AudioFill fill) {
    config.fill = fill;
    const Clip clip = clip_of(bytes, config);
    EXPECT_EQ(clip.length, 3);
    return clip.values;
  };
  EXPECT_EQ(filled(AudioFill::kRepeatPad), (std::vector<float>{0.25f, -0.5f, 0.75f, 0.25f, -0.5f, 0.75f, 0, 0}));
  EXPECT_EQ(filled(AudioFill::kPad), (std::vector<float>{0.25f, -0.5f, 0.75f, 0, 0, 0, 0, 0}));
  EXPECT_EQ(filled(AudioFill::kRepeat), (std::vector<float>{0.25f, -0.5f, 0.75f, 0.25f, -0.5f, 0.75f, 0.25f, -0.5f}));
  config.clip_samples = 3;
  EXPECT_EQ(filled(AudioFill::kRepeatPad), three);
}

TEST(Waveform, CutsLongRecordings) {
  const std::vector<float> values = ramp(1000);
  const std::string bytes = encode_audio(values, 8000, tests::kWavFloat);
  WaveformConfig config = plain(8000, 100);
  const auto start_of = [&](AudioCrop crop, uint64_t key) {
    config.crop = crop;
    const Clip clip = clip_of(bytes, config, key);
    EXPECT_EQ(clip.length, 1000);
    const auto start = static_cast<int64_t>(clip.values.front() * 65536);
    EXPECT_TRUE(std::equal(clip.values.begin(), clip.values.end(), values.begin() + start));
    return start;
  };
  EXPECT_EQ(start_of(AudioCrop::kFront, 3), 0);
  EXPECT_EQ(start_of(AudioCrop::kCentre, 3), 450);
  std::set<int64_t> starts;
  for (uint64_t key = 0; key < 4000; ++key) starts.insert(start_of(AudioCrop::kRandom, key));
  EXPECT_EQ(*starts.begin(), 0);  // both ends are reached
  EXPECT_EQ(*starts.rbegin(), 900);
  EXPECT_GT(starts.size(), 850u);
  EXPECT_EQ(start_of(AudioCrop::kRandom, 17), start_of(AudioCrop::kRandom, 17));
}

TEST(Waveform, MixesChannelsDown) {
  std::vector<float> interleaved;
  std::vector<float> expected;
  for (int i = 0; i < 500; ++i) {
    float sum = 0;
    for (int c = 0; c < 8; ++c) {
      interleaved.push_back(static_cast<float>((i * 7 + c * c) % 41) / 64);
      sum += interleaved.back();
    }
    expected.push_back(sum / 8);
  }
  EXPECT_EQ(clip_of(encode_audio(interleaved, 8000, tests::kWavFloat, 8), plain(8000, 500)).values, expected);
}

TEST(Waveform, RoundsToInt16AsTheReference) {
  const std::vector<float> values = {0.0f, 1.0f, -1.0f, 1.5f, -3.0f, 0.5f, -0.5f, 1e-5f, -1e-5f, 4e-5f};
  WaveformConfig config = plain(8000, 10);
  config.int16_round_trip = true;
  const std::vector<float> seen = clip_of(encode_audio(values, 8000, tests::kWavFloat), config).values;
  const std::vector<float> whole = {0, 32767, -32767, 32767, -32767, 16383, -16383, 0, 0, 1};  // towards zero
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(seen[i], whole[i] / 32767.0f) << values[i];
}

TEST(Resample, KeepsTonesAndRemovesWhatDoesNotFit) {
  const auto tone = [](int64_t rate, double hz, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(
          0.5 * std::sin(2 * std::numbers::pi * hz * static_cast<double>(i) / static_cast<double>(rate)));
    return values;
  };
  std::vector<float> out;
  for (const int64_t rate : {8000, 11025, 16000, 22050, 32000, 44100, 44101, 96000, 192000}) {
    resample_audio(tone(rate, 1000, 2 * rate), rate, 48000, out);
    ASSERT_EQ(out.size(), 96000u) << rate;
    const std::vector<float> expected = tone(48000, 1000, 96000);
    // Away from the ends, where the filter sees silence beyond them. 20 bits: 1e-6.
    EXPECT_LT(relative_difference(std::span(out).subspan(9600, 76800), std::span(expected).subspan(9600, 76800)), 3e-6)
        << rate;
  }
  resample_audio(tone(48000, 6000, 48000), 48000, 8000, out);
  ASSERT_EQ(out.size(), 8000u);
  const auto middle = std::span(out).subspan(800, 6400);
  EXPECT_LT(std::abs(*std::max_element(middle.begin(), middle.end())), 1e-5);
}

TEST(Resample, LengthsAreRoundedUp) {
  EXPECT_EQ(resampled_length(44100, 44100, 48000), 48000);
  EXPECT_EQ(resampled_length(44101, 44100, 48000), 48002);
  EXPECT_EQ(resampled_length(1, 192000, 48000), 1);
  std::vector<float> out;
  for (int64_t count = 1; count < 400; ++count) {
    const std::vector<float> in(static_cast<size_t>(count), 0.5f);
    resample_audio(in, 44100, 48000, out);
    ASSERT_EQ(static_cast<int64_t>(out.size()), resampled_length(count, 44100, 48000));
  }
}

TEST(Waveform, APartEqualsThatPartOfTheWholeResampled) {
  for (const int rate : {8000, 16000, 22050, 44100, 44101, 48000, 96000}) {
    const std::vector<float> written = melody(9 * rate, rate);
    const std::string bytes = encode_audio(written, rate, tests::kWavFloat);
    std::vector<float> whole = written;
    if (rate != 48000) resample_audio(written, rate, 48000, whole);
    for (const uint64_t key : {1, 2, 3, 4, 5}) {
      const Clip clip = clip_of(bytes, plain(48000, 48000), key);
      EXPECT_EQ(clip.length, 9 * 48000);
      // The place of the crop is not told: find it by the first values.
      double best = 1e9;
      for (size_t start = 0; start + 48000 <= whole.size(); ++start) {
        double difference = 0;
        for (size_t i = 0; i < 8; ++i)
          difference = std::max<double>(difference, std::abs(whole[start + i] - clip.values[i]));
        if (difference > 1e-4) continue;
        best = std::min(best, relative_difference(clip.values, std::span(whole).subspan(start, 48000)));
      }
      EXPECT_LT(best, 1e-5) << rate << " " << key;
    }
  }
}

TEST(Waveform, HandlesExtremesAndRefusesTheRest) {
  const WaveformConfig config{.clip_samples = 48000};
  const auto values_of = [&](const std::vector<float>& values, int rate, int format = tests::kWavFloat,
                             int channels = 1) {
    return clip_of(encode_audio(values, rate, format, channels), config);
  };
  const auto complaint = [&](const std::string& bytes) -> std::string {
    try {
      clip_of(bytes, config);
    } catch (const DataError& error) {
      EXPECT_FALSE(error.hint().empty());
      return error.what();
    }
    return "nothing was thrown";
  };
  // One value; silence; every odd rate.
  Clip clip = values_of({0.5f}, 48000);
  EXPECT_EQ(clip.length, 1);
  EXPECT_EQ(clip.values, std::vector<float>(48000, std::trunc(0.5f * 32767) / 32767));
  EXPECT_EQ(values_of({0.5f}, 44100).length, 2);
  EXPECT_EQ(values_of({0.5f}, 192000).length, 1);
  clip = values_of(std::vector<float>(20000, 0.0f), 44100, tests::kFlac16);
  EXPECT_EQ(clip.values, std::vector<float>(48000, 0.0f));
  for (const int rate : {1000, 7350, 11025, 37800, 44101, 47999, 88200, 176400, 655350})
    EXPECT_EQ(values_of(melody(rate / 10, rate), rate, rate % 10 == 0 ? tests::kFlac16 : tests::kWav16).length,
              resampled_length(rate / 10, rate, 48000))
        << rate;
  // Refused, with the reason.
  EXPECT_NE(complaint("").find("bytes=0"), std::string::npos);
  EXPECT_NE(complaint("hello there, I am text").find("68 65 6c 6c 6f"), std::string::npos);
  EXPECT_NE(complaint(encode_audio({}, 48000, tests::kWav16)).find("frames=0"), std::string::npos);
  EXPECT_NE(complaint(encode_audio({}, 48000, tests::kFlac16)).find("recording in sound "), std::string::npos);
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_NE(
      complaint(encode_audio(std::vector{0.f, 0.1f, nan, 0.2f}, 48000, tests::kWavFloat)).find("holds nan at frame 2"),
      std::string::npos);
  EXPECT_NE(complaint(encode_audio(std::vector{0.f, -infinity}, 48000, tests::kWavFloat)).find("holds -inf at frame 1"),
            std::string::npos);
  EXPECT_NE(
      complaint(encode_audio(std::vector<float>(500, 0.1f), 900, tests::kWav16)).find("sample_rate=900, expected 1000"),
      std::string::npos);
  EXPECT_NE(complaint(encode_audio(std::vector<float>(100 * 65, 0.1f), 8000, tests::kWav16, 65))
                .find("channels=65, expected 1 to 64"),
            std::string::npos);
}

TEST(Waveform, HourLongRecordingsAreDecodedInPart) {
  const int rate = 8000;
  const std::vector<float> minute = melody(int64_t{60} * rate, rate);
  std::vector<float> values;
  for (int i = 0; i < 60; ++i) values.insert(values.end(), minute.begin(), minute.end());
  for (const int format : {tests::kFlac16, tests::kWav16}) {
    const std::string bytes = encode_audio(values, rate, format);
    WaveformConfig config{.sample_rate = 16000, .clip_samples = 16000};
    const Clip clip = clip_of(bytes, config, 5);
    EXPECT_EQ(clip.length, int64_t{3600} * 16000);
    WaveformScratch scratch;
    std::vector<float> out(16000);
    read_waveform(std::as_bytes(std::span(bytes)), "sound", config, 5, out, scratch);
    EXPECT_EQ(out, clip.values);
    EXPECT_LT(scratch.mono.capacity(), 20000u);  // not the whole hour
    config.limits.max_seconds = 3599;
    EXPECT_THROW(clip_of(bytes, config), DataError);
  }
}

TEST(Waveform, RefusesImpossibleSettings) {
  EXPECT_THROW(check_waveform({.sample_rate = 0}), UsageError);
  EXPECT_THROW(check_waveform({.clip_samples = 0}), UsageError);
  EXPECT_NO_THROW(check_waveform({}));
  EXPECT_EQ(parse_audio_fill("repeat"), AudioFill::kRepeat);
  EXPECT_EQ(parse_audio_crop("trunc"), AudioCrop::kFront);
  EXPECT_THROW(parse_audio_fill("loop"), UsageError);
  EXPECT_THROW(parse_audio_crop("fusion"), UsageError);
}

}  // namespace
}  // namespace lockstep::data
