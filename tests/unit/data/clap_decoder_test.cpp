// Audio shards, tables and class folders through source, decoder and loader.
#include "data/sounds/clap_decoder.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "data/loader.h"
#include "data/train_stream.h"
#include "unit/data/audio_bytes.h"
#include "unit/data/tar_bytes.h"

namespace lockstep::data {
namespace {

using core::Json;
using tests::TarBytes;

constexpr int64_t kClapRate = 8000, kClip = 800, kContext = 40;

/// The bytes of the text as ids, then 1.
void encode_letters(std::string_view text, std::span<int32_t> out) {
  std::fill(out.begin(), out.end(), 1);
  for (size_t i = 0; i < std::min(text.size(), out.size()); ++i) out[i] = static_cast<unsigned char>(text[i]);
}

std::string letters(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids)
    if (id != 1) text += static_cast<char>(id);
  return text;
}

/// The n-th recording: a ramp whose first value tells n, of n-dependent length.
std::vector<float> sound(int number) {
  std::vector<float> values(static_cast<size_t>(100 + number * 29 % 1500));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(number * 16 + static_cast<int>(i % 16)) / 32768;
  return values;
}

std::string audio_tar(int num, int first) {
  std::string bytes;
  for (int i = first; i < first + num; ++i) {
    const std::string key = fmt::format("{:05}", i);
    bytes += TarBytes::member(key + ".flac", tests::encode_audio(sound(i), kClapRate, tests::kFlac16));
    const Json texts = i % 3 == 0
                           ? Json::array({fmt::format("a {}", i), fmt::format("b {}", i), fmt::format("c {}", i)})
                           : Json(fmt::format("a {}", i));
    bytes += TarBytes::member(key + ".json", Json{{"text", texts}, {"tag", "x"}}.dump());
    bytes += TarBytes::member(key + ".cls", std::to_string(i % 7));
  }
  return bytes + TarBytes::end();
}

/// Four shards of 40 samples; the brace list.
std::string write_audio_shards(const std::filesystem::path& folder) {
  for (int i = 0; i < 4; ++i) tests::write_file(folder / fmt::format("{:03}.tar", i), audio_tar(40, 40 * i));
  return (folder / "{000..003}.tar").string();
}

SourceConfig audio_source(const std::string& spec) {
  SourceConfig config;
  config.spec = spec;
  config.seed = 3;
  config.global_batch = 8;
  config.need_image = false;
  config.need_audio = true;
  config.text_keys = {"json", "txt"};
  return config;
}

ClapDecoderConfig decoder_config(bool is_train = true) {
  return {.waveform = {.sample_rate = kClapRate, .clip_samples = kClip, .int16_round_trip = false},
          .is_train = is_train,
          .seed = 3};
}

LoaderConfig loader_config(int64_t micro_batch_size = 8) {
  return {.micro_batch_size = micro_batch_size, .clip_samples = kClip, .context_length = kContext, .num_workers = 3};
}

std::unique_ptr<Loader> open_train(const SourceConfig& config, LoaderConfig loader = loader_config()) {
  loader.micro_batch_size = config.global_batch / config.world_size;
  return std::make_unique<Loader>(open_train_source(config), make_clap_decoder(decoder_config(), encode_letters),
                                  loader);
}

/// Number of a sample by its first value; a crop keeps it readable (see sound()).
int number_of(const HostBatch& batch, int64_t at) {
  return static_cast<int>(batch.audio_BS[static_cast<size_t>(at * kClip)] * 32768) / 16;
}

std::string text_of(const HostBatch& batch, int64_t at) {
  return letters(std::span(batch.text_BT).subspan(static_cast<size_t>(at * kContext), kContext));
}

TEST(ClapDecoder, FillsAudioTextAndLengths) {
  core::TempDir folder;
  const auto loader = open_train(audio_source(write_audio_shards(folder.path())));
  std::map<std::string, std::set<std::string>> captions;
  std::set<int> numbers;
  for (int step = 0; step < 60; ++step) {  // three epochs of 20
    const HostBatch batch = loader->next();
    ASSERT_EQ(batch.num_samples, 8);
    ASSERT_EQ(batch.clip_samples, kClip);
    ASSERT_EQ(batch.image_pixels, 0);
    ASSERT_EQ(batch.audio_BS.size(), static_cast<size_t>(8 * kClip));
    ASSERT_EQ(batch.audio_samples_B.size(), 8u);
    ASSERT_TRUE(batch.label_B.empty());
    for (int64_t i = 0; i < 8; ++i) {
      const int number = number_of(batch, i);
      numbers.insert(number);
      EXPECT_EQ(batch.audio_samples_B[static_cast<size_t>(i)], static_cast<int64_t>(sound(number).size()));
      const std::string text = text_of(batch, i);
      EXPECT_EQ(text.substr(2), std::to_string(number));
      captions[text.substr(2)].insert(text);
    }
  }
  EXPECT_EQ(numbers.size(), 160u);
  EXPECT_EQ(captions["1"].size(), 1u);
  size_t most = 0;
  for (const auto& [number, seen] : captions) most = std::max(most, seen.size());
  EXPECT_EQ(most, 3u);  // all three captions of a list get their turn
}

TEST(ClapDecoder, ContinuesExactlyAndOnAnyWorldSize) {
  core::TempDir folder;
  SourceConfig config = audio_source(write_audio_shards(folder.path()));
  config.index = IndexUse::kAuto;
  ASSERT_TRUE(prepare_index(config, 1));
  const auto whole = open_train(config);
  std::vector<HostBatch> batches;
  Json position;
  for (int step = 0; step < 33; ++step) {
    batches.push_back(whole->next());
    if (step == 12) position = whole->position();
  }
  const auto resumed = open_train(config);
  resumed->seek(position);
  for (size_t step = 13; step < 33; ++step) {
    const HostBatch batch = resumed->next();
    ASSERT_EQ(batch.audio_BS, batches[step].audio_BS) << step;
    ASSERT_EQ(batch.text_BT, batches[step].text_BT) << step;
    ASSERT_EQ(batch.audio_samples_B, batches[step].audio_samples_B) << step;
  }
  config.world_size = 2;
  for (int64_t rank = 0; rank < 2; ++rank) {
    config.rank = rank;
    const auto half = open_train(config);
    half->seek(position);
    for (size_t step = 13; step < 20; ++step) {
      const HostBatch batch = half->next();
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t at = 2 * i + rank;
        EXPECT_EQ(text_of(batch, i), text_of(batches[step], at));
        EXPECT_TRUE(std::equal(batch.audio_BS.begin() + i * kClip, batch.audio_BS.begin() + (i + 1) * kClip,
                               batches[step].audio_BS.begin() + at * kClip));
      }
    }
  }
}

/// A shard of 32 samples of which some are bad: too short a FLAC, no JSON, a caption that is a number.
std::string write_spoilt_shard(const std::filesystem::path& folder) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) {
    const std::string key = fmt::format("{:05}", i);
    std::string flac = tests::encode_audio(sound(i), kClapRate, tests::kFlac16),
                caption_json = Json{{"text", fmt::format("a {}", i)}}.dump();
    if (i == 5) flac.resize(flac.size() / 2);
    if (i == 9) caption_json = "{\"text\": ";
    if (i == 20) caption_json = R"({"text": [17]})";
    if (i == 21) flac = "not a sound at all";
    bytes += TarBytes::member(key + ".flac", flac) + TarBytes::member(key + ".json", caption_json);
  }
  return tests::write_file(folder / "spoilt.tar", bytes + TarBytes::end());
}

TEST(ClapDecoder, BadSamplesStopTheRunOrAreReplacedAndCounted) {
  core::TempDir folder;
  SourceConfig config = audio_source(write_spoilt_shard(folder.path()));
  config.num_samples = 32;
  config.num_lanes = 1;
  const auto strict = open_train(config);
  try {
    for (int step = 0; step < 4; ++step) strict->next();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("spoilt.tar' offset="), std::string::npos) << error.what();
  }
  LoaderConfig skip = loader_config();
  skip.on_bad_sample = OnBadSample::kSkip;
  const auto tolerant = open_train(config, skip);
  for (int step = 0; step < 4; ++step) {
    const HostBatch batch = tolerant->next();
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(text_of(batch, i).substr(2), std::to_string(number_of(batch, i)));
  }
  EXPECT_EQ(tolerant->num_bad_samples(), 4);
  std::set<std::string> keys;
  for (const BadSample& bad : tolerant->bad_samples()) keys.insert(bad.key);
  EXPECT_EQ(keys, (std::set<std::string>{"00005", "00009", "00020", "00021"}));
}

TEST(ClapDecoder, CaptionsOfEveryForm) {
  const auto decoder = make_clap_decoder(decoder_config(false), encode_letters);
  const auto caption = [&](const std::string& extension, const std::string& bytes) -> std::string {
    RawSample sample;
    sample.shard = "s.tar";
    sample.members = {{extension, bytes}};
    std::vector<int32_t> ids(kContext, 0);
    SampleSlot slot{.image_YXC = {}, .audio_S = {}, .text_T = ids};
    try {
      decoder(sample, slot);
    } catch (const DataError& error) {
      return std::string("!") + error.what();
    }
    return letters(ids);
  };
  EXPECT_EQ(caption("txt", "rain"), "rain");
  EXPECT_EQ(caption("txt", R"({"text": "x"})"), R"({"text": "x"})");  // a .txt is text, whatever it looks like
  EXPECT_EQ(caption("json", R"({"text": "rain"})"), "rain");
  EXPECT_EQ(caption("json", R"({"caption": "rain"})"), "rain");
  EXPECT_EQ(caption("json", R"({"caption": "x", "text": "rain"})"), "rain");
  EXPECT_EQ(caption("json", R"({"text": ["rain", "hail"]})"), "rain");  // evaluation: the first
  for (const char* bad :
       {"", "{", "[]", "3", "{}", R"({"title": "x"})", R"({"text": 3})", R"({"text": []})", R"({"text": [null]})"})
    EXPECT_NE(caption("json", bad).find("s.tar"), std::string::npos) << bad;
  EXPECT_NE(caption("json", R"({"title": "x"})").find("it has only [title]"), std::string::npos);
  std::string many = "{\"text\": \"rain\"";
  for (int i = 0; i < 150'000; ++i) many += fmt::format(",\"k{}\":{}", i, i);
  EXPECT_EQ(caption("json", many + "}"), "rain");  // 35 s where each key is compared with all before it
  EXPECT_NE(caption("json", std::string(1'000'000, '[')).find("no valid JSON"), std::string::npos);
  EXPECT_NE(caption("json", std::string((16 << 20) + 1, ' ')).find("expected at most"), std::string::npos);
  EXPECT_EQ(caption("txt", " rain\n"), " rain\n");  // as it stands
  EXPECT_EQ(caption("txt", "\xe9\x9b\xa8"), "\xe9\x9b\xa8");
  for (const char* empty : {"", " \t\r\n", "\xe3\x80\x80", "\x01"})
    EXPECT_NE(caption("txt", empty).find("data: shard 's.tar' offset=0 key='': the caption in its .txt is empty"),
              std::string::npos)
        << caption("txt", empty);
  EXPECT_NE(caption("json", R"({"text": ["  ", "rain"]})").find("the caption in its .json is empty"),
            std::string::npos);
  for (const char* later : {R"({"text": ["rain", ""]})", R"({"text": ["rain", 3]})"})
    EXPECT_NE(caption("json", later).find("number 1 of \"text\""), std::string::npos)
        << "whether it is met must not hang on what is drawn: " << caption("json", later);
  EXPECT_EQ(caption("json", R"({"a": NaN, "b": [-Infinity, Infinity], "text": "a \"NaN\" or Infinity"})"),
            "a \"NaN\" or Infinity")
      << "as Python writes and reads it";
  EXPECT_NE(caption("json", R"({"text": NaN})").find("number, expected a string"), std::string::npos);
  EXPECT_NE(caption("json", R"({"a": NaN, "text": "x"]})").find("no valid JSON"), std::string::npos);
  EXPECT_NE(caption("txt", std::string("\xff\xfe\x00\x01", 4)).find("no UTF-8 text: byte 0xff at offset 0 of 4"),
            std::string::npos);
  const std::string named = caption("json", "[]");  // the place and the module once
  EXPECT_EQ(named.find("s.tar"), named.rfind("s.tar")) << named;
  EXPECT_EQ(named.find("data:"), named.rfind("data:")) << named;
  EXPECT_NE(caption("xml", "x").find("no caption"), std::string::npos);
}

TEST(ClapDecoder, ErrorsNameThePlaceOnceAndTheFlagsOfSounds) {
  core::TempDir folder;
  const auto decoder = make_clap_decoder(decoder_config(false), encode_letters);
  RawSample sample;
  sample.key = "k";
  sample.shard = "s.tar";
  sample.members = {{"flac", "no sound"}};
  std::vector<float> values(kClip);
  SampleSlot slot{.image_YXC = {}, .audio_S = values, .text_T = {}};
  const auto error_of = [](auto&& run) {
    try {
      run();
    } catch (const DataError& error) {
      return error.text();
    }
    return std::string("no error");
  };
  const std::string damaged = error_of([&] { decoder(sample, slot); });
  EXPECT_EQ(damaged.find("data: recording in shard 's.tar' offset=0 key='k' is no FLAC"), 0u) << damaged;
  EXPECT_EQ(damaged.find("s.tar"), damaged.rfind("s.tar")) << damaged;
  sample.members[0].extension = "xyz";
  const std::string missing = error_of([&] { decoder(sample, slot); });
  EXPECT_NE(missing.find("name the members with --audio-ext"), std::string::npos) << missing;

  SourceConfig config = audio_source(tests::write_file(
      folder.path() / "none.tar", TarBytes::member("a.jpg", "x") + TarBytes::member("a.txt", "x") + TarBytes::end()));
  config.global_batch = 1;
  const std::string plain = error_of([&] { open_train_source(config)->next(); });
  EXPECT_NE(plain.find("name their members with --audio-ext and --text-key"), std::string::npos) << plain;
  ASSERT_TRUE(prepare_index(config, 1));
  const std::string indexed = error_of([&] { open_train_source(config)->next(); });
  EXPECT_NE(indexed.find("name their members with --audio-ext and --text-key"), std::string::npos) << indexed;
}

TEST(ClapDecoder, DamagedJsonNeverCrashes) {
  const auto decoder = make_clap_decoder(decoder_config(), encode_letters);
  const std::string whole =
      R"({"text": ["rain on a roof", "hail"], "tag": {"a": [1, 2.5e3, null, true]}, "name": "x\u00e9\n"})";
  int num_read = 0, num_refused = 0;
  const auto try_one = [&](const std::string& bytes) {
    RawSample sample;
    sample.members = {{"json", bytes}};
    std::vector<int32_t> ids(kContext, 0);
    SampleSlot slot{.image_YXC = {}, .audio_S = {}, .text_T = ids};
    try {
      decoder(sample, slot);
      ++num_read;
    } catch (const DataError&) {
      ++num_refused;
    }
  };
  core::CounterRng rng(5);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (uint64_t k = rng.below(4) + 1; k > 0; --k) {
      const uint64_t at = rng.below(bytes.size());
      if (i % 3 == 0)
        bytes.erase(at, 1 + rng.below(5));
      else
        bytes[at] = static_cast<char>(rng.below(256));
    }
    try_one(bytes);
  }
  EXPECT_GT(num_read, 100);
  EXPECT_GT(num_refused, 1000);
  for (const char* open : {"[", "{\"text\":"}) {  // nested a hundred thousand deep
    std::string bytes;
    for (int i = 0; i < 100'000; ++i) bytes += open;
    try_one(bytes);
  }
  try_one(std::string("{\"text\":") + std::string(100'000, '[') + std::string(100'000, ']') + "}");
}

TEST(ClapDecoder, AConstantCaptionNeedsNoVocabulary) {
  const auto decoder = make_clap_decoder(decoder_config(), make_constant_encoder({0, 7, 2}, 1));
  RawSample sample;
  sample.members = {{"txt", "Dummy caption"}};
  std::vector<int32_t> ids(5, 0);
  SampleSlot slot{.image_YXC = {}, .audio_S = {}, .text_T = ids};
  decoder(sample, slot);
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 7, 2, 1, 1}));
}

TEST(ClapDecoder, SyntheticAudioIsNoiseThatDiffers) {
  SourceConfig config = audio_source("");
  config.type = parse_dataset_type("synthetic-audio");
  config.num_samples = 64;
  EXPECT_EQ(epoch_size(config).num_batches, 8);
  const auto loader = open_train(config), again = open_train(config);
  std::set<std::vector<float>> clips;
  double sum = 0, squares = 0;
  for (int step = 0; step < 8; ++step) {
    const HostBatch batch = loader->next();
    EXPECT_EQ(batch.audio_BS, again->next().audio_BS);
    for (int64_t i = 0; i < 8; ++i) {
      const auto begin = batch.audio_BS.begin() + i * kClip;
      clips.insert(std::vector<float>(begin, begin + kClip));
      EXPECT_EQ(text_of(batch, i), "Dummy caption");
      EXPECT_EQ(batch.audio_samples_B[static_cast<size_t>(i)], kClip);
    }
    for (const float value : batch.audio_BS) {
      sum += value;
      squares += value * value;
    }
  }
  EXPECT_EQ(clips.size(), 64u);
  const double count = 64 * kClip;
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.03);
  config.num_samples = 0;
  EXPECT_THROW(epoch_size(config), UsageError);
}

/// All labels that come out of an evaluation source, by key.
std::map<std::string, int64_t> labels_of(const SourceConfig& config) {
  Loader loader(open_eval_source(config), make_clap_decoder(decoder_config(false), encode_letters),
                {.micro_batch_size = 8,
                 .clip_samples = kClip,
                 .context_length = config.need_text ? kContext : 0,
                 .num_workers = 2});
  std::map<std::string, int64_t> labels;
  for (HostBatch batch = loader.next(); batch.num_samples > 0; batch = loader.next()) {
    EXPECT_EQ(batch.label_B.size(), static_cast<size_t>(batch.num_samples));
    EXPECT_EQ(batch.audio_BS.size(), static_cast<size_t>(batch.num_samples * kClip));
    for (size_t i = 0; i < batch.keys.size(); ++i) labels[batch.keys[i]] = batch.label_B.at(i);
  }
  return labels;
}

TEST(ClapEvaluation, ShardsTablesAndFoldersCarryClasses) {
  core::TempDir folder;
  SourceConfig config = audio_source(write_audio_shards(folder.path()));
  config.need_text = false;
  config.need_label = true;
  auto labels = labels_of(config);
  ASSERT_EQ(labels.size(), 160u);
  for (const auto& [key, label] : labels) EXPECT_EQ(label, std::stoi(key.substr(key.rfind(':') + 1)) % 7);

  const std::filesystem::path classes = folder.path() / "classes";
  std::string table = "filename,target,category\n";
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("class{}/{}.{}", i % 3, i, i == 5 ? "opus" : "wav");
    std::filesystem::create_directories(classes / fmt::format("class{}", i % 3));
    tests::write_file(classes / name, tests::encode_audio(sound(i), kClapRate, i == 5 ? tests::kOpus : tests::kWav16));
    table += fmt::format("{},{},word\n", name, i % 3);
  }
  config.spec = classes.string();
  labels = labels_of(config);
  ASSERT_EQ(labels.size(), 12u);
  EXPECT_EQ(labels.at((classes / "class2/5.opus").string()), 2);

  config.spec = tests::write_file(classes / "esc50.csv", table);
  config.csv_separator = ",";
  config.csv_image_key = "filename";
  config.csv_label_key = "target";
  EXPECT_EQ(labels_of(config), labels);
  tests::write_file(classes / "esc50.csv", "filename,target\nclass0/0.wav,rain\n");
  EXPECT_THROW(labels_of(config), DataError);

  config.spec = classes.string();  // a folder of sounds is no folder of pictures
  config.need_audio = false;
  EXPECT_THROW(open_eval_source(config), DataError);
}

TEST(ClapEvaluation, PairsComeOnceOverAllRanks) {
  core::TempDir folder;
  SourceConfig config = audio_source(write_audio_shards(folder.path()));
  config.world_size = 3;
  std::set<int> numbers;
  int64_t total = 0;
  for (config.rank = 0; config.rank < 3; ++config.rank) {
    Loader loader(open_eval_source(config), make_clap_decoder(decoder_config(false), encode_letters), loader_config(7));
    for (HostBatch batch = loader.next(); batch.num_samples > 0; batch = loader.next()) {
      ASSERT_EQ(batch.audio_samples_B.size(), static_cast<size_t>(batch.num_samples));
      for (int64_t i = 0; i < batch.num_samples; ++i) numbers.insert(number_of(batch, i));
      total += batch.num_samples;
    }
  }
  EXPECT_EQ(total, 160);
  EXPECT_EQ(numbers.size(), 160u);
}

}  // namespace
}  // namespace lockstep::data
