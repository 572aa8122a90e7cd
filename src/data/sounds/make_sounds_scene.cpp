#include "data/sounds/make_sounds_scene.h"

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "core/error.h"

namespace lockstep::data {
namespace {

struct Range {
  double low = 0, high = 0;
};

struct SoundClass {
  std::string_view name;
  SoundKind kind;
  Range pitch_hz;     // drawn evenly in octaves
  Range beats_per_s;  // {0, 0}: none
  bool is_rising = false;
};

constexpr Range kLow{110, 220}, kMiddle{440, 830}, kHigh{1700, 3000};

// Sorted by name: the names come out in the order in which class folders are numbered. All take the article "a".
constexpr std::array<SoundClass, 24> kClasses{{{"bell strike", SoundKind::kBell, {600, 1100}, {}},
                                               {"deep rumble", SoundKind::kRumble, {60, 120}, {}},
                                               {"falling melody", SoundKind::kMelody, {500, 800}, {}, false},
                                               {"falling sweep", SoundKind::kSweep, {200, 300}, {}, false},
                                               {"fast clicking", SoundKind::kClicks, {2000, 3000}, {11, 16}},
                                               {"fast drum beat", SoundKind::kDrum, {55, 75}, {6.5, 9}},
                                               {"high buzz", SoundKind::kBuzz, kHigh, {}},
                                               {"high chord", SoundKind::kChord, {800, 1200}, {}},
                                               {"high tone", SoundKind::kTone, kHigh, {}},
                                               {"hiss", SoundKind::kHiss, {2200, 3200}, {}},
                                               {"low buzz", SoundKind::kBuzz, kLow, {}},
                                               {"low chord", SoundKind::kChord, {110, 200}, {}},
                                               {"low tone", SoundKind::kTone, kLow, {}},
                                               {"middle buzz", SoundKind::kBuzz, kMiddle, {}},
                                               {"middle tone", SoundKind::kTone, kMiddle, {}},
                                               {"plucked string", SoundKind::kPluck, {160, 320}, {}},
                                               {"pulsing tone", SoundKind::kPulse, {400, 900}, {5, 8}},
                                               {"rising melody", SoundKind::kMelody, {500, 800}, {}, true},
                                               {"rising sweep", SoundKind::kSweep, {200, 300}, {}, true},
                                               {"siren", SoundKind::kSiren, {700, 1000}, {1.4, 2.2}},
                                               {"slow clicking", SoundKind::kClicks, {2000, 3000}, {3, 4.5}},
                                               {"slow drum beat", SoundKind::kDrum, {55, 75}, {2.2, 3.2}},
                                               {"warbling tone", SoundKind::kWarble, {500, 1000}, {6, 9}},
                                               {"whistling wind", SoundKind::kWind, {700, 1300}, {}}}};

std::string_view choose(std::span<const std::string_view> words, core::CounterRng& rng) {
  return words[rng.below(words.size())];
}

bool draws_course(SoundKind kind) { return kind != SoundKind::kBell && kind != SoundKind::kPluck; }

/// "major " and the like, where the name of the class leaves something open.
std::string_view detail_words(const SoundScene& scene) {
  if (scene.kind != SoundKind::kChord) return "";
  return scene.is_minor ? "minor " : "major ";
}

std::string named(const SoundScene& scene) {
  const std::string_view name = kClasses[static_cast<size_t>(scene.label)].name;
  if (scene.kind != SoundKind::kChord) return std::string(name);
  const size_t space = name.find(' ');  // "high chord" -> "high minor chord"
  return fmt::format("{} {}{}", name.substr(0, space), detail_words(scene), name.substr(space + 1));
}

std::string course_words(SoundCourse course) {
  constexpr std::array<std::string_view, 3> kWords{"", " that fades in", " that fades out"};
  return std::string(kWords[static_cast<size_t>(course)]);
}

std::string full_caption(const SoundScene& scene, core::CounterRng& rng) {
  constexpr std::array<std::string_view, 4> kSubjects{"a recording of a", "the sound of a", "this is a", "a"};
  const std::string_view loudness = scene.is_loud ? "loud" : "quiet";
  const std::string name = named(scene), course = course_words(scene.course);
  const std::string_view ground = ground_name(scene.ground);
  switch (rng.below(4)) {
    case 0: return fmt::format("{} {} {}{}, over {}.", choose(kSubjects, rng), loudness, name, course, ground);
    case 1: return fmt::format("over {} one can hear a {} {}{}", ground, loudness, name, course);
    case 2:
      return fmt::format("{} {} {}, {}, with {} behind it", choose(kSubjects, rng), loudness, name,
                         course_name(scene.course), ground);
    default: return fmt::format("there is a {} {}{} and {} in the background.", loudness, name, course, ground);
  }
}

std::string short_caption(const SoundScene& scene, core::CounterRng& rng) {
  constexpr std::array<std::string_view, 5> kFrames{"the sound of a {}", "a recording of a {}.", "a {}",
                                                    "a {} can be heard.", "somewhere there is a {}"};
  const std::string_view loudness = rng.below(3) > 0 ? "" : scene.is_loud ? "loud " : "quiet ";
  return fmt::format(fmt::runtime(choose(kFrames, rng)), std::string(loudness) + named(scene));
}

}  // namespace

const std::vector<std::string>& sound_class_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const SoundClass& sound : kClasses) all.emplace_back(sound.name);
    return all;
  }();
  return names;
}

std::string_view course_name(SoundCourse course) {
  constexpr std::array<std::string_view, 3> kNames{"steady", "fading in", "fading out"};
  return kNames[static_cast<size_t>(course)];
}

std::string_view ground_name(SoundGround ground) {
  constexpr std::array<std::string_view, 3> kNames{"silence", "a faint hiss", "a soft hum"};
  return kNames[static_cast<size_t>(ground)];
}

SoundScene draw_sound(int label, core::CounterRng& rng) {
  LOCKSTEP_CHECK(label >= 0 && static_cast<size_t>(label) < kClasses.size(), "label={}", label);
  const SoundClass& sound = kClasses[static_cast<size_t>(label)];
  SoundScene scene{.label = label, .kind = sound.kind, .is_rising = sound.is_rising};
  scene.pitch_hz = std::exp2(rng.uniform(std::log2(sound.pitch_hz.low), std::log2(sound.pitch_hz.high)));
  scene.beats_per_s = rng.uniform(sound.beats_per_s.low, sound.beats_per_s.high);
  scene.phase = rng.uniform(0, 2 * std::numbers::pi);
  scene.is_minor = rng.below(2) == 1;
  // What dies away by itself neither fades in nor is steady.
  scene.course = draws_course(sound.kind) ? static_cast<SoundCourse>(rng.below(3)) : SoundCourse::kFadesOut;
  scene.ground = static_cast<SoundGround>(rng.below(3));
  scene.is_loud = rng.below(2) == 1;
  scene.peak = scene.is_loud ? rng.uniform(0.55, 0.9) : rng.uniform(0.06, 0.14);
  scene.noise_key = rng.next_u64();
  return scene;
}

std::vector<std::string> describe_sound(const SoundScene& scene, core::CounterRng& rng) {
  std::string full = full_caption(scene, rng);
  return {std::move(full), short_caption(scene, rng)};
}

}  // namespace lockstep::data
