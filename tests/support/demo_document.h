#pragma once
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "draw/document.h"

namespace lockstep::tests {

/// Numbers between -1 and 1 that are the same everywhere.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed * 2654435761u + 12345) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) / 4503599627370496.0 - 1;
  }

 private:
  uint64_t state_;
};

namespace demo {
using draw::Axis;
using draw::Chart;
using draw::Mark;
using draw::Scale;
using draw::Series;

inline const std::vector<double> kNodes = {1, 2, 4, 8, 16, 32, 64, 128};

inline Axis node_axis() {
  Axis axis{.title = "nodes (4 GPUs each)", .scale = Scale::kLog2, .ticks = kNodes};
  for (const double nodes : kNodes) axis.tick_notes.push_back(std::to_string(static_cast<int>(nodes * 4)) + " GPUs");
  return axis;
}

inline double efficiency(double nodes, double loss) { return 100 / (1 + loss * std::log2(nodes) + 0.0006 * nodes); }

inline Series curve(const std::string& name, double scale, double loss, bool is_per_node) {
  Series series{.name = name};
  Noise noise(static_cast<uint64_t>(loss * 1000));
  for (const double nodes : kNodes) {
    const double share = efficiency(nodes, loss) + (nodes > 1 ? noise.next() * 0.7 : 0);
    const double value = is_per_node ? share * scale : share * scale * nodes;
    series.x.push_back(nodes);
    series.y.push_back(value);
    series.low.push_back(value * 0.985);
    series.high.push_back(value * 1.012);
  }
  return series;
}

inline Chart efficiency_chart() {
  Chart chart{
      .id = "efficiency",
      .title = "Scaling efficiency against one node",
      .summary = "Efficiency falls from 100 % at one node to between 74 and 89 % at 128 nodes.",
      .caption =
          "Per-device throughput at N nodes over that at one node. Bars: 95 % intervals, Student t on run medians.",
      .x = node_axis(),
      .y = {.title = "efficiency (%)", .min = 50, .max = 105}};
  chart.series = {curve("ViT-B-32", 1, 0.03, true), curve("ViT-L-14", 1, 0.017, true),
                  curve("ViT-bigG-14", 1, 0.008, true)};
  chart.series.push_back({.name = "ideal", .x = {1, 128}, .y = {100, 100}, .is_reference = true});
  chart.series.push_back({.name = "80 %", .x = {1, 128}, .y = {80, 80}, .is_reference = true});
  return chart;
}

inline Chart throughput_chart() {
  Chart chart{.id = "throughput",
              .title = "Training throughput",
              .summary = "Throughput grows almost in proportion to the nodes.",
              .caption = "Both axes are logarithmic; the numbers beside the points are efficiencies in percent.",
              .x = node_axis(),
              .y = {.title = "throughput (samples/s)", .scale = Scale::kLog2}};
  for (Series series : {curve("ViT-B-32", 121, 0.03, false), curve("ViT-L-14", 14, 0.017, false)}) {
    for (size_t index = 0; index < series.x.size(); ++index)
      series.labels.push_back(fmt::format("{:.1f} %", 100 * series.y[index] / series.x[index] / series.y[0]));
    chart.series.push_back(
        {.name = "ideal, " + series.name, .x = {1, 128}, .y = {series.y[0], 128 * series.y[0]}, .is_reference = true});
    chart.series.push_back(series);
  }
  return chart;
}

inline Chart mfu_chart() {
  Chart chart{.id = "mfu",
              .title = "Model FLOPs utilisation",
              .summary = "MFU between 21 and 42 %.",
              .caption = "3 x forward FLOP per sample x samples/s/device over the dense bfloat16 peak of 989 TFLOP/s.",
              .x = node_axis(),
              .y = {.title = "MFU (%)", .min = 0}};
  chart.series = {curve("HTSAT-tiny + RoBERTa-base", 0.21, 0.02, true),
                  curve("HTSAT-base + RoBERTa-base", 0.215, 0.015, true), curve("ViT-g-14", 0.42, 0.012, true)};
  return chart;
}

inline Chart speedup_chart() {
  Chart chart{.id = "speedup",
              .title = "Strong scaling: speed-up at a fixed global batch of 1,536",
              .summary = "Speed-up bends away from the diagonal.",
              .caption = "Base: 1 node with 312 samples/s.",
              .x = {.title = "nodes", .min = 0},
              .y = {.title = "speed-up over one node"}};
  Series series{.name = "GPT 857M", .x = kNodes};
  for (const double nodes : kNodes) series.y.push_back(1 / (0.012 + 0.988 / nodes));
  chart.series = {{.name = "ideal", .x = {0, 128}, .y = {0, 128}, .is_reference = true}, series};
  return chart;
}

inline std::vector<Chart> cost_charts() {
  Chart time{.id = "time",
             .title = "Time to solution",
             .summary = "Hours for 12.8 billion samples.",
             .x = node_axis(),
             .y = {.title = "wall time (h)", .scale = Scale::kLog10}};
  Chart cost{.id = "node-hours",
             .title = "Cost",
             .summary = "Node-hours for 12.8 billion samples.",
             .x = node_axis(),
             .y = {.title = "node-hours", .min = 0}};
  Series hours{.name = "ViT-L-14", .x = kNodes}, node_hours{.name = "ViT-L-14", .x = kNodes};
  for (const double nodes : kNodes) {
    hours.y.push_back(2540 / nodes / efficiency(nodes, 0.017) * 100);
    node_hours.y.push_back(254000 / efficiency(nodes, 0.017));
  }
  time.series = {hours};
  cost.series = {node_hours};
  return {time, cost};
}

inline Chart cdf_chart() {
  Chart chart{.id = "cdf",
              .title = "Distribution of step times",
              .summary = "More nodes, longer tails.",
              .caption = "Step time over the median of its size.",
              .x = {.title = "step time / median"},
              .y = {.title = "share of steps", .min = 0, .max = 1},
              .is_sequential = true};
  for (const double nodes : kNodes) {
    Series series{.name = std::to_string(static_cast<int>(nodes)) + (nodes == 1 ? " node" : " nodes"),
                  .mark = Mark::kStep};
    for (int index = 0; index <= 120; ++index) {
      const double share = index / 120.0, elbow = 0.99 - 0.05 * std::log2(nodes);
      series.x.push_back(
          0.985 + 0.02 * share +
          (share > elbow ? (0.04 + 0.012 * std::log2(nodes)) * (share - elbow) / (1 - elbow) * (1 + share) : 0));
      series.y.push_back(share);
    }
    chart.series.push_back(series);
  }
  return chart;
}

inline Chart trace_chart() {
  Chart chart{.id = "trace",
              .title = "Step times of the run on 64 nodes",
              .summary = "Warm-up ends after 50 steps; every 250th step is slow.",
              .caption = "Largest over the ranks.",
              .x = {.title = "step", .min = 0},
              .y = {.title = "step time (ms)"}};
  Series steps{.name = "step", .mark = Mark::kLine}, median{.name = "rolling median", .mark = Mark::kLine},
      outliers{.name = "outlier", .mark = Mark::kMarkers};
  Noise noise(7);
  for (int step = 0; step < 2000; ++step) {
    double time_ms = 412 + 4 * noise.next() + 160 * std::exp(-step / 12.0);
    if (step > 100 && step % 250 == 0) {
      time_ms += 92 + 10 * noise.next();
      outliers.x.push_back(step);
      outliers.y.push_back(time_ms);
    }
    steps.x.push_back(step);
    steps.y.push_back(time_ms);
    if (step % 20 == 10) {
      median.x.push_back(step);
      median.y.push_back(412 + 160 * std::exp(-step / 12.0));
    }
  }
  chart.series = {steps, median, outliers};
  chart.regions = {{.from = 0, .to = 50, .label = "warm-up"}, {.from = 1500, .to = 2000, .label = "second regime"}};
  return chart;
}

inline Chart breakdown_chart() {
  Chart chart{.id = "breakdown",
              .title = "Where the step time goes",
              .summary = "Exposed communication grows from 0 to 90 ms.",
              .caption = "Means over all measured steps; the parts add up to the step time.",
              .x = {.title = "nodes"},
              .y = {.title = "time per step (ms)"}};
  draw::StackedBars bars{
      .parts = {"compute", "exposed DP communication", "feature gather", "optimiser", "data wait", "skew", "rest"}};
  bars.values.resize(bars.parts.size());
  for (const double nodes : kNodes) {
    bars.bars.push_back(std::to_string(static_cast<int>(nodes)));
    const double log_nodes = std::log2(nodes);
    const std::vector<double> parts = {
        318, 12.4 * log_nodes, 5.5 * log_nodes, 14, 2 + 0.3 * log_nodes, 1 + 3.1 * log_nodes, 6.2};
    for (size_t part = 0; part < parts.size(); ++part) bars.values[part].push_back(parts[part]);
  }
  chart.bars = bars;
  return chart;
}

inline Chart collective_chart() {
  Chart chart{.id = "all-reduce",
              .title = "All-reduce bus bandwidth",
              .summary = "Bandwidth saturates near 170 GB/s above 64 MiB.",
              .caption = "Median of 50 calls per size; the band holds 90 % of the model's predictions.",
              .x = {.title = "message size (bytes)", .scale = Scale::kLog2},
              .y = {.title = "bus bandwidth (GB/s)", .min = 0}};
  Series model{.name = "model, 90 % band", .mark = Mark::kBand};
  for (int power = 3; power <= 33; ++power) {
    const double bytes = std::exp2(power), rate = 172 * bytes / (bytes + 6e6);
    model.x.push_back(bytes);
    model.low.push_back(rate * 0.88);
    model.high.push_back(rate * 1.1);
  }
  Series measured{.name = "measured, 32 ranks"};
  Noise noise(3);
  for (int power = 3; power <= 33; ++power) {
    measured.x.push_back(std::exp2(power));
    measured.y.push_back(172 * std::exp2(power) / (std::exp2(power) + 6e6) * (1 + 0.05 * noise.next()));
  }
  chart.series = {model, measured};
  return chart;
}

inline draw::Table scaling_table() {
  draw::Table table{
      .id = "scaling",
      .title = "Weak scaling of ViT-L-14 on JUPITER",
      .caption = "Local batch 256, bfloat16, 300 measured steps per run, three runs per size.",
      .columns = {{"model", "model", true},
                  {"nodes", "nodes"},
                  {"GPUs", "devices"},
                  {"global batch", "global_batch"},
                  {"samples/s", "samples_per_s"},
                  {"samples/s/GPU", "samples_per_s_per_device"},
                  {"speed-up", "speed_up"},
                  {"efficiency (%)", "efficiency_percent"},
                  {"MFU (%)", "mfu_percent"},
                  {"step p50 (ms)", "step_p50_ms"},
                  {"p95 (ms)", "step_p95_ms"},
                  {"p99 (ms)", "step_p99_ms"},
                  {"runs", "runs"},
                  {"checks", "checks", true}},
      .notes = {"Intervals: Student t on the medians of the runs (95 %).", "Node-hours include start-up."}};
  for (const double nodes : kNodes) {
    const double share = efficiency(nodes, 0.017), rate = 1400 * nodes * share / 100;
    draw::Cell checks{.text = nodes == 128 ? "M04" : ""};
    if (nodes == 128)
      checks.note = "single-run: one allocation at this size; repeat it before relying on the last digits.";
    draw::Cell p99{.text = fmt::format("{:.0f}", 803 / share * 100), .value = 803 / share * 100};
    if (nodes == 1) p99 = {.note = "fewer than 100 measured steps"};
    table.rows.push_back({{.text = "ViT-L-14"},
                          {.text = fmt::format("{:.0f}", nodes), .value = nodes},
                          {.text = fmt::format("{:.0f}", 4 * nodes), .value = 4 * nodes},
                          {.text = fmt::format("{:.0f}", 1024 * nodes), .value = 1024 * nodes},
                          {.text = fmt::format("{:.0f} +- {:.0f}", rate, rate * 0.01), .value = rate},
                          {.text = fmt::format("{:.1f}", rate / nodes / 4), .value = rate / nodes / 4},
                          {.text = fmt::format("{:.2f}", nodes * share / 100), .value = nodes * share / 100},
                          {.text = fmt::format("{:.1f}", share), .value = share},
                          {.text = fmt::format("{:.1f}", share * 0.39), .value = share * 0.39},
                          {.text = fmt::format("{:.0f}", 731 / share * 100), .value = 731 / share * 100},
                          {.text = fmt::format("{:.0f}", 760 / share * 100), .value = 760 / share * 100},
                          p99,
                          {.text = nodes == 128 ? "1" : "3", .value = nodes == 128 ? 1.0 : 3.0},
                          checks});
  }
  return table;
}

}  // namespace demo

/// A report with every kind of chart and paragraph that measuring needs.
inline draw::Document demo_document() {
  using draw::Paragraph;
  using Kind = draw::Paragraph::Kind;
  const std::vector<draw::Chart> cost = demo::cost_charts();
  return {
      .title = "Scaling of CLIP training on JUPITER",
      .subtitle = "ViT-B-32 to ViT-bigG-14 on 1 to 128 nodes, 4 GH200 each",
      .sections =
          {{.id = "result",
            .title = "Result",
            .blocks =
                {Paragraph{.text = "ViT-L-14 trains at 88.9 % efficiency on 128 nodes (512 GPUs) against one node, at "
                                   "34.7 % of the dense peak. Most of the loss is exposed communication."},
                 Paragraph{
                     .text = "One size was measured in a single allocation only; its interval is that of one run.",
                     .kind = Kind::kWarning},
                 demo::scaling_table(), demo::efficiency_chart()}},
           {.id = "rates",
            .title = "Throughput and utilisation",
            .blocks = {demo::throughput_chart(), demo::mfu_chart(), demo::speedup_chart()}},
           {.id = "cost",
            .title = "What it costs",
            .blocks = {Paragraph{.text = "For 12.8 billion samples seen.", .kind = Kind::kNote}, cost[0], cost[1]}},
           {.id = "steps",
            .title = "Inside the steps",
            .blocks = {demo::cdf_chart(), demo::trace_chart(), demo::breakdown_chart(), demo::collective_chart()}},
           {.id = "method",
            .title = "Method",
            .blocks = {Paragraph{.text = "Each point is the median of run medians. Warm-up was detected and left out."},
                       Paragraph{
                           .text = "srun lockstep train clip --train-data '/data/{00000..41455}.tar' --model ViT-L-14 "
                                   "\\\n  --precision amp_bf16 --batch-size 256 --local-loss --gather-with-grad",
                           .kind = Kind::kCode}}}},
      .data_json = R"({"runs": [{"name": "n1", "note": "</script><b>"}]})"};
}

}  // namespace lockstep::tests
