#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "core/strings.h"
#include "draw/chart_svg.h"
#include "draw/label_placer.h"
#include "draw/render.h"
#include "draw/text_metrics.h"
#include "support/demo_document.h"
#include "support/xml_tree.h"

namespace lockstep::draw {
namespace {

using tests::XmlElement;
using tests::XmlTree;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

std::vector<Chart> demo_charts() {
  std::vector<Chart> charts;
  for (const Section& section : tests::demo_document().sections)
    for (const Block& block : section.blocks)
      if (const Chart* chart = std::get_if<Chart>(&block)) charts.push_back(*chart);
  return charts;
}

/// Where a text element lies, by the widths that the layout uses.
Box text_box(const XmlElement& text) {
  const double px = text.number("font-size"),
               width = text_width(text.text, px, text.attributes.contains("font-weight"));
  const std::string anchor = text.attributes.contains("text-anchor") ? text.attributes.at("text-anchor") : "start";
  const double before = anchor == "end"      ? width
                        : anchor == "middle" ? width / 2
                                             : 0,
               x = text.number("x"), y = text.number("y");
  if (text.attributes.contains("transform")) return {x - px * 0.8, y - (width - before), px, width};  // read from below
  return {x - before, y - px * 0.8, width, px};
}

/// Problems of the texts of a drawing: cut off or over each other.
std::vector<std::string> text_problems(const XmlTree& svg) {
  const std::vector<std::string> view = core::split(svg.find("/s:svg")[0].attributes.at("viewBox"), " ");
  const Box frame{std::stod(view[0]) - 0.1, std::stod(view[1]) - 0.1, std::stod(view[2]) + 0.2,
                  std::stod(view[3]) + 0.2};
  const std::vector<XmlElement> texts = svg.find("//s:text");
  std::vector<std::string> problems;
  for (size_t a = 0; a < texts.size(); ++a) {
    if (!frame.holds(text_box(texts[a]))) problems.push_back("cut: " + texts[a].text);
    for (size_t b = a + 1; b < texts.size(); ++b)
      if (text_box(texts[a]).meets(text_box(texts[b])))
        problems.push_back("overlap: '" + texts[a].text + "' and '" + texts[b].text + "'");
  }
  return problems;
}

std::string problems_of(const Chart& chart, double width, bool has_title = true) {
  const XmlTree svg(draw_chart(
      chart, {.width = width, .plot_height = width < 500 ? 240.0 : 300.0, .has_title = has_title, .id = "c"}));
  return core::join(text_problems(svg), "\n");
}

std::vector<std::string> texts_of(const XmlTree& svg) {
  std::vector<std::string> texts;
  for (const XmlElement& text : svg.find("//s:text")) texts.push_back(text.text);
  return texts;
}

std::string all_text(const XmlTree& svg) { return core::join(texts_of(svg), " "); }

Chart line_chart(std::vector<double> x, std::vector<double> y) {
  return {.id = "c",
          .title = "t",
          .x = {.title = "nodes"},
          .y = {.title = "rate (1/s)"},
          .series = {{.name = "a", .x = std::move(x), .y = std::move(y)}}};
}

TEST(RenderChart, AnIntervalFarBeyondTheValuesLeavesTheAxisToThem) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog10}) {
    Chart chart{.id = "wide", .x = {.title = "nodes"}, .y = {.title = "efficiency (%)", .scale = scale}};
    chart.series = {
        {.name = "a", .x = {1, 2, 4}, .y = {100, 58.8, 40}, .low = {99, 0.6, 38}, .high = {101, 5461.9, 42}}};
    const std::string svg = to_svg(chart);
    EXPECT_EQ(svg.find(">1,000<"), std::string::npos) << svg;
    EXPECT_EQ(svg.find(">5000<"), std::string::npos) << svg;
    EXPECT_NE(svg.find("end in an arrow"), std::string::npos) << svg;
    EXPECT_NE(svg.find("interval 0.6 to 5461.9"), std::string::npos) << "told where the point is";
    chart.series[0].high = {101, 60, 42}, chart.series[0].low = {99, 57, 38};
    EXPECT_EQ(to_svg(chart).find("end in an arrow"), std::string::npos);
  }
}

TEST(RenderChart, DemoChartsAreValidXmlWithoutReferencesOutside) {
  ASSERT_GE(demo_charts().size(), 9u);
  for (const Chart& chart : demo_charts()) {
    const std::string text = to_svg(chart);
    const XmlTree svg(text);
    EXPECT_EQ(svg.find("/s:svg[@role='img'][@viewBox]").size(), 1u);
    EXPECT_TRUE(svg.find("/s:svg[@width]").empty());
    EXPECT_TRUE(svg.find("//s:image | //s:use | //s:script | //s:style | //s:foreignObject").empty());
    EXPECT_TRUE(svg.find("//@*[starts-with(name(), 'on') or name() = 'href' or name() = 'style']").empty());
    const std::string rest = core::replace_all(text, "xmlns=\"http://www.w3.org/2000/svg\"", "");
    EXPECT_EQ(rest.find("http"), std::string::npos);
    for (const XmlElement& element : svg.find("//*[contains(@fill, 'url') or contains(@clip-path, 'url')]"))
      for (const auto& [name, value] : element.attributes) {
        if (!core::starts_with(value, "url(")) continue;
        EXPECT_EQ(svg.find("//*[@id='" + value.substr(5, value.size() - 6) + "']").size(), 1u) << value;
      }
  }
}

TEST(RenderChart, TitleAndSummaryNameTheDrawing) {
  Chart chart = line_chart({1, 2}, {3, 4});
  chart.summary = "Rises from 3 to 4.";
  const XmlTree svg(to_svg(chart));
  EXPECT_EQ(svg.find("/s:svg/s:title")[0].text, "t");
  EXPECT_EQ(svg.find("/s:svg/s:desc")[0].text, "Rises from 3 to 4.");
  EXPECT_EQ(svg.find("/s:svg")[0].attributes.at("aria-labelledby"),
            svg.find("/s:svg/s:title")[0].attributes.at("id") + " " + svg.find("/s:svg/s:desc")[0].attributes.at("id"));
}

TEST(RenderChart, NoTextOfTheDemoChartsOverlapsOrIsCut) {
  for (const Chart& chart : demo_charts())
    for (const double width : {320.0, 360.0, 720.0, 1000.0})
      EXPECT_EQ(problems_of(chart, width, false), "") << chart.id << " at " << width;
}

TEST(RenderChart, TheCheckOfTextsFindsOverlapAndCuts) {
  const XmlTree svg(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50"><text x="5" y="20" font-size="12">first</text>)"
      R"(<text x="9" y="22" font-size="12">second</text><text x="80" y="45" font-size="12">cut off here</text></svg>)");
  EXPECT_EQ(text_problems(svg), (std::vector<std::string>{"overlap: 'first' and 'second'", "cut: cut off here"}));
}

/// A chart with everything drawn at random, ugly names and numbers included.
Chart random_chart(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto name = [&](int words) {
    std::string text;
    for (int word = 0; word < words; ++word)
      text += (word > 0 ? " " : "") + std::string(static_cast<size_t>(pick(1, pick(0, 9) == 0 ? 60 : 12)),
                                                  static_cast<char>('A' + pick(0, 25)));
    return text;
  };
  const auto value = [&](double magnitude) {
    const int kind = pick(0, 40);
    return kind == 0   ? kNoNumber
           : kind == 1 ? 0.0
           : kind == 2 ? -magnitude
                       : magnitude * std::exp(std::normal_distribution<double>(0, 1.5)(random));
  };
  const double x_size = std::pow(10, pick(-6, 9)), y_size = std::pow(10, pick(-9, 12));
  Chart chart{.id = "r",
              .title = name(pick(0, 25)),
              .x = {.title = name(pick(0, 15)), .scale = static_cast<Scale>(pick(0, 2))},
              .y = {.title = name(pick(0, 15)), .scale = static_cast<Scale>(pick(0, 2))},
              .is_sequential = pick(0, 1) == 1};
  if (pick(0, 3) == 0) {
    StackedBars bars;
    for (int bar = pick(0, 40); bar > 0; --bar) bars.bars.push_back(name(pick(1, 3)));
    for (int part = pick(0, 12); part > 0; --part) {
      bars.parts.push_back(name(pick(1, 4)));
      bars.values.emplace_back();
      for (size_t bar = 0; bar < bars.bars.size(); ++bar) bars.values.back().push_back(value(y_size));
    }
    chart.bars = bars;
    return chart;
  }
  for (int count = pick(0, 9); count > 0; --count) {
    Series series{.name = pick(0, 9) == 0 ? "" : name(pick(1, 5)),
                  .mark = static_cast<Mark>(pick(0, 4)),
                  .is_reference = pick(0, 5) == 0};
    const bool has_interval = pick(0, 1) == 1 || series.mark == Mark::kBand, has_labels = pick(0, 1) == 1;
    for (int point = pick(0, 40); point > 0; --point) {
      series.x.push_back(value(x_size));
      series.y.push_back(value(y_size));
      if (has_interval) series.low.push_back(series.y.back() * 0.8), series.high.push_back(series.y.back() * 1.3);
      if (has_labels) series.labels.push_back(name(1));
    }
    chart.series.push_back(series);
  }
  for (int tick = pick(0, 3) == 0 ? pick(1, 12) : 0; tick > 0; --tick) {
    chart.x.ticks.push_back(value(x_size));
    chart.x.tick_notes.push_back(name(1));
  }
  for (int region = pick(0, 2); region > 0; --region)
    chart.regions.push_back({value(x_size), value(x_size), name(pick(0, 3))});
  return chart;
}

TEST(RenderChart, NoTextOfAnyRandomChartOverlapsOrIsCut) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Chart chart = random_chart(random);
    for (const double width : {360.0, 720.0}) {
      ASSERT_EQ(problems_of(chart, width, seed % 2 == 0), "")
          << "seed " << seed << " at " << width << ": "
          << draw_chart(chart, {.width = width, .plot_height = 240, .id = "c"});
    }
  }
}

TEST(RenderChart, DrawsEveryPointWhereTheTableSaysAndWithItsNumbers) {
  const Chart chart{.id = "c",
                    .title = "t",
                    .x = {.title = "nodes", .scale = Scale::kLog2},
                    .y = {.title = "rate", .min = 0, .max = 100},
                    .series = {{.name = "a", .mark = Mark::kMarkers, .x = {1, 2, 4, 8}, .y = {10, 20, 55, 100}}}};
  const XmlTree svg(to_svg(chart));
  const std::vector<XmlElement> points = svg.find("//s:circle[contains(@class, 'pt')]");
  ASSERT_EQ(points.size(), 4u);
  const Table table = chart_table(chart);
  ASSERT_EQ(table.rows.size(), 4u);
  const double step = points[1].number("cx") - points[0].number("cx"),
               unit = (points[0].number("cy") - points[3].number("cy")) / 90;
  EXPECT_GT(step, 50);
  EXPECT_GT(unit, 2);
  for (size_t index = 0; index < 4; ++index) {
    const double x = *table.rows[index][0].value, y = *table.rows[index][1].value;
    EXPECT_NEAR(points[index].number("cx"), points[0].number("cx") + step * std::log2(x), 0.05);
    EXPECT_NEAR(points[index].number("cy"), points[0].number("cy") - unit * (y - 10), 0.05);
    EXPECT_EQ(points[index].text, fmt::format("a: nodes {}, rate {}", x, y));
  }
}

TEST(RenderChart, PointsOfTheDemoChartsHaveTheNumbersOfTheirTables) {
  size_t num_checked = 0;
  for (const Chart& chart : demo_charts()) {
    if (chart.bars) continue;
    std::set<std::string> numbers;
    for (const auto& row : chart_table(chart).rows)
      for (const Cell& cell : row)
        if (cell.value) numbers.insert(cell.text);
    for (const XmlElement& point : XmlTree(to_svg(chart)).find("//*[contains(@class, 'pt')]")) {
      const std::string said = point.text.substr(point.text.find(": ") + 2);
      const std::string x =
          said.substr(chart.x.title.size() + 1, said.find(", " + chart.y.title) - chart.x.title.size() - 1);
      EXPECT_TRUE(numbers.contains(x)) << chart.id << ": " << point.text;
      const std::string after = said.substr(said.find(", " + chart.y.title) + chart.y.title.size() + 3);
      EXPECT_TRUE(numbers.contains(after.substr(0, after.find_first_of(", ")))) << chart.id << ": " << point.text;
      ++num_checked;
    }
  }
  EXPECT_GT(num_checked, 200u);
}

TEST(RenderChart, BarsAreAsHighAsTheirValues) {
  Chart chart{.id = "c", .title = "t", .x = {.title = "nodes"}, .y = {.title = "ms"}};
  chart.bars = StackedBars{.bars = {"1", "2"}, .parts = {"compute", "rest"}, .values = {{300, 200}, {100, 50}}};
  const XmlTree svg(to_svg(chart));
  const std::vector<XmlElement> bars = svg.find("//s:rect[contains(@class, 'pt')]");
  ASSERT_EQ(bars.size(), 4u);
  const double unit = (bars[0].number("height") + 1) / 300;  // one pixel of paper above each part
  EXPECT_NEAR(bars[1].number("height") + 1, 100 * unit, 0.1);
  EXPECT_NEAR(bars[2].number("height") + 1, 200 * unit, 0.1);
  EXPECT_NEAR(bars[1].number("y") + bars[1].number("height"), bars[0].number("y") - 1, 0.1);
  EXPECT_EQ(bars[3].text, "2, rest: 50 of 250 (20 %)");
  EXPECT_NE(all_text(svg).find("400"), std::string::npos) << "total of the first bar";
  const Table table = chart_table(chart);
  EXPECT_EQ(*table.rows[1][2].value, 50);
  EXPECT_EQ(table.columns[2].title, "rest");
}

TEST(RenderChart, SeriesDifferInColourAndInMarkerOrDash) {
  Chart chart = line_chart({}, {});
  chart.series.clear();
  for (int index = 0; index < 7; ++index)
    chart.series.push_back({.name = fmt::format("s{}", index),
                            .mark = index < 4 ? Mark::kLineMarkers : Mark::kLine,
                            .x = {1, 2},
                            .y = {1.0 * index, 2.0 * index}});
  const XmlTree svg(to_svg(chart));
  std::set<std::string> colours, shapes;
  for (const XmlElement& key : svg.find("//s:g[@class='key']/s:g")) colours.insert(key.attributes.at("stroke"));
  for (int index = 0; index < 7; ++index) {
    const std::string key = fmt::format("//s:g[@class='key'][@data-series='{}']", index);
    const XmlElement line = svg.find(key + "//s:path[@stroke-width='2']").at(0);
    std::string shape = line.attributes.contains("stroke-dasharray") ? line.attributes.at("stroke-dasharray") : "solid";
    for (const XmlElement& marker :
         svg.find(key + "//*[contains(@class, 'rim')]"))  // a shape, apart from where it stands
      shape +=
          marker.name +
          fmt::format(
              "{}", std::count(
                        marker.attributes.contains("d") ? marker.attributes.at("d").begin() : marker.name.begin(),
                        marker.attributes.contains("d") ? marker.attributes.at("d").end() : marker.name.begin(), 'L')) +
          (marker.attributes.contains("d") ? marker.attributes.at("d").substr(0, marker.attributes.at("d").find(' '))
                                           : "");
    shapes.insert(shape);
  }
  EXPECT_EQ(colours.size(), 7u);
  EXPECT_EQ(shapes.size(), 7u);
}

TEST(RenderChart, UpToFiveSeriesAreNamedAtTheirEndsMoreInALegend) {
  const auto key_lies_right = [](int count, double apart = 1) {
    Chart chart = line_chart({}, {});
    chart.series.clear();
    for (int index = 0; index < count; ++index)
      chart.series.push_back(
          {.name = fmt::format("size {}", index), .x = {1, 2}, .y = {1.0 + index, 5 + 3.0 * index * apart}});
    const XmlTree svg(to_svg(chart));
    const std::vector<XmlElement> names = svg.find("//s:g[@class='key']/s:text");
    EXPECT_EQ(names.size(), static_cast<size_t>(count));
    return names[0].number("x") > 500;
  };
  EXPECT_TRUE(key_lies_right(5));
  EXPECT_FALSE(key_lies_right(6));
  EXPECT_FALSE(key_lies_right(4, 0)) << "lines that end in one point";
}

TEST(RenderChart, Log2TicksArePowersOfTwoInFullAndBytesHaveUnits) {
  Chart chart = line_chart({1, 2, 4, 8, 16}, {1, 2, 3, 4, 5});
  chart.x.scale = Scale::kLog2;
  const std::vector<std::string> texts = texts_of(XmlTree(to_svg(chart)));
  for (const char* label : {"1", "2", "4", "8", "16"})
    EXPECT_GE(std::count(texts.begin(), texts.end(), label), 1) << label;
  chart.x.title = "message (bytes)";
  chart.series[0].x = {8, 1024, 1 << 20, 1 << 30};
  chart.series[0].y = {1, 2, 3, 4};
  const std::string said = all_text(XmlTree(to_svg(chart)));
  for (const char* label : {"1 KiB", "1 MiB", "1 GiB"}) EXPECT_NE(said.find(label), std::string::npos) << said;
}

TEST(RenderChart, SaysWhatALogarithmicAxisCannotShow) {
  Chart chart = line_chart({1, 2, 4, 8}, {0, -5, 10, 20});
  chart.y.scale = Scale::kLog10;
  const XmlTree svg(to_svg(chart));
  EXPECT_EQ(svg.find("//*[contains(@class, 'pt')]").size(), 2u);
  EXPECT_NE(all_text(svg).find("2 points are zero or negative"), std::string::npos) << all_text(svg);
  EXPECT_EQ(chart_table(chart).rows.size(), 4u);
}

TEST(RenderChart, SaysWhatIsMissingOrOutside) {
  Chart chart = line_chart({1, 2, 4, 8}, {5, kNoNumber, 10, 20});
  chart.y.min = 0;
  chart.y.max = 12;
  const XmlTree svg(to_svg(chart));
  EXPECT_EQ(svg.find("//*[contains(@class, 'pt')]").size(), 2u);
  EXPECT_NE(all_text(svg).find("1 point has no value"), std::string::npos) << all_text(svg);
  EXPECT_NE(all_text(svg).find("1 point lies outside"), std::string::npos) << all_text(svg);
  const std::string path =
      svg.find("//s:g[contains(@class, 'series')]/s:path[@stroke-width='2']")[0].attributes.at("d");
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2) << "the line has a gap at the missing point: " << path;
}

TEST(RenderChart, MarksAnAxisThatDoesNotBeginAtZero) {
  const auto has_break = [](Chart chart) {
    return !XmlTree(to_svg(chart)).find("//s:title[contains(., 'does not begin at zero')]").empty();
  };
  EXPECT_TRUE(has_break(line_chart({1, 2}, {95, 99})));
  EXPECT_FALSE(has_break(line_chart({1, 2}, {1, 99})));
  EXPECT_FALSE(has_break(line_chart({1, 2}, {-95, -99})));
  Chart bars{.title = "t"};
  bars.bars = StackedBars{.bars = {"a", "b"}, .parts = {"p"}, .values = {{95, 99}}};
  EXPECT_FALSE(has_break(bars));
  EXPECT_NE(all_text(XmlTree(to_svg(bars))).find("0"), std::string::npos);
}

TEST(RenderChart, ReferenceLinesAreDashedGreyAndNotData) {
  Chart chart = line_chart({1, 2}, {95, 99});
  chart.series.push_back({.name = "ideal", .x = {1, 2}, .y = {100, 100}, .is_reference = true});
  const XmlTree svg(to_svg(chart));
  EXPECT_EQ(svg.find("//s:g[contains(@class, 'ref')]/s:path[@stroke-dasharray]").size(), 2u) << "line and key";
  EXPECT_EQ(chart_table(chart).columns.size(), 2u);
  EXPECT_EQ(svg.find("//*[contains(@class, 'pt')]").size(), 2u);
}

TEST(RenderChart, ShadesRegionsAndNamesThem) {
  Chart chart = line_chart({0, 1000}, {5, 6});
  chart.regions = {{0, 400, "warm-up"}, {600, 601, "checkpoint written to the parallel file system"}};
  const XmlTree svg(to_svg(chart));
  EXPECT_EQ(svg.find("//s:rect[@class='region']").size(), 2u);
  EXPECT_NE(all_text(svg).find("warm-up"), std::string::npos);
  EXPECT_NE(all_text(svg).find("Shaded from 600 to 601: checkpoint written"), std::string::npos);
}

TEST(RenderChart, MarksTheHighSharesOfStepCurves) {
  Chart chart = line_chart({}, {});
  chart.series[0].mark = Mark::kStep;
  for (int index = 1; index <= 200; ++index) {
    chart.series[0].x.push_back(400 + index);
    chart.series[0].y.push_back(index / 200.0);
  }
  const XmlTree svg(to_svg(chart));
  std::vector<std::string> said;
  for (const XmlElement& marker : svg.find("//*[contains(@class, 'rim pt')]")) said.push_back(marker.text);
  EXPECT_EQ(said, (std::vector<std::string>{"a: nodes 500, rate (1/s) 0.5", "a: nodes 590, rate (1/s) 0.95",
                                            "a: nodes 598, rate (1/s) 0.99"}));
}

TEST(RenderChart, LongLinesKeepTheirExtremesInFewPoints) {
  Chart chart = line_chart({}, {});
  chart.series[0].mark = Mark::kLine;
  for (int index = 0; index < 100000; ++index) {
    chart.series[0].x.push_back(index);
    chart.series[0].y.push_back(index == 77777 ? 900 : 400 + index % 3);
  }
  chart.y.min = 0;
  chart.y.max = 1000;
  const std::string text = to_svg(chart);
  EXPECT_LT(text.size(), 80000u);
  const std::string path = XmlTree(text).find("//s:g[@clip-path]//s:path")[0].attributes.at("d");
  double highest = 1e9;
  for (const std::string& place : core::split(path, "L"))
    if (const auto parts = core::split(place, " "); parts.size() == 2) highest = std::min(highest, std::stod(parts[1]));
  const XmlElement clip = XmlTree(text).find("//s:clipPath/s:rect")[0];
  EXPECT_NEAR(highest, clip.number("y") + 1 + 0.1 * (clip.number("height") - 2), 0.5) << "the spike of 900 of 1000";
}

TEST(RenderChart, ManyMarkersBecomeDots) {
  Chart chart = line_chart({}, {});
  chart.series[0].mark = Mark::kMarkers;
  for (int index = 0; index < 5000; ++index) {
    chart.series[0].x.push_back(index);
    chart.series[0].y.push_back(index % 7);
  }
  const XmlTree svg(to_svg(chart));
  const std::string dots = svg.find("//s:path[@stroke-linecap='round']").at(0).attributes.at("d");
  EXPECT_EQ(std::count(dots.begin(), dots.end(), 'M'), 5000);
  EXPECT_EQ(svg.find("//*[contains(@class, 'pt')]").size(), 60u) << "can be focused";
  EXPECT_EQ(svg.find("//*[@tabindex='0']").size(), 1u);
}

TEST(RenderChart, OddDataNeverFails) {
  const std::vector<std::vector<double>> odd = {{},
                                                {1},
                                                {kNoNumber},
                                                {kInf, -kInf},
                                                {5, 5, 5},
                                                {0, 0},
                                                {-1e308, 1e308},
                                                {1e-310, 2e-310},
                                                {1e-300, 1e300},
                                                {0, 1e-320},
                                                {-3},
                                                {1, kNoNumber, 3}};
  int kind = 0;
  for (const auto& x : odd)
    for (const auto& y : odd)
      for (const Scale scale : {Scale::kLinear, Scale::kLog2, Scale::kLog10}) {
        Chart chart = line_chart(x, y);
        chart.x.scale = chart.y.scale = scale;
        chart.series[0].mark = static_cast<Mark>(kind++ % 5);
        chart.series[0].low = y;
        chart.series[0].high = x;
        const std::string text = to_svg(chart);
        const XmlTree svg(text);
        ASSERT_EQ(core::join(text_problems(svg), "; "), "");
        for (const XmlElement& element : svg.find("//s:line | //s:path | //s:circle | //s:rect | //s:text"))
          for (const char* name : {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "d", "width", "height"})
            ASSERT_TRUE(!element.attributes.contains(name) ||
                        element.attributes.at(name).find_first_of("naife") == std::string::npos)
                << name << " in " << text;
        chart_table(chart);
        to_gnuplot(chart);
      }
}

TEST(RenderChart, ContradictoryAxesAreRepaired) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog2}) {
    Chart chart = line_chart({1, 2}, {5, 6});
    chart.y = {.title = "y", .scale = scale, .min = 10, .max = -3, .ticks = {kNoNumber, -1, 1e9}};
    EXPECT_EQ(text_problems(XmlTree(to_svg(chart))), std::vector<std::string>{});
  }
}

TEST(RenderChart, EmptyChartsSayNoData) {
  EXPECT_NE(all_text(XmlTree(to_svg(Chart{}))).find("no data"), std::string::npos);
  Chart bars;
  bars.bars = StackedBars{};
  EXPECT_NE(all_text(XmlTree(to_svg(bars))).find("no data"), std::string::npos);
}

TEST(RenderChart, HostileNamesStayText) {
  const std::string hostile = "<script>alert('x')</script> & \"quotes\" ]]> \x01 \xff cut \xe2\x82";
  Chart chart = line_chart({1, 2}, {3, 4});
  chart.title = chart.summary = chart.x.title = chart.y.title = chart.series[0].name = hostile;
  chart.series[0].labels = {hostile, hostile};
  chart.id = hostile;
  const XmlTree svg(to_svg(chart));
  EXPECT_TRUE(svg.find("//*[local-name() = 'script']").empty());
  EXPECT_NE(svg.find("/s:svg/s:title")[0].text.find("<script>alert('x')</script> & \"quotes\" ]]>"), std::string::npos);
}

TEST(RenderChart, LongTitlesWrap) {
  Chart chart = line_chart({1, 2}, {3, 4});
  chart.title =
      "A title that is so long that it cannot possibly stand in one line of a narrow drawing without being cut at its "
      "right edge";
  EXPECT_EQ(problems_of(chart, 360), "");
  EXPECT_NE(draw_chart(chart, {.width = 360, .id = "c"}).find("edge</text>"), std::string::npos);
}

TEST(ChartTable, SharedXGiveOneRowEachElseOneRowPerPoint) {
  Chart chart = line_chart({1, 2, 4}, {10, 20, 40});
  chart.series.push_back({.name = "b", .x = {2, 4, 8}, .y = {21, 41, 81}, .low = {20, 40, 80}, .high = {22, 42, 82}});
  const Table wide = chart_table(chart);
  ASSERT_EQ(wide.columns.size(), 5u);
  ASSERT_EQ(wide.rows.size(), 4u);
  EXPECT_EQ(*wide.rows[3][0].value, 8);
  EXPECT_FALSE(wide.rows[3][1].value.has_value());
  EXPECT_EQ(*wide.rows[3][4].value, 82);
  chart.series[1].x = {2, 2, 8};  // one x twice: nothing may be lost
  const Table deep = chart_table(chart);
  ASSERT_EQ(deep.rows.size(), 6u);
  EXPECT_EQ(deep.rows[4][0].text, "b");
  EXPECT_EQ(*deep.rows[4][2].value, 41);
}

}  // namespace
}  // namespace lockstep::draw
