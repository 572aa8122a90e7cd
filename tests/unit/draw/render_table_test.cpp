#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/strings.h"
#include "draw/render.h"
#include "draw/table_layout.h"
#include "draw/text_metrics.h"
#include "support/demo_document.h"

namespace lockstep::draw {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
const std::string kHostile =
    "<script>alert(1)</script> a|b *c* _d_ `e` \\f 50% $g$ #h ~i ^j {k} [l](m) \"n\" 'o' & p\nq \x01\xff \xe2\x82";

Table small_table() {
  return {.id = "t",
          .title = "Scaling",
          .columns = {{"model", "model", true}, {"nodes", "nodes"}, {"efficiency (%)", "efficiency_percent"}},
          .rows = {{{.text = "ViT-B-32"}, {.text = "1", .value = 1}, {.text = "100.0", .value = 100}},
                   {{.text = "ViT-B-32"},
                    {.text = "8", .value = 8},
                    {.text = "93.7 +- 0.4", .value = 93.71828182845904, .note = "one run"}},
                   {{.text = "ViT-B-32"}, {.text = "16", .value = 16}, {.note = "job failed"}}},
          .notes = {"Base: one node."}};
}

Table one_cell(const Cell& cell, bool is_text = false) {
  return {.id = "t", .columns = {{"c", "c", is_text}}, .rows = {{cell}}};
}

/// Fields of a CSV text, read as RFC 4180 says; fails the test on anything else.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  size_t at = 0;
  while (at < text.size()) {
    rows.emplace_back();
    for (bool is_last = false; !is_last;) {
      std::string field;
      if (text[at] == '"') {
        for (++at; text[at] != '"' || text[at + 1] == '"'; ++at) {
          field += text[at];
          if (text[at] == '"') ++at;
        }
        ++at;
      } else {
        while (text[at] != ',' && text[at] != '\r') field += text[at++];
      }
      rows.back().push_back(field);
      is_last = text[at] == '\r';
      EXPECT_TRUE(text[at] == ',' || text.compare(at, 2, "\r\n") == 0) << "at " << at;
      at += is_last ? 2 : 1;
    }
  }
  return rows;
}

TEST(RenderCsv, HasKeysUnroundedNumbersAndNotes) {
  EXPECT_EQ(to_csv(small_table()),
            "model,nodes,efficiency_percent,notes\r\n"
            "ViT-B-32,1,100,\r\n"
            "ViT-B-32,8,93.71828182845904,efficiency_percent: one run\r\n"
            "ViT-B-32,16,,efficiency_percent: job failed\r\n");
}

TEST(RenderCsv, QuotesWhatNeedsIt) {
  const auto rows = parse_csv(to_csv(one_cell({.text = "a \"b\", c\nd"}, true)));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][0], "a \"b\", c\nd");
  EXPECT_EQ(parse_csv(to_csv(one_cell({.text = kHostile}, true)))[1][0], clean_text(kHostile));
}

TEST(RenderCsv, NumbersReadBackExactlyAndMissingOnesAreEmpty) {
  for (const double value : {0.1, 1.0 / 3, 1e-300, 123456789012345680.0, -0.0})
    EXPECT_EQ(*core::parse_double(parse_csv(to_csv(one_cell({.text = "x", .value = value})))[1][0]), value);
  EXPECT_EQ(to_csv(one_cell({.value = kNoValue})), "c\r\n\r\n");
}

TEST(RenderText, FitsTheTerminalWithEveryValue) {
  for (const int width : {40, 80, 120}) {
    const std::string text = to_text(tests::demo::scaling_table(), width);
    for (const std::string& line : core::split(text, "\n")) EXPECT_LE(terminal_columns(line), width) << line;
    for (const auto& row : tests::demo::scaling_table().rows)
      for (const Cell& cell : row) {
        for (const std::string& word : core::split(cell.text, " "))
          EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
      }
  }
}

TEST(RenderText, AlignsColumnsAndExplainsNotes) {
  EXPECT_EQ(to_text(small_table()),
            "Scaling\n\n"
            "model     nodes   efficiency (%)\n"
            "--------------------------------\n"
            "ViT-B-32      1            100.0\n"
            "ViT-B-32      8  93.7 +- 0.4 [1]\n"
            "ViT-B-32     16            - [2]\n\n"
            "[1] one run\n[2] job failed\n* Base: one node.\n");
}

TEST(RenderText, WrapsLongTextsAndSplitsWideTables) {
  Table table = one_cell(
      {.text = "The quick brown fox jumps over the lazy dog and then over the fence and then over the hill and away"},
      true);
  table.columns.push_back({"number", "number"});
  table.rows[0].push_back({.text = "12345"});
  const std::string text = to_text(table, 40);
  for (const std::string& line : core::split(text, "\n")) EXPECT_LE(line.size(), 40u);
  EXPECT_NE(text.find("away"), std::string::npos);
  Table wide = {.columns = {{"name", "name", true}}, .rows = {{{.text = "run"}}}};
  for (int column = 0; column < 30; ++column) {
    wide.columns.push_back({fmt::format("column {}", column), "k"});
    wide.rows[0].push_back({.text = fmt::format("{}", 1000 + column)});
  }
  const std::string split = to_text(wide, 80);
  EXPECT_GT(core::split(split, "run ").size(), 3u) << "the first column leads every part:\n" << split;
  for (int column = 0; column < 30; ++column) EXPECT_NE(split.find(std::to_string(1000 + column)), std::string::npos);
}

/// Every word of `words` stands in one piece somewhere.
void expect_whole(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
}

TEST(RenderText, WordsAreWrappedAtSpacesAndBrokenOnlyBehindSigns) {
  Table table{.id = "t",
              .columns = {{"run", "run", true},
                          {"configuration", "configuration", true},
                          {"verdict", "verdict", true},
                          {"formula", "formula", true}},
              .rows = {{{.text = "clap-n128-repeat1"},
                        {.text = "gradient_accumulation"},
                        {.text = "follows only from values before rounding"},
                        {.text = "samples/s/GPU over that of the base, in the unrounded numbers"}}}};
  const std::string text = to_text(table, 80);
  for (const std::string& line : core::split(text, "\n")) EXPECT_LE(terminal_columns(line), 80) << line;
  expect_whole(
      text, {"clap-n128-repeat1", "configuration", "gradient_accumulation", "rounding", "samples/s/GPU", "unrounded"});
  // Two names that have no room beside each other are broken where a reader would break them.
  const Table pair{.columns = {{"run", "run", true}, {"option", "option", true}},
                   .rows = {{{.text = "/scratch/project_465/sweeps/clap-scaling/runs/0003-nodes-4-batch-616"},
                             {.text = "gradient_accumulation_fusion_with_overlapping_reduce_scatter"}}}};
  const std::string narrow = to_text(pair, 80);
  const std::vector<std::string> lines = core::split(narrow, "\n");
  ASSERT_GT(lines.size(), 4u) << "a head, a rule and more than one line:\n" << narrow;
  for (size_t line = 2; line < lines.size(); ++line) {
    EXPECT_LE(terminal_columns(lines[line]), 80) << narrow;
    for (const std::string& word : core::split(lines[line], " "))
      EXPECT_TRUE(word.empty() || word.find_last_of("/_-") == word.size() - 1 || word.ends_with("616") ||
                  word.ends_with("scatter"))
          << word << " in\n"
          << narrow;
  }
}

/// Rows that differ in three of five columns only, with more numbers than a line holds.
Table keyed_table() {
  Table table{.id = "t",
              .columns = {{"run", "run", true},
                          {"operation", "operation", true},
                          {"buffer", "buffer", true},
                          {"ranks", "ranks"},
                          {"bytes", "bytes"}},
              .rows = {}};
  for (int column = 0; column < 9; ++column)
    table.columns.push_back({fmt::format("value {}", column), fmt::format("v{}", column)});
  for (const char* run : {"all_reduce_1n.txt", "all_reduce_2n.txt"})
    for (const char* buffer : {"out of place", "in place"})
      for (const char* bytes : {"8", "16,384"}) {
        table.rows.push_back({{.text = run},
                              {.text = "all_reduce"},
                              {.text = buffer},
                              {.text = run[11] == '1' ? "4" : "8"},
                              {.text = bytes}});
        for (int column = 0; column < 9; ++column) table.rows.back().push_back({.text = "1,234,567.8"});
      }
  return table;
}

TEST(RenderText, EveryPartOfASplitTableTellsItsRowsApart) {
  EXPECT_EQ(key_columns(keyed_table()), (std::vector<size_t>{0, 2, 4}))
      << "the operation is always the same, and the run tells the ranks";
  const std::string text = to_text(keyed_table(), 80);
  size_t num_parts = 0;
  for (const std::string& part : core::split(text, "\n\n")) {
    if (part.find("---") == std::string::npos) continue;
    ++num_parts;
    std::set<std::string> rows;
    const std::vector<std::string> lines = core::split(part, "\n");
    for (const std::string& line : lines) {
      EXPECT_LE(terminal_columns(line), 80) << line;
      if (core::starts_with(line, "all_reduce_")) rows.insert(line);
    }
    EXPECT_EQ(rows.size(), keyed_table().rows.size()) << "every row differs from all others:\n" << part;
  }
  EXPECT_GT(num_parts, 2u) << text;
  Table same = keyed_table();
  same.rows.push_back(same.rows.back());
  EXPECT_EQ(key_columns(same), std::vector<size_t>{0}) << "two equal rows: nothing tells them apart";
  EXPECT_EQ(key_columns(Table{}), std::vector<size_t>{});
}

TEST(RenderText, KeysThatLeaveNoRoomGiveWay) {
  const double wide = 50;
  const std::vector<TablePart> parts =
      lay_out_table({{wide, wide, wide}, {wide, wide, wide}, {20, 20, 20}, {20, 20, 20}}, {0, 1}, 2, 80);
  ASSERT_EQ(parts.size(), 3u) << "the second key stands like any column";
  for (const TablePart& part : parts) {
    EXPECT_EQ(part.front().column, 0u);
    EXPECT_EQ(part.size(), 2u);
  }
}

TEST(RenderText, OddTablesNeverFail) {
  EXPECT_EQ(to_text(Table{}), "(no rows)\n");
  EXPECT_NE(to_text(Table{.columns = {{"a", "a"}}}).find("(no rows)"), std::string::npos);
  const Table ragged{.columns = {{"a", "a"}, {"b", "b"}}, .rows = {{}, {{.text = "1"}, {.text = "2"}, {.text = "3"}}}};
  EXPECT_NE(to_text(ragged).find("-  -"), std::string::npos);
  EXPECT_EQ(to_text(ragged).find('3'), std::string::npos);
  for (const int width : {-5, 0, 1, 20}) EXPECT_NE(to_text(one_cell({.text = kHostile}, true), width), "");
  EXPECT_EQ(to_text(one_cell({.text = kHostile}, true)).find('\x01'), std::string::npos);
}

TEST(RenderMarkdown, IsATableOfGitHubsKind) {
  EXPECT_EQ(to_markdown(small_table()),
            "### Scaling\n\n"
            "| model | nodes | efficiency (%) |\n"
            "| :-- | --: | --: |\n"
            "| ViT-B-32 | 1 | 100.0 |\n"
            "| ViT-B-32 | 8 | 93.7 +- 0.4 <sup>1</sup> |\n"
            "| ViT-B-32 | 16 | - <sup>2</sup> |\n\n"
            "1. one run\n2. job failed\n\n- Base: one node.\n");
}

TEST(RenderMarkdown, HostileTextStaysText) {
  const std::string text = to_markdown(one_cell({.text = kHostile}, true));
  EXPECT_EQ(core::split(text, "\n").size(), 4u) << "head, rule, one row, end";
  for (const char* markup : {"<script", " *c*", " _d_", "`e`", " a|b", "[l](m)"})
    EXPECT_EQ(text.find(markup), std::string::npos) << markup;
  EXPECT_NE(text.find("&lt;script&gt;"), std::string::npos);
}

TEST(RenderMarkdown, DocumentHasHeadingsPicturesDataAndCode) {
  Document document = tests::demo_document();
  document.sections[0].blocks.push_back(Paragraph{.text = "1. not a list\n- nor this\n# nor a heading"});
  document.sections[0].blocks.push_back(Paragraph{.text = "code with ``` inside", .kind = Paragraph::Kind::kCode});
  const std::string text = to_markdown(document);
  EXPECT_TRUE(core::starts_with(text, "# Scaling of CLIP training on JUPITER\n"));
  EXPECT_NE(text.find("\n## Throughput and utilisation\n"), std::string::npos);
  EXPECT_NE(text.find("](figures/efficiency.svg)\n"), std::string::npos);
  EXPECT_NE(text.find("| nodes (4 GPUs each) | ViT-B-32 |"), std::string::npos) << "data of a short chart";
  EXPECT_NE(text.find("[figures/trace.csv](figures/trace.csv), 2107 rows"), std::string::npos)
      << "data of a long chart";
  EXPECT_NE(text.find("> **Warning.** One size"), std::string::npos);
  EXPECT_NE(text.find("\n1\\. not a list\n\\- nor this\n\\# nor a heading\n"), std::string::npos);
  EXPECT_NE(text.find("\n````\ncode with ``` inside\n````\n"), std::string::npos);
}

TEST(RenderMarkdown, AnIntervalThatDoesNotExistIsADash) {
  const double nan = std::nan("");
  Chart chart{.id = "efficiency", .title = "Efficiency"};
  chart.series.push_back({.name = "a", .x = {1, 2}, .y = {100, 95}, .low = {nan, 94}, .high = {nan, 96}});
  const std::string text =
      to_markdown(Document{.title = "T", .sections = {{.id = "s", .title = "S", .blocks = {chart}}}});
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_NE(text.find("| 1 | 100 | - | - |"), std::string::npos) << text;
}

TEST(RenderLatex, IsABooktabsTable) {
  const std::string text = to_latex(small_table());
  for (const char* part :
       {"\\begin{tabular}{@{}lrr@{}}\n\\toprule\n",
        "model & nodes & \\begin{tabular}[b]{@{}r@{}}efficiency\\\\(\\%)\\end{tabular} \\\\\n\\midrule\n",
        "ViT-B-32 & 8 & 93.7 $\\pm$ 0.4\\textsuperscript{1} \\\\\n", "ViT-B-32 & 16 & --\\textsuperscript{2} \\\\\n",
        "\\bottomrule\n\\end{tabular}\n", "\\caption{Scaling}\n\\label{tab:t}", "Base: one node.\\par"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(RenderLatex, EscapesWhatIsSpecial) {
  const std::string text = to_latex(one_cell({.text = "50% & $x_1$ #2 \\input{/etc/passwd} ~ ^ <>|"}, true));
  EXPECT_NE(text.find("50\\% \\& \\$x\\_1\\$ \\#2 \\textbackslash{}input\\{/etc/passwd\\} \\textasciitilde{} "
                      "\\textasciicircum{} $<$$>$$|$ \\\\"),
            std::string::npos)
      << text;
  EXPECT_NE(to_latex(one_cell({.text = "\xc3\xbc \xc2\xb5s \xe2\x89\xa5 \xe4\xb8\xad"}, true))
                .find("\xc3\xbc $\\mu$s $\\ge$ \\texttt{U+4E2D}"),
            std::string::npos);
  const std::string signs = to_latex(Table{
      .id = "t", .caption = "+- is half; --budget-samples", .columns = {{"c", "c"}}, .rows = {{{.text = "5 +- 1"}}}});
  for (const char* part : {"\\caption{$\\pm$ is half; -{}-budget-samples}", "5 $\\pm$ 1"})
    EXPECT_NE(signs.find(part), std::string::npos) << signs;
  EXPECT_NE(to_latex(one_cell({.text = "-3.5", .value = -3.5})).find("$-$3.5"), std::string::npos);
}

/// Width in points in Computer Modern of 8 pt, from the characters: most take no more than a digit, signs of
/// punctuation and spaces little more than half of it.
double latex_width(const std::string& text) {
  double width = 0;
  for (const char c : text)
    width += 8 * (std::string_view(" .,:;()li|-").find(c) != std::string_view::npos ? 0.354 : 0.531);
  return width;
}

/// Width in points of the widest line of a LaTeX table in a size of 8 pt, from its characters.
double widest_latex_line(const std::string& latex) {
  constexpr double kGapPt = 6;
  double widest = 0;
  std::vector<std::string> tabulars = core::split(latex, "\\begin{tabular}{@{}");
  tabulars.erase(tabulars.begin());
  for (const std::string& tabular : tabulars) {
    std::map<size_t, double> widths;
    const std::string body = tabular.substr(tabular.find("\\midrule\n") + 9);
    size_t column = 0;
    const std::string layout = tabular.substr(0, tabular.find("@{}}"));
    std::vector<double> paragraphs;
    for (size_t at = 0; at < layout.size(); ++at) {
      paragraphs.push_back(
          layout[at] == 'p' ? core::parse_double(layout.substr(at + 2, layout.find("pt", at) - at - 2)).value() : 0);
      if (layout[at] == 'p') at = layout.find('}', at);
    }
    for (const std::string& row : core::split(body.substr(0, body.find("\\bottomrule")), "\n")) {
      column = 0;
      for (std::string cell : core::split(row, " & ")) {
        for (const char* command : {" \\\\", "$", "\\pm", "\\textsuperscript", "\\", "{", "}"})
          cell = core::replace_all(cell, command, std::string(command) == "\\pm" ? "-" : "");
        const bool is_paragraph = column < paragraphs.size() && paragraphs[column] > 0;
        widths[column] = std::max(widths[column], is_paragraph ? paragraphs[column] : latex_width(cell));
        ++column;
      }
    }
    double width = -kGapPt;
    for (const auto& [index, each] : widths) width += each + kGapPt;
    widest = std::max(widest, width);
  }
  return widest;
}

TEST(RenderLatex, FitsTheLinesOfA4AndRepeatsTheKeys) {
  constexpr double kA4LinePt = 345;
  for (const Table& table : {keyed_table(), tests::demo::scaling_table()}) {
    const std::string text = to_latex(table);
    EXPECT_LE(widest_latex_line(text), kA4LinePt + 5) << text;
    EXPECT_GT(widest_latex_line(text), kA4LinePt / 3) << "the line is used:\n" << text;
  }
  const std::string text = to_latex(keyed_table());
  const size_t num_parts = core::split(text, "\\midrule").size() - 2;  // one is its definition
  EXPECT_GT(num_parts, 1u) << text;
  EXPECT_EQ(core::split(text, "16,384").size() - 1, 4 * num_parts) << "the size of a message stands in each part:\n"
                                                                   << text;
}

TEST(RenderLatex, LongTextsAreParagraphsThatBreakAtSigns) {
  const std::string path =
      "/scratch/project_465/sweeps/clap-scaling/runs/0003-nodes-4-batch-616/out.log/and/even/more/folders/to/come";
  const Table table{
      .id = "t",
      .columns = {{"item", "item", true}, {"value", "value"}, {"source", "source", true}},
      .rows = {{{.text = "work"},
                {.text = "10,000"},
                {.text = "default; give --budget-samples for other amounts of work than this one, or --budget-tokens"}},
               {{.text = "log"}, {.text = "1"}, {.text = path}}}};
  const std::string text = to_latex(table);
  for (const char* part :
       {"p{", "\\raggedright default; give -{}-budget-samples for", "\\allowbreak{}", "\\tabularnewline\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_LE(widest_latex_line(text), 350) << text;
}

TEST(RenderLatex, LongTablesComePageByPage) {
  Table table = small_table();
  for (int row = 0; row < 120; ++row)
    table.rows.push_back({{.text = fmt::format("model-{}", row)}, {.text = "1"}, {.text = "2"}});
  const std::string text = to_latex(table);
  const size_t num_pages = core::split(text, "\\begin{table}").size() - 1;
  EXPECT_GE(num_pages, 3u);
  EXPECT_NE(text.find(fmt::format("\\caption{{Scaling ({0} of {0})}}", num_pages)), std::string::npos) << text;
  for (int row = 0; row < 120; ++row) EXPECT_EQ(core::split(text, fmt::format("model-{} &", row)).size(), 2u) << row;
  EXPECT_EQ(core::split(text, "Base: one node.").size(), 2u) << "notes stand once";
}

TEST(RenderGnuplot, CarriesItsData) {
  const std::string script =
      to_gnuplot({.id = "c",
                  .title = "a \"title\" with \\ and `ls`",
                  .x = {.title = "nodes", .scale = Scale::kLog2, .ticks = {1, 2}},
                  .y = {.title = "%", .min = 0},
                  .series = {{.name = "s", .x = {1, 2}, .y = {3.25, kNoValue}, .low = {3, 4}, .high = {4, 5}}}});
  for (const char* part : {"set title \"a \\\"title\\\" with \\\\ and 'ls'\"", "set logscale x 2", "set yrange [0:*]",
                           "$data0 << END\n1 3.25 3 4\n2 NaN 4 5\nEND\n", "with linespoints", "yerrorbars"})
    EXPECT_NE(script.find(part), std::string::npos) << part << " in\n" << script;
}

}  // namespace
}  // namespace lockstep::draw
