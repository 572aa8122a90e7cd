#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/strings.h"
#include "draw/axis_scale.h"
#include "draw/label_placer.h"
#include "draw/palette.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

std::vector<std::string> labels_of(const AxisScale& scale) {
  std::vector<std::string> labels;
  for (const Tick& tick : scale.ticks()) labels.push_back(tick.label);
  return labels;
}

std::vector<std::string> labels(const Axis& axis, const std::vector<double>& values, size_t max_ticks = 8) {
  return labels_of(AxisScale(axis, values, max_ticks));
}

TEST(AxisScale, ChoosesRoundTicks) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels({}, {0, 100}, 6), (Labels{"0", "20", "40", "60", "80", "100"}));
  EXPECT_EQ(labels({.min = 50, .max = 105}, {60, 99}, 7), (Labels{"50", "60", "70", "80", "90", "100"}));
  EXPECT_EQ(labels({.min = 0, .max = 1}, {}, 4), (Labels{"0.00", "0.25", "0.50", "0.75", "1.00"}));
  EXPECT_EQ(labels({.min = 0, .max = 40000}, {}, 4), (Labels{"0", "10k", "20k", "30k", "40k"}));
  EXPECT_EQ(labels({.scale = Scale::kLog2}, {1, 8}), (Labels{"1", "2", "4", "8"}));
  EXPECT_EQ(labels({.scale = Scale::kLog2}, {4}), (Labels{"2", "4", "8"})) << "a single size";
  EXPECT_EQ(labels({.scale = Scale::kLog2}, {260, 510}), (Labels{"250", "300", "350", "400", "450", "500", "550"}));
  EXPECT_EQ(labels({.scale = Scale::kLog10}, {320, 1143}), (Labels{"400", "600", "800", "1000", "1200"}));
  EXPECT_EQ(labels({.scale = Scale::kLog10}, {110, 5200}), (Labels{"100", "200", "500", "1000", "2000", "5000"}));
  EXPECT_EQ(labels({.scale = Scale::kLog2}, {1, 2}), (Labels{"1", "2"}));
  EXPECT_EQ(labels({.scale = Scale::kLog2}, {1, 1024}, 20),
            (Labels{"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"}));
  EXPECT_EQ(labels({.scale = Scale::kLog10}, {1, 1e6}, 7), (Labels{"1", "10", "100", "1k", "10k", "100k", "1M"}));
  EXPECT_EQ(labels({.scale = Scale::kLog10, .min = 20, .max = 1000}, {}, 8),
            (Labels{"20", "50", "100", "200", "500", "1000"}));
  EXPECT_EQ(labels({.ticks = {8, 1, 4, 2, 99}}, {1, 8}), (Labels{"1", "2", "4", "8"}))
      << "given ticks: sorted, those outside left out";
}

TEST(AxisScale, TicksAreAscendingInsideFewAndLabelledWithTheirValue) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> exponent(-12, 12), sign(-1, 1);
  size_t num_checked = 0;
  for (int round = 0; round < 3000; ++round) {
    const Scale kind = static_cast<Scale>(round % 3);
    std::vector<double> values;
    for (int count = 1 + round % 5; count > 0; --count)
      values.push_back((kind == Scale::kLinear && sign(random) < 0 ? -1 : 1) * std::pow(10, exponent(random)));
    const size_t max_ticks = 3 + static_cast<size_t>(round % 9);
    const AxisScale scale({.scale = kind}, values, max_ticks);
    for (const double value : values) {
      EXPECT_GE(scale.share(value), -1e-9);
      EXPECT_LE(scale.share(value), 1 + 1e-9);
    }
    size_t num_labels = 0;
    double before = -INFINITY;
    for (const Tick& tick : scale.ticks()) {
      EXPECT_GT(tick.value, before);
      before = tick.value;
      EXPECT_TRUE(scale.is_inside(tick.value));
      if (tick.label.empty()) continue;
      ++num_labels;
      std::string number = tick.label;
      double factor = 1;
      for (const auto& [suffix, size] : {std::pair{'k', 1e3}, {'M', 1e6}, {'G', 1e9}, {'T', 1e12}, {'P', 1e15}})
        if (number.back() == suffix) factor = size, number.pop_back();
      const double span = scale.is_log() ? tick.value : scale.high() - scale.low();
      EXPECT_NEAR(*core::parse_double(number) * factor, tick.value, span * 1e-3) << tick.label;
      ++num_checked;
    }
    EXPECT_GE(num_labels, 1u);
    EXPECT_LE(num_labels, max_ticks + 2) << scale.low() << " to " << scale.high();
  }
  EXPECT_GT(num_checked, 9000u);
}

TEST(AxisScale, SpansTheData) {
  const AxisScale zero({}, std::vector<double>{10, 100}, 5);
  EXPECT_EQ(zero.low(), 0) << "data near zero: the axis begins there";
  const AxisScale off({}, std::vector<double>{400, 410}, 5);
  EXPECT_GT(off.low(), 390);
  const AxisScale forced({}, std::vector<double>{400, 410}, 5, true);
  EXPECT_EQ(forced.low(), 0);
  const AxisScale log({.scale = Scale::kLog10}, std::vector<double>{-1, 0, 10, 1000}, 5);
  EXPECT_GT(log.low(), 5);
  EXPECT_FALSE(log.has_place(0));
  EXPECT_TRUE(log.is_inside(10));
}

TEST(LabelPlacer, KeepsOffBoxesAndPrefersFreeSpaceToLines) {
  LabelPlacer placer({0, 0, 200, 100});
  placer.add_box({95, 45, 10, 10});
  const std::optional<Box> above = placer.place({100, 50}, 30, 12);
  ASSERT_TRUE(above);
  EXPECT_LT(above->bottom(), 46);
  const std::optional<Box> next = placer.place({100, 50}, 30, 12);
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->meets(*above));
  LabelPlacer crossed({0, 0, 200, 100});
  crossed.add_segment({0, 37}, {200, 37});
  EXPECT_GT(crossed.place({100, 50}, 30, 12)->y, 50) << "below, because a line passes above";
  LabelPlacer small({0, 0, 20, 20});
  EXPECT_FALSE(small.place({10, 10}, 30, 12));
}

TEST(LabelPlacer, SpreadsLabelsWithinBounds) {
  const std::vector<double> heights(4, 10);
  const std::vector<double> placed = spread(std::vector<double>{50, 50, 52, 98}, heights, 0, 100, 2);
  for (size_t a = 0; a < 4; ++a) {
    EXPECT_GE(placed[a] - 5, -1e-9);
    EXPECT_LE(placed[a] + 5, 100 + 1e-9);
    for (size_t b = a + 1; b < 4; ++b) EXPECT_GE(std::abs(placed[a] - placed[b]), 12 - 1e-9);
  }
  EXPECT_NEAR(placed[0], 50, 1e-9);
}

TEST(Palette, ContrastFollowsItsDefinition) {
  EXPECT_NEAR(contrast({0, 0, 0}, {255, 255, 255}), 21, 1e-9);
  EXPECT_NEAR(contrast({119, 119, 119}, {255, 255, 255}), 4.48, 0.01);
  EXPECT_NEAR(contrast({255, 255, 255}, {119, 119, 119}), 4.48, 0.01);
}

TEST(Palette, TextAndGraphicsStandOutInBothThemes) {
  for (const Theme* theme : {&light_theme(), &dark_theme()}) {
    for (const Rgb back : {theme->paper, theme->raised, theme->region})
      for (const Rgb text : {theme->ink, theme->muted, theme->link})
        EXPECT_GE(contrast(text, back), 4.5) << text.hex() << " on " << back.hex();
    EXPECT_GE(contrast(theme->axis, theme->paper), 3);
    EXPECT_GE(contrast(theme->note, theme->paper), 3);
    EXPECT_GE(contrast(theme->warning, theme->paper), 3);
    ASSERT_GE(theme->categorical.size(), 7u);
    ASSERT_GE(theme->sequential.size(), 9u);
    for (const auto* colours : {&theme->categorical, &theme->sequential})
      for (const Rgb colour : *colours) {
        EXPECT_GE(contrast(colour, theme->paper), 3) << colour.hex();
        EXPECT_GE(contrast(colour, text_on(colour)), 4.5) << colour.hex();
      }
  }
}

TEST(Palette, SequentialColoursGetLighterStepByStep) {
  for (const Theme* theme : {&light_theme(), &dark_theme()})
    for (size_t index = 1; index < theme->sequential.size(); ++index)
      EXPECT_GT(contrast(theme->sequential[index], {0, 0, 0}), contrast(theme->sequential[index - 1], {0, 0, 0}));
}

TEST(Palette, NeighboursDifferInColourAndWithoutIt) {
  for (size_t index = 0; index + 1 < 20; ++index) {
    const SeriesStyle one = series_style(index, 20, false), two = series_style(index + 1, 20, false);
    EXPECT_NE(one.colour_class, two.colour_class);
    EXPECT_NE(one.marker, two.marker);
    EXPECT_NE(one.dash, two.dash);
  }
}

TEST(TextMetrics, MeasuresAndWraps) {
  EXPECT_NEAR(text_width("MM", 10), 2 * 8.33 * 1.04, 1e-9);
  EXPECT_EQ(text_width("", 10), 0);
  EXPECT_GT(text_width("abc", 10, true), text_width("abc", 10));
  for (const std::string& line : wrap_text("one two three four five six seven", 40, 12))
    EXPECT_LE(text_width(line, 12), 40);
  const std::vector<std::string> broken = wrap_text("Donaudampfschifffahrtsgesellschaft", 60, 12);
  EXPECT_GT(broken.size(), 2u);
  EXPECT_EQ(core::join(broken, ""), "Donaudampfschifffahrtsgesellschaft");
  EXPECT_EQ(wrap_text("", 10, 12), std::vector<std::string>{""});
}

TEST(TextMetrics, ShortensInTheMiddle) {
  EXPECT_EQ(shorten_text("short", 100, 12), "short");
  const std::string shortened = shorten_text("ViT-L-14 with a very long description of 128 nodes", 120, 12);
  EXPECT_LE(text_width(shortened, 12), 120);
  EXPECT_TRUE(core::starts_with(shortened, "ViT-L") && core::ends_with(shortened, "nodes")) << shortened;
  EXPECT_EQ(shorten_text("abc", 1, 12), "...");
}

TEST(TextMetrics, CleansForeignBytes) {
  EXPECT_EQ(clean_text("a\tb\r\nc"), "a b\nc");
  EXPECT_EQ(clean_text("cut \xe2\x82"), "cut \xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(clean_text("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "a surrogate";
  EXPECT_EQ(clean_text("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd") << "an overlong slash";
  EXPECT_EQ(clean_text("\x1b[31m"), "\xef\xbf\xbd[31m");
  EXPECT_EQ(clean_text("gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x98\x80"),
            "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x98\x80");
  EXPECT_EQ(terminal_columns("\xe4\xb8\xad a\xcc\x81"), 4);
}

}  // namespace
}  // namespace lockstep::draw
