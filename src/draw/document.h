#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::draw {

/// One cell: what is shown, and the number behind it (for CSV, JSON, sorting). A cell with neither is shown as a dash.
struct Cell {
  std::string text{};             ///< As printed, e.g. "87.3" or "5.2 +- 0.3".
  std::optional<double> value{};  ///< Unrounded.
  std::string note{};  ///< Why it is missing, flagged or not what it seems; shown on focus and below the table.
};

struct Column {
  std::string title{};   ///< With unit: "step p50 (ms)".
  std::string key{};     ///< Machine name for CSV and JSON: "step_p50_ms".
  bool is_text = false;  ///< Left-aligned.
};

struct Table {
  std::string id{};  ///< File name stem and anchor: "scaling".
  std::string title{}, caption{};
  std::vector<Column> columns{};
  std::vector<std::vector<Cell>> rows{};
  std::vector<std::string> notes{};
};

enum class Scale { kLinear, kLog2, kLog10 };

struct Axis {
  std::string title{};  ///< With unit. A logarithmic axis whose title says bytes has ticks in KiB, MiB, GiB.
  Scale scale = Scale::kLinear;
  std::optional<double> min{}, max{};  ///< Default: from the data.
  std::vector<double> ticks{};         ///< Default: chosen. Log2 axes over nodes: the values of the data.
  /// Second line under each of `ticks` on an x axis ("16 GPUs"); empty or as long as they.
  std::vector<std::string> tick_notes{};
};

enum class Mark { kMarkers, kLine, kLineMarkers, kStep, kBand };

struct Series {
  std::string name{};
  Mark mark = Mark::kLineMarkers;
  std::vector<double> x{}, y{};
  std::vector<double> low{}, high{};  ///< Interval bars or band around y; empty or as long as y.
  std::vector<std::string> labels{};  ///< Text beside each point (efficiency in %); empty or as long as y.
  bool is_reference = false;          ///< Ideal line: dashed, grey, not a series of the data table.
};

struct StackedBars {
  std::vector<std::string> bars{};            ///< Names along x.
  std::vector<std::string> parts{};           ///< From the bottom, constant order.
  std::vector<std::vector<double>> values{};  ///< values[part][bar]
};

/// A stretch of the x axis to shade (warm-up steps).
struct Region {
  double from = 0, to = 0;
  std::string label{};
};

/// One drawing; the renderer chooses colours, dashes, markers, legend or direct labels, and adds the data as a table.
struct Chart {
  std::string id{};  ///< File name stem and anchor: "efficiency".
  std::string title{};
  std::string summary{};  ///< One or two sentences for readers who cannot see it.
  std::string caption{};
  Axis x{}, y{};
  std::vector<Series> series{};
  std::vector<Region> regions{};
  std::optional<StackedBars> bars{};  ///< Instead of series; the x axis then only gives its title.
  bool is_sequential = false;         ///< Series are ordered (sizes): sequential colours instead of categorical ones.
};

struct Paragraph {
  std::string text{};
  enum class Kind {
    kText,
    kNote,
    kWarning,
    kCode,
    kList
  } kind = Kind::kText;  ///< Of a list each line of the text is an item.
};

using Block = std::variant<Paragraph, Table, Chart>;

struct Section {
  std::string id{}, title{};
  std::vector<Block> blocks{};
};

struct Document {
  std::string title{}, subtitle{};
  std::vector<Section> sections{};
  std::string data_json{};  ///< Raw data embedded in the page, so that every number can be recomputed from it.
};

}  // namespace lockstep::draw
