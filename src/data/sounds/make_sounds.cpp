#include "data/sounds/make_sounds.h"

#include <cmath>

#include "core/error.h"
#include "core/files.h"
#include "data/sounds/audio_encode.h"
#include "data/sounds/make_sounds_scene.h"
#include "data/text/bpe_model.h"
#include "data/text/bpe_trainer.h"

namespace lockstep::data {
namespace {

constexpr const char* kTemplates = "the sound of a {}.\na recording of a {}.\na {} can be heard.\na {}.\n";
constexpr const char* kTokenizerFolder = "tokenizer";
constexpr int64_t kMaxCaptions = 20000;  // of which the tokenizer learns; more find no other merges

/// Scene and captions of one sample; the same draws whether or not it is computed afterwards.
struct Described {
  SoundScene scene;
  std::vector<std::string> captions;
};

Described describe(const DemoSet& set, const DemoClassOrder& order, DemoSplit split, int64_t index) {
  core::CounterRng rng(demo_sample_key(set, split, index));
  Described sound{.scene = draw_sound(static_cast<int>(order.label(split, index)), rng), .captions = {}};
  sound.captions = describe_sound(sound.scene, rng);
  return sound;
}

core::Json sample_json(const Described& sound) {
  const SoundScene& scene = sound.scene;
  return {{"text", sound.captions},
          {"class", sound_class_names()[static_cast<size_t>(scene.label)]},
          {"label", scene.label},
          {"pitch_hz", scene.pitch_hz},
          {"loudness", scene.is_loud ? "loud" : "quiet"},
          {"course", course_name(scene.course)},
          {"ground", ground_name(scene.ground)}};
}

/// Trains on the captions and writes the tokenizer's files; an earlier one is replaced.
void write_tokenizer(const DemoSet& set, int64_t vocab_size) {
  const DemoClassOrder order(set, set.class_names.size());
  WordCounter words(kGpt2Pattern);
  for (int64_t i = 0; i < std::min(set.options.num_train, kMaxCaptions); ++i)
    for (const std::string& caption : describe(set, order, DemoSplit::kTrain, i).captions) words.add(caption);
  const TrainedBpe trained = train_bpe(
      words.counts(), {.vocab_size = vocab_size, .special_tokens = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}});
  const std::filesystem::path folder = set.options.output / kTokenizerFolder;
  std::filesystem::create_directories(folder);
  write_trained_bpe(trained, kGpt2Pattern, folder);
}

DemoSet plan_set(const MakeSoundsConfig& config) {
  return {
      .kind = "sounds",
      .options = config.set,
      .settings = {{"sample_rate", config.sample_rate}, {"seconds", config.seconds}, {"vocab_size", config.vocab_size}},
      .class_names = sound_class_names(),
      .templates = kTemplates};
}

void check_sounds(const DemoSet& set, const MakeSoundsConfig& config) {
  check_demo_setting(set, "the sample rate in Hz", config.sample_rate, 8000, 192'000);
  if (!(config.seconds >= 0.25 && config.seconds <= 60))
    throw UsageError(
        fmt::format("data: make-sounds: the length in seconds is {}, expected 0.25 to 60", config.seconds));
  check_demo_setting(set, "the number of tokens", config.vocab_size, 300, 50'000);
}

}  // namespace

core::Json to_json(const MakeSoundsResult& result) {
  core::Json json = to_json(result.set);
  json.update({{"tokenizer", result.tokenizer.string()},
               {"vocab_size", result.vocab_size},
               {"sample_rate", result.sample_rate},
               {"clip_samples", result.clip_samples}});
  return json;
}

MakeSoundsResult make_sounds(const MakeSoundsConfig& config) {
  DemoSet set = plan_set(config);
  check_sounds(set, config);
  const int64_t clip_samples = std::llround(config.seconds * static_cast<double>(config.sample_rate));
  set.open_maker = [&set, order = DemoClassOrder(set, set.class_names.size()), rate = config.sample_rate,
                    clip_samples] {
    return [&set, order, rate, values = std::vector<float>(static_cast<size_t>(clip_samples))](DemoSplit split,
                                                                                               int64_t index) mutable {
      const Described sound = describe(set, order, split, index);
      render_sound(sound.scene, rate, values);
      return DemoSample{.label = sound.scene.label,
                        .members = {{"flac", encode_flac(values, rate)},
                                    {"json", sample_json(sound).dump()},
                                    {"cls", fmt::to_string(sound.scene.label)}}};
    };
  };
  set.write_more = [&] { write_tokenizer(set, config.vocab_size); };
  MakeSoundsResult result{.set = make_demo_set(set),
                          .tokenizer = config.set.output / kTokenizerFolder,
                          .sample_rate = config.sample_rate,
                          .clip_samples = clip_samples};
  result.vocab_size = static_cast<int64_t>(core::read_json_file(result.tokenizer / "vocab.json").size());
  return result;
}

}  // namespace lockstep::data
