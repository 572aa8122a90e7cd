#include "draw/palette.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace lockstep::draw {
namespace {

constexpr Rgb rgb(uint32_t hex) {
  return {static_cast<uint8_t>(hex >> 16), static_cast<uint8_t>(hex >> 8 & 0xFF), static_cast<uint8_t>(hex & 0xFF)};
}

double luminance(Rgb colour) {
  const auto linear = [](uint8_t channel) {
    const double value = channel / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.r) + 0.7152 * linear(colour.g) + 0.0722 * linear(colour.b);
}

/// viridis at 0, 1/8, ..., 1.
constexpr std::array<Rgb, 9> kViridis = {rgb(0x440154), rgb(0x472d7b), rgb(0x3b528b), rgb(0x2c728e), rgb(0x21918c),
                                         rgb(0x28ae80), rgb(0x5ec962), rgb(0xaddc30), rgb(0xfde725)};
constexpr size_t kNumSequential = 16;

Rgb viridis(double at) {
  const double scaled = at * (kViridis.size() - 1);
  const size_t below = std::min<size_t>(static_cast<size_t>(scaled), kViridis.size() - 2);
  const double part = scaled - static_cast<double>(below);
  const auto mix = [&](uint8_t a, uint8_t b) { return static_cast<uint8_t>(std::lround(a + part * (b - a))); };
  const Rgb a = kViridis[below], b = kViridis[below + 1];
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

std::vector<Rgb> viridis_between(double from, double to) {
  std::vector<Rgb> samples;
  for (size_t index = 0; index < kNumSequential; ++index)
    samples.push_back(viridis(from + (to - from) * static_cast<double>(index) / (kNumSequential - 1)));
  return samples;
}

}  // namespace

std::string Rgb::hex() const { return fmt::format("#{:02x}{:02x}{:02x}", r, g, b); }

double contrast(Rgb a, Rgb b) {
  const double la = luminance(a), lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

Rgb text_on(Rgb fill) {
  constexpr Rgb kBlack = rgb(0x000000), kWhite = rgb(0xffffff);
  return contrast(fill, kBlack) > contrast(fill, kWhite) ? kBlack : kWhite;
}

const Theme& light_theme() {
  static const Theme theme{.paper = rgb(0xffffff),
                           .raised = rgb(0xf5f6f8),
                           .ink = rgb(0x1a1d21),
                           .muted = rgb(0x57606a),
                           .link = rgb(0x0b5cad),
                           .axis = rgb(0x6e7781),
                           .grid = rgb(0xe3e6ea),
                           .region = rgb(0xeceff3),
                           .note = rgb(0x0072b2),
                           .warning = rgb(0xb35900),
                           .categorical = {rgb(0x0072b2), rgb(0xd55e00), rgb(0x009e73), rgb(0xcc79a7), rgb(0xb97f00),
                                           rgb(0x3395cd), rgb(0x1a1d21)},
                           .sequential = viridis_between(0, 0.58)};
  return theme;
}

const Theme& dark_theme() {
  static const Theme theme{.paper = rgb(0x14171c),
                           .raised = rgb(0x1f242b),
                           .ink = rgb(0xe8eaed),
                           .muted = rgb(0xa4adb8),
                           .link = rgb(0x7cbcf5),
                           .axis = rgb(0x818b96),
                           .grid = rgb(0x2c323a),
                           .region = rgb(0x232931),
                           .note = rgb(0x56b4e9),
                           .warning = rgb(0xe69f00),
                           .categorical = {rgb(0x3d9fe0), rgb(0xe8762c), rgb(0x1fb58a), rgb(0xd993ba), rgb(0xe69f00),
                                           rgb(0x8fcdf2), rgb(0xf0f2f4)},
                           .sequential = viridis_between(0.36, 1)};
  return theme;
}

SeriesStyle series_style(size_t index, size_t count, bool is_sequential) {
  static constexpr std::array<const char*, 5> kDashes = {"", "7 3", "2 2.5", "9 3 2 3", "12 4"};
  SeriesStyle style{.dash = kDashes[index % kDashes.size()], .marker = static_cast<int>(index % kNumMarkers)};
  if (is_sequential) {
    const size_t at = count < 2 ? 0 : index * (kNumSequential - 1) / (count - 1);
    style.colour_class = fmt::format("q{}", at);
    style.colour = light_theme().sequential[at];
  } else {
    const size_t at = index % light_theme().categorical.size();
    style.colour_class = fmt::format("s{}", at);
    style.colour = light_theme().categorical[at];
  }
  return style;
}

SeriesStyle reference_style(size_t index) {
  static constexpr std::array<const char*, 3> kDashes = {"6 4", "1.5 3", "11 3 2 3"};
  return {.colour_class = "ref", .colour = light_theme().axis, .dash = kDashes[index % kDashes.size()], .marker = 0};
}

}  // namespace lockstep::draw
