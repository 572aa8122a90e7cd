// The demo set of sounds: its files, that captions are true of the sounds, that its own tokenizer and loader read it.
#include "data/sounds/make_sounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "data/loader.h"
#include "data/sounds/clap_decoder.h"
#include "data/sounds/make_sounds_scene.h"
#include "data/text/roberta_tokenizer.h"
#include "data/train_stream.h"
#include "unit/data/read_tree.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using tests::read_tree;

MakeSoundsConfig small_sounds(const fs::path& output) {
  return {.set = {.output = output, .num_train = 100, .num_val = 48, .samples_per_shard = 40, .seed = 3},
          .sample_rate = 8000,
          .seconds = 0.5};
}

SourceConfig source_of(const std::string& spec) {
  SourceConfig config;
  config.spec = spec;
  config.global_batch = 4;
  config.need_image = false;
  config.need_audio = true;
  config.text_keys = {"json"};
  return config;
}

TEST(MakeSounds, LoaderAndTokenizerReadWhatItWrites) {
  const core::TempDir dir;
  const MakeSoundsResult made = make_sounds(small_sounds(dir.path() / "new" / "set"));
  EXPECT_FALSE(made.set.was_there);
  EXPECT_EQ(made.set.num_classes, 24);
  EXPECT_EQ(made.set.num_train_shards, 3);
  EXPECT_EQ(made.set.num_val_shards, 2);
  EXPECT_EQ(made.clip_samples, 4000);
  const auto tokenizer = std::make_shared<const RobertaTokenizer>(made.tokenizer);
  EXPECT_EQ(tokenizer->vocab_size(), made.vocab_size);
  EXPECT_EQ(tokenizer->padding_id(), 1);
  const ClapDecoderConfig decoder{.waveform = {.sample_rate = 8000, .clip_samples = 4000}, .is_train = false};
  const auto encoder = [tokenizer](std::string_view text, std::span<int32_t> out) { tokenizer->encode(text, out); };

  SourceConfig config = source_of(made.set.val_shards);
  config.need_label = true;
  Loader loader(open_eval_source(config), make_clap_decoder(decoder, encoder),
                {.micro_batch_size = 4, .clip_samples = 4000, .context_length = 77, .num_workers = 2});
  std::map<int64_t, int> per_class;
  std::set<std::string> captions;
  for (HostBatch batch = loader.next(); batch.num_samples > 0; batch = loader.next()) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(batch.audio_samples_B[i], 4000);
      const auto values = std::span(batch.audio_BS).subspan(4000 * i, 4000);
      EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.04f);
      const std::string caption = tokenizer->decode(std::span(batch.text_BT).subspan(77 * i, 77));
      const std::string& name = sound_class_names().at(static_cast<size_t>(batch.label_B[i]));
      EXPECT_NE(caption.find(name.substr(name.rfind(' ') + 1)), std::string::npos) << caption;
      captions.insert(caption);
      ++per_class[batch.label_B[i]];
    }
  }
  EXPECT_EQ(per_class.size(), 24u);
  for (const auto& [label, count] : per_class) EXPECT_EQ(count, 2) << label;
  EXPECT_GT(captions.size(), 40u);

  config.spec = made.set.heldout.string();
  config.need_text = false;
  Loader heldout(open_eval_source(config), make_clap_decoder(decoder, encoder),
                 {.micro_batch_size = 48, .clip_samples = 4000, .num_workers = 2});
  const HostBatch all = heldout.next();
  ASSERT_EQ(all.num_samples, 48);
  for (size_t i = 0; i < 48; ++i) {
    const std::string folder = fs::path(all.keys[i]).parent_path().filename().string();
    EXPECT_EQ(core::replace_all(folder, "_", " "), sound_class_names()[static_cast<size_t>(all.label_B[i])]);
  }
  EXPECT_EQ(core::read_file(made.set.class_names), core::join(sound_class_names(), "\n") + "\n");
}

TEST(MakeSounds, BytesDependOnTheSeedAndNotOnThreads) {
  const core::TempDir dir;
  MakeSoundsConfig config = small_sounds(dir.path() / "one");
  config.set.num_workers = 1;
  make_sounds(config);
  config.set.output = dir.path() / "many";
  config.set.num_workers = 5;
  make_sounds(config);
  const auto one = read_tree(dir.path() / "one");
  EXPECT_EQ(one.size(), 5u + 48u + 4u + 3u);
  EXPECT_TRUE(one == read_tree(dir.path() / "many"));
  const auto before = fs::last_write_time(dir.path() / "many" / "train-000000.tar");
  EXPECT_TRUE(make_sounds(config).set.was_there);
  EXPECT_EQ(fs::last_write_time(dir.path() / "many" / "train-000000.tar"), before);
  config.seconds = 0.75;
  EXPECT_THROW(make_sounds(config), UsageError);  // another set lies there
  config.set.output = dir.path() / "other";
  config.seconds = 0.5;
  config.set.seed = 4;
  make_sounds(config);
  EXPECT_NE(core::read_file(dir.path() / "other" / "train-000000.tar"), one.at("train-000000.tar"));
}

TEST(MakeSounds, RefusesWhatCannotBe) {
  const core::TempDir dir;
  const auto refused = [&](auto change) {
    MakeSoundsConfig config = small_sounds(dir.path() / "set");
    change(config);
    EXPECT_THROW(make_sounds(config), UsageError);
  };
  refused([](auto& config) { config.set.output.clear(); });
  refused([](auto& config) { config.sample_rate = 7999; });
  refused([](auto& config) { config.seconds = 0.2; });
  refused([](auto& config) { config.seconds = std::nan(""); });
  refused([](auto& config) { config.set.num_val = 23; });
  refused([](auto& config) { config.vocab_size = 200; });
  refused([](auto& config) { config.set.num_workers = 0; });
  fs::create_directories(dir.path() / "set");
  std::ofstream(dir.path() / "set" / "mine.txt") << "keep";
  refused([](auto&) {});
  EXPECT_TRUE(fs::exists(dir.path() / "set" / "mine.txt"));
}

constexpr int64_t kRate = 16000;

/// A sound of the named class, one second long, loud, steady and without anything behind it.
std::vector<float> sound_of(const std::string& name, uint64_t seed) {
  const auto& names = sound_class_names();
  const auto at = std::find(names.begin(), names.end(), name);
  EXPECT_NE(at, names.end()) << name;
  core::CounterRng rng(seed);
  SoundScene scene = draw_sound(static_cast<int>(at - names.begin()), rng);
  scene.course = SoundCourse::kSteady;
  scene.ground = SoundGround::kSilence;
  std::vector<float> out(kRate);
  render_sound(scene, kRate, out);
  return out;
}

/// Sign changes per second over 2: the frequency of a plain tone.
double crossings(std::span<const float> values) {
  int64_t count = 0;
  for (size_t i = 1; i < values.size(); ++i) count += (values[i] > 0) != (values[i - 1] > 0);
  return static_cast<double>(count) / 2 * kRate / static_cast<double>(values.size());
}

/// How often the level rises above a third of its peak after it was below a tenth.
int num_beats(std::span<const float> values) {
  float level = 0, peak = 0;
  for (const float value : values) peak = std::max(peak, std::abs(value));
  int beats = 0;
  bool is_low = true;
  for (const float value : values) {
    level = std::max(std::abs(value), level * 0.995f);
    if (is_low && level > peak / 3) ++beats;
    if (level > peak / 3) is_low = false;
    if (level < peak / 10) is_low = true;
  }
  return beats;
}

TEST(SoundScene, NamesAreTrueOfTheSounds) {
  EXPECT_TRUE(std::is_sorted(sound_class_names().begin(), sound_class_names().end()));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_NEAR(crossings(sound_of("low tone", seed)), 165, 60);
    EXPECT_NEAR(crossings(sound_of("middle tone", seed)), 635, 200);
    EXPECT_NEAR(crossings(sound_of("high tone", seed)), 2350, 670);
    EXPECT_GT(crossings(sound_of("hiss", seed)), 3000);
    EXPECT_LT(crossings(sound_of("deep rumble", seed)), 600);
    for (const char* kind : {"sweep", "melody"}) {
      const auto rising = sound_of(std::string("rising ") + kind, seed),
                 falling = sound_of(std::string("falling ") + kind, seed);
      const auto early = [](const std::vector<float>& values) { return crossings(std::span(values).first(kRate / 5)); };
      const auto late = [](const std::vector<float>& values) { return crossings(std::span(values).last(kRate / 5)); };
      EXPECT_GT(late(rising), 1.5 * early(rising)) << kind << seed;
      EXPECT_GT(early(falling), 1.5 * late(falling)) << kind << seed;
    }
    const int slow = num_beats(sound_of("slow clicking", seed)), fast = num_beats(sound_of("fast clicking", seed));
    EXPECT_TRUE(slow >= 2 && slow <= 5) << slow;
    EXPECT_TRUE(fast >= 9 && fast <= 17) << fast;
  }
}

TEST(SoundScene, CoursesAndCaptionsAgree) {
  const auto energy = [](std::span<const float> values) {
    return std::accumulate(values.begin(), values.end(), 0.0,
                           [](double sum, float value) { return sum + value * value; });
  };
  std::set<std::string> captions;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    core::CounterRng rng(seed);
    const SoundScene scene = draw_sound(static_cast<int>(seed % 24), rng);
    std::vector<float> out(kRate);
    render_sound(scene, kRate, out);
    float peak = 0;
    for (const float value : out) peak = std::max(peak, std::abs(value));
    EXPECT_TRUE(scene.is_loud ? peak > 0.5f : peak < 0.17f) << peak;
    EXPECT_LT(peak, 1.0f);
    const double first = energy(std::span(out).first(kRate / 2)), last = energy(std::span(out).last(kRate / 2));
    if (scene.kind == SoundKind::kTone || scene.kind == SoundKind::kChord) {
      if (scene.course == SoundCourse::kFadesIn) {
        EXPECT_GT(last, 2 * first);
      }
      if (scene.course == SoundCourse::kFadesOut) {
        EXPECT_GT(first, 2 * last);
      }
    }
    for (const std::string& caption : describe_sound(scene, rng)) captions.insert(caption);
    const std::string full = describe_sound(scene, rng).front();
    EXPECT_NE(full.find(scene.is_loud ? "loud" : "quiet"), std::string::npos) << full;
    EXPECT_NE(full.find(ground_name(scene.ground)), std::string::npos) << full;
    if (scene.course != SoundCourse::kSteady) {
      EXPECT_NE(full.find(scene.course == SoundCourse::kFadesIn ? " in" : " out"), std::string::npos) << full;
    }
  }
  EXPECT_GT(captions.size(), 350u);
}

}  // namespace
}  // namespace lockstep::data
