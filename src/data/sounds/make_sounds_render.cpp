#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "core/error.h"
#include "data/sounds/make_sounds_scene.h"

namespace lockstep::data {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kGroundPeak = 0.015;  // of the hiss or hum behind the sound: faint, but far above the step of 16 bits

/// A sine whose frequency may change from value to value.
class Oscillator {
 public:
  Oscillator(double rate, double phase) : turn_per_value_(kTurn / rate), phase_(phase) {}
  double next(double hz) {
    const double value = std::sin(phase_);
    phase_ += hz * turn_per_value_;
    if (phase_ > kTurn) phase_ -= kTurn;
    return value;
  }

 private:
  double turn_per_value_, phase_;
};

/// White noise through a one-pole low pass; what is left of the white noise is the high part.
class NoiseFilter {
 public:
  NoiseFilter(uint64_t key, double rate, double cutoff_hz)
      : rng_(key), share_(1 - std::exp(-kTurn * cutoff_hz / rate)) {}
  struct Parts {
    double low, high;
  };
  Parts next() {
    const double white = rng_.uniform(-1, 1);
    low_ += share_ * (white - low_);
    return {low_, white - low_};
  }

 private:
  core::CounterRng rng_;
  double share_, low_ = 0;
};

/// Seconds since the last beat; beats begin a little after the start, by the scene's phase.
double since_beat(const SoundScene& scene, double t) {
  const double beats = t * scene.beats_per_s + scene.phase / kTurn;
  return (beats - std::floor(beats)) / scene.beats_per_s;
}

/// Partials of given ratios and weights at one pitch.
void add_partials(const SoundScene& scene, double rate, double pitch_hz, std::span<const double> ratios,
                  std::span<const double> weights, std::span<float> out) {
  for (size_t k = 0; k < ratios.size(); ++k) {
    const double hz = pitch_hz * ratios[k];
    if (hz > 0.45 * rate) continue;
    Oscillator tone(rate, scene.phase * static_cast<double>(k + 1));
    for (float& value : out) value += static_cast<float>(weights[k] * tone.next(hz));
  }
}

void render_buzz(const SoundScene& scene, double rate, std::span<float> out) {
  constexpr size_t kPartials = 24;
  std::array<double, kPartials> ratios{}, weights{};
  for (size_t k = 0; k < kPartials; ++k) {
    ratios[k] = static_cast<double>(k + 1);
    weights[k] = 1.0 / static_cast<double>(k + 1);
  }
  add_partials(scene, rate, scene.pitch_hz, ratios, weights, out);
}

void render_chord(const SoundScene& scene, double rate, std::span<float> out) {
  const double third = scene.is_minor ? 6.0 / 5 : 5.0 / 4;
  const std::array<double, 6> ratios{1, third, 1.5, 2, 2 * third, 3}, weights{1, 1, 1, 0.3, 0.3, 0.3};
  add_partials(scene, rate, scene.pitch_hz, ratios, weights, out);
}

/// Sounds whose pitch moves: sweep, siren, warble.
void render_glide(const SoundScene& scene, double rate, std::span<float> out) {
  constexpr double kSweepOctaves = 3.5;
  Oscillator tone(rate, scene.phase);
  for (size_t i = 0; i < out.size(); ++i) {
    const double t = static_cast<double>(i) / rate, share = static_cast<double>(i) / static_cast<double>(out.size());
    const double swing = std::sin(kTurn * scene.beats_per_s * t + scene.phase);
    const double octaves = scene.kind == SoundKind::kSweep ? kSweepOctaves * (scene.is_rising ? share : 1 - share)
                                                           : swing * (scene.kind == SoundKind::kSiren ? 0.7 : 0.09);
    out[i] = static_cast<float>(tone.next(scene.pitch_hz * std::exp2(octaves)));
  }
}

void render_pulse(const SoundScene& scene, double rate, std::span<float> out) {
  Oscillator tone(rate, 0);
  for (size_t i = 0; i < out.size(); ++i) {
    const double beat = std::sin(kTurn * scene.beats_per_s * static_cast<double>(i) / rate + scene.phase);
    out[i] = static_cast<float>((0.5 + 0.5 * beat) * tone.next(scene.pitch_hz));
  }
}

void render_bell(const SoundScene& scene, double rate, std::span<float> out) {
  constexpr std::array<double, 6> kRatios{0.5, 1, 1.19, 1.5, 2, 2.74}, kWeights{0.4, 1, 0.7, 0.5, 0.8, 0.5},
      kDecays{1.2, 1, 0.8, 0.6, 0.45, 0.3};
  for (size_t k = 0; k < kRatios.size(); ++k) {
    Oscillator tone(rate, 0);
    for (size_t i = 0; i < out.size(); ++i) {
      const double t = static_cast<double>(i) / rate;
      out[i] +=
          static_cast<float>(kWeights[k] * std::exp(-t / kDecays[k] * 3) * tone.next(scene.pitch_hz * kRatios[k]));
    }
  }
}

/// Karplus and Strong (1983): a delay line of noise, smoothed each time round.
void render_pluck(const SoundScene& scene, double rate, std::span<float> out) {
  core::CounterRng rng(scene.noise_key);
  std::vector<double> line(static_cast<size_t>(rate / scene.pitch_hz));
  for (double& value : line) value = rng.uniform(-1, 1);
  for (size_t i = 0, at = 0; i < out.size(); ++i) {
    const size_t next = at + 1 == line.size() ? 0 : at + 1;
    out[i] = static_cast<float>(line[at]);
    line[at] = 0.996 * 0.5 * (line[at] + line[next]);
    at = next;
  }
}

void render_clicks(const SoundScene& scene, double rate, std::span<float> out) {
  core::CounterRng rng(scene.noise_key);
  for (size_t i = 0; i < out.size(); ++i) {
    const double s = since_beat(scene, static_cast<double>(i) / rate);
    out[i] =
        static_cast<float>(std::exp(-s / 0.004) * (std::sin(kTurn * scene.pitch_hz * s) + 0.5 * rng.uniform(-1, 1)));
  }
}

void render_drum(const SoundScene& scene, double rate, std::span<float> out) {
  core::CounterRng rng(scene.noise_key);
  for (size_t i = 0; i < out.size(); ++i) {
    const double s = since_beat(scene, static_cast<double>(i) / rate);
    // The pitch falls to pitch_hz while the skin settles; the phase is its integral.
    const double turns = scene.pitch_hz * s + scene.pitch_hz * 0.03 * 1.5 * (1 - std::exp(-s / 0.03));
    out[i] = static_cast<float>(std::exp(-s / 0.07) * std::sin(kTurn * turns) +
                                0.3 * std::exp(-s / 0.01) * rng.uniform(-1, 1));
  }
}

void render_melody(const SoundScene& scene, double rate, std::span<float> out) {
  constexpr std::array<double, 5> kScale{1, 9.0 / 8, 5.0 / 4, 3.0 / 2, 2};
  Oscillator tone(rate, 0), second(rate, 0);
  for (size_t i = 0; i < out.size(); ++i) {
    const double notes = static_cast<double>(i) / static_cast<double>(out.size()) * kScale.size();
    const auto number = std::min(static_cast<size_t>(notes), kScale.size() - 1);
    const double hz = scene.pitch_hz * kScale[scene.is_rising ? number : kScale.size() - 1 - number];
    const double age = notes - static_cast<double>(number);
    out[i] = static_cast<float>(std::min(1.0, 20 * age) * std::exp(-1.2 * age) *
                                (tone.next(hz) + 0.25 * second.next(2 * hz)));
  }
}

/// Rumble, hiss, wind: noise of which a part is kept.
void render_noise(const SoundScene& scene, double rate, std::span<float> out) {
  if (scene.kind == SoundKind::kWind) {  // a two-pole resonator whose middle wanders
    core::CounterRng rng(scene.noise_key);
    double last = 0, before = 0;
    for (float& value : out) {
      const double t = static_cast<double>(&value - out.data()) / rate;
      const double hz = scene.pitch_hz * std::exp2(0.5 * std::sin(kTurn * 0.9 * t + scene.phase));
      constexpr double kRadius = 0.99;
      const double now =
          rng.uniform(-1, 1) + 2 * kRadius * std::cos(kTurn * hz / rate) * last - kRadius * kRadius * before;
      before = last;
      last = now;
      value = static_cast<float>(now);
    }
    return;
  }
  NoiseFilter filter(scene.noise_key, rate, scene.pitch_hz), again(scene.noise_key + 1, rate, scene.pitch_hz);
  double smooth = 0;
  for (float& value : out) {
    const auto parts = filter.next();
    smooth += 0.1 * (parts.low - smooth);
    value = static_cast<float>(scene.kind == SoundKind::kHiss ? parts.high + 0.3 * again.next().high : smooth);
  }
}

void render_source(const SoundScene& scene, double rate, std::span<float> out) {
  constexpr std::array<double, 2> kToneRatios{1, 2}, kToneWeights{1, 0.1};
  switch (scene.kind) {
    case SoundKind::kTone: return add_partials(scene, rate, scene.pitch_hz, kToneRatios, kToneWeights, out);
    case SoundKind::kBuzz: return render_buzz(scene, rate, out);
    case SoundKind::kChord: return render_chord(scene, rate, out);
    case SoundKind::kSweep:
    case SoundKind::kSiren:
    case SoundKind::kWarble: return render_glide(scene, rate, out);
    case SoundKind::kPulse: return render_pulse(scene, rate, out);
    case SoundKind::kBell: return render_bell(scene, rate, out);
    case SoundKind::kPluck: return render_pluck(scene, rate, out);
    case SoundKind::kClicks: return render_clicks(scene, rate, out);
    case SoundKind::kDrum: return render_drum(scene, rate, out);
    case SoundKind::kMelody: return render_melody(scene, rate, out);
    case SoundKind::kRumble:
    case SoundKind::kHiss:
    case SoundKind::kWind: return render_noise(scene, rate, out);
  }
}

/// Fades, and scales to the wanted peak.
void shape_course(const SoundScene& scene, std::span<float> out) {
  float peak = 0;
  const auto size = static_cast<double>(out.size());
  const bool fades_itself = scene.kind == SoundKind::kBell || scene.kind == SoundKind::kPluck;
  for (size_t i = 0; i < out.size(); ++i) {
    const double share = static_cast<double>(i) / size;
    double gain = std::min({1.0, 100 * share, 100 * (1 - share)});  // no click at either end
    if (scene.course == SoundCourse::kFadesIn) gain *= share;
    if (scene.course == SoundCourse::kFadesOut && !fades_itself) gain *= 1 - share;
    out[i] *= static_cast<float>(gain);
    peak = std::max(peak, std::abs(out[i]));
  }
  if (peak == 0) return;
  for (float& value : out) value *= static_cast<float>(scene.peak) / peak;
}

void add_ground(const SoundScene& scene, double rate, std::span<float> out) {
  if (scene.ground == SoundGround::kSilence) return;
  Oscillator hum(rate, scene.phase), octave(rate, 0);
  core::CounterRng rng(scene.noise_key ^ 0x67726f756e64);
  for (float& value : out) {
    const double ground =
        scene.ground == SoundGround::kHum ? 0.7 * hum.next(100) + 0.3 * octave.next(200) : rng.uniform(-1, 1);
    value += static_cast<float>(kGroundPeak * ground);
  }
}

}  // namespace

void render_sound(const SoundScene& scene, int64_t sample_rate, std::vector<float>& out) {
  LOCKSTEP_CHECK(sample_rate >= 8000, "sample_rate={}", sample_rate);
  std::fill(out.begin(), out.end(), 0.0f);
  const auto rate = static_cast<double>(sample_rate);
  render_source(scene, rate, out);
  shape_course(scene, out);
  add_ground(scene, rate, out);
}

}  // namespace lockstep::data
