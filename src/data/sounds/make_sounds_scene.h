#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/rng.h"

namespace lockstep::data {

enum class SoundKind {
  kTone,
  kBuzz,
  kChord,
  kSweep,
  kSiren,
  kWarble,
  kPulse,
  kBell,
  kPluck,
  kClicks,
  kDrum,
  kMelody,
  kRumble,
  kHiss,
  kWind
};
enum class SoundCourse { kSteady, kFadesIn, kFadesOut };
enum class SoundGround { kSilence, kHiss, kHum };

/// One sound of the demo set, before it is computed.
struct SoundScene {
  int label = 0;
  SoundKind kind = SoundKind::kTone;
  bool is_rising = false;  ///< Sweeps and melodies.
  bool is_minor = false;   ///< Chords.
  double pitch_hz = 440;   ///< Of tones; the lowest note of chords and melodies; the middle of winds and sirens.
  double beats_per_s = 0;  ///< Of clicks, drums, pulses, warbles, sirens.
  double phase = 0;        ///< Radians; also shifts the first beat.
  SoundCourse course = SoundCourse::kSteady;
  SoundGround ground = SoundGround::kSilence;
  bool is_loud = true;
  double peak = 0.8;  ///< Largest absolute value, of 1.
  uint64_t noise_key = 0;
};

/// Names of the classes in the order of their labels, "bell strike" to "whistling wind", sorted.
const std::vector<std::string>& sound_class_names();

/// A sound of class `label`, every other property drawn from `rng`.
SoundScene draw_sound(int label, core::CounterRng& rng);

/// Two natural captions with varied wording, true of the sound and naming its class: one that says everything, one in
/// brief.
std::vector<std::string> describe_sound(const SoundScene& scene, core::CounterRng& rng);

/// "steady", "fading in", "fading out"; "silence", "a faint hiss", "a soft hum".
std::string_view course_name(SoundCourse course);
std::string_view ground_name(SoundGround ground);

/// Computes the sound at `sample_rate` Hz, at least 8000: all of out.
void render_sound(const SoundScene& scene, int64_t sample_rate, std::vector<float>& out);

}  // namespace lockstep::data
