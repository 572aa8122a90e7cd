#include <fmt/format.h>

#include <cmath>

#include "core/strings.h"
#include "draw/palette.h"
#include "draw/render.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

/// A string for gnuplot, which reads backslashes and, unless told otherwise, backquotes inside double quotes.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : one_line(text)) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '`' ? '\'' : c;
  }
  return result + "\"";
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "NaN"; }

std::string axis_script(const Axis& axis, char name) {
  std::string script = fmt::format("set {}label {}\n", name, quoted(axis.title));
  if (axis.scale != Scale::kLinear)
    script += fmt::format("set logscale {} {}\n", name, axis.scale == Scale::kLog2 ? 2 : 10);
  const auto bound = [&](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? fmt::format("{}", *value) : "*";
  };
  script += fmt::format("set {}range [{}:{}]\n", name, bound(axis.min), bound(axis.max));
  if (!axis.ticks.empty()) script += fmt::format("set {}tics ({})\n", name, fmt::join(axis.ticks, ", "));
  return script;
}

double value_or_nan(const std::vector<double>& values, size_t index) {
  return index < values.size() ? values[index] : std::nan("");
}

std::string series_plot(const Series& series, size_t index, const SeriesStyle& style) {
  const std::string data = fmt::format("$data{}", index),
                    title = series.name.empty() ? "notitle" : "title " + quoted(series.name);
  const std::string colour = fmt::format("lc rgb '{}'", style.colour.hex());
  if (series.is_reference) return fmt::format("{} using 1:2 with lines dt 2 {} {}", data, colour, title);
  if (series.mark == Mark::kBand)
    return fmt::format("{} using 1:3:4 with filledcurves fs transparent solid 0.25 {} {}", data, colour, title);
  const char* how = series.mark == Mark::kMarkers ? "points"
                    : series.mark == Mark::kLine  ? "lines"
                    : series.mark == Mark::kStep  ? "fsteps"
                                                  : "linespoints";
  const std::string point =
      series.mark == Mark::kMarkers || series.mark == Mark::kLineMarkers ? fmt::format(" pt {}", style.marker + 4) : "";
  std::string plot = fmt::format("{} using 1:2 with {}{} {} {}", data, how, point, colour, title);
  if (!series.low.empty() && !series.high.empty())
    plot += fmt::format(", \\\n  {} using 1:2:3:4 with yerrorbars pt 0 {} notitle", data, colour);
  return plot;
}

std::string bars_script(const StackedBars& bars) {
  std::string script = "$data << END\n";
  for (size_t bar = 0; bar < bars.bars.size(); ++bar) {
    script += quoted(bars.bars[bar]);
    for (size_t part = 0; part < bars.parts.size(); ++part)
      script += " " + number(part < bars.values.size() ? value_or_nan(bars.values[part], bar) : std::nan(""));
    script += "\n";
  }
  script +=
      "END\nset style data histograms\nset style histogram rowstacked\nset boxwidth 0.7\nset style fill solid 1 border "
      "-1\nset yrange [0:*]\nplot ";
  for (size_t part = 0; part < bars.parts.size(); ++part)
    script += fmt::format("{}$data using {}{} title {} lc rgb '{}'", part > 0 ? ", \\\n  " : "", part + 2,
                          part == 0 ? ":xtic(1)" : "", quoted(bars.parts[part]),
                          series_style(part, bars.parts.size(), false).colour.hex());
  return script + "\n";
}

}  // namespace

std::string to_gnuplot(const Chart& chart) {
  std::string script = fmt::format(
      "# gnuplot script: gnuplot -persist FILE, or with `set terminal` and `set output` before it.\nset encoding "
      "utf8\nset termoption noenhanced\nset title {}\nset grid\nset key outside right\n",
      quoted(chart.title));
  if (chart.bars) {
    script += fmt::format("set xlabel {}\nset ylabel {}\n", quoted(chart.x.title), quoted(chart.y.title));
    return chart.bars->bars.empty() || chart.bars->parts.empty() ? script + "# no data\n"
                                                                 : script + bars_script(*chart.bars);
  }
  script += axis_script(chart.x, 'x') + axis_script(chart.y, 'y');
  size_t num_coloured = 0, coloured = 0, num_references = 0;
  for (const Series& series : chart.series) num_coloured += !series.is_reference;
  std::string plots;
  for (size_t index = 0; index < chart.series.size(); ++index) {
    const Series& series = chart.series[index];
    const SeriesStyle style = series.is_reference ? reference_style(num_references++)
                                                  : series_style(coloured++, num_coloured, chart.is_sequential);
    if (series.x.empty()) continue;
    script += fmt::format("# x y low high\n$data{} << END\n", index);
    for (size_t point = 0; point < series.x.size(); ++point)
      script += fmt::format("{} {} {} {}\n", number(series.x[point]), number(value_or_nan(series.y, point)),
                            number(value_or_nan(series.low, point)), number(value_or_nan(series.high, point)));
    script += "END\n";
    plots += (plots.empty() ? "plot " : ", \\\n  ") + series_plot(series, index, style);
  }
  return script + (plots.empty() ? "# no data\n" : plots + "\n");
}

}  // namespace lockstep::draw
