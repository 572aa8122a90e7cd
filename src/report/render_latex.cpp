#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/strings.h"
#include "report/block_names.h"
#include "report/render.h"
#include "report/text_metrics.h"

namespace lockstep::report {
namespace {

constexpr std::array<std::pair<char32_t, const char*>, 30> kSymbols = {{
    {'\\', "\\textbackslash{}"}, {'{', "\\{"}, {'}', "\\}"}, {'$', "\\$"}, {'&', "\\&"}, {'#', "\\#"}, {'_', "\\_"}, {'%', "\\%"},
    {'^', "\\textasciicircum{}"}, {'~', "\\textasciitilde{}"}, {'<', "$<$"}, {'>', "$>$"}, {'|', "$|$"}, {'"', "''"}, {'[', "{[}"}, {']', "{]}"},
    {'\n', " "}, {0xA0, "~"}, {0xB0, "$^\\circ$"}, {0xB1, "$\\pm$"}, {0xB2, "$^2$"}, {0xB3, "$^3$"}, {0xB5, "$\\mu$"}, {0xB7, "$\\cdot$"},
    {0xD7, "$\\times$"}, {0x2013, "--"}, {0x2014, "---"}, {0x2192, "$\\to$"}, {0x2264, "$\\le$"}, {0x2265, "$\\ge$"},
}};

/// Text for LaTeX without packages: what is special is escaped, letters that the engine may lack become their code point.
std::string escape_latex(std::string_view text) {
  std::string escaped;
  const std::string clean = clean_text(text);
  for (const char32_t point : code_points(clean)) {
    const auto found = std::find_if(kSymbols.begin(), kSymbols.end(), [&](const auto& each) { return each.first == point; });
    if (found != kSymbols.end()) escaped += found->second;
    else if (point < 0x7F) escaped += static_cast<char>(point);
    else if (point >= 0xC0 && point < 0x180) escaped += {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
    else escaped += fmt::format("\\texttt{{U+{:04X}}}", static_cast<uint32_t>(point));
  }
  return escaped;
}

/// A cell: "+-" becomes the sign, a leading minus the mathematical one, a blank a dash.
std::string cell_latex(const Cell& cell, bool is_text) {
  if (is_blank(cell)) return "--";
  const std::string text = cell_text(cell);
  if (is_text) return escape_latex(text);
  const bool is_negative = text.size() > 1 && text[0] == '-' && ((text[1] >= '0' && text[1] <= '9') || text[1] == '.');
  std::string escaped = escape_latex(is_negative ? text.substr(1) : text);
  escaped = core::replace_all(escaped, " +- ", " $\\pm$ ");
  return is_negative ? "$-$" + escaped : escaped;
}

std::string note_mark(size_t number) { return fmt::format("\\textsuperscript{{{}}}", number); }

}  // namespace

std::string to_latex(const Table& table) {
  const TableNotes notes = collect_notes(table);
  const size_t num_columns = std::max<size_t>(1, table.columns.size());
  std::string layout;
  for (const Column& column : table.columns) layout += column.is_text ? 'l' : 'r';
  if (layout.empty()) layout = "l";
  std::string text = "% The rules of booktabs; plain lines where that package is not loaded.\n"
                     "\\providecommand{\\toprule}{\\hline}\\providecommand{\\midrule}{\\hline}\\providecommand{\\bottomrule}{\\hline}\n"
                     "\\begin{table}[htbp]\n\\centering\n";
  if (num_columns > 10) text += "\\scriptsize\\setlength{\\tabcolsep}{3pt}\n";
  else if (num_columns > 6) text += "\\footnotesize\\setlength{\\tabcolsep}{4pt}\n";
  const std::string title = one_line(table.title), caption = one_line(table.caption);
  if (!title.empty() || !caption.empty())
    text += fmt::format("\\caption{{{}{}{}}}\n", escape_latex(title), title.empty() || caption.empty() ? "" : ". ", escape_latex(caption));
  Document alone;
  alone.sections = {{.blocks = {table}}};
  text += fmt::format("\\label{{tab:{}}}\n\\begin{{tabular}}{{{}}}\n\\toprule\n", name_blocks(alone).blocks[0][0], layout);
  const auto end_row = [&](size_t column) { return column + 1 < num_columns ? " & " : " \\\\\n"; };
  for (size_t column = 0; column < table.columns.size(); ++column) text += escape_latex(one_line(table.columns[column].title)) + end_row(column);
  text += "\\midrule\n";
  for (size_t row = 0; row < table.rows.size(); ++row)
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const Cell& cell = cell_at(table, row, column);
      const size_t number = notes.number(cell);
      text += cell_latex(cell, table.columns[column].is_text) + (number > 0 ? note_mark(number) : "") + end_row(column);
    }
  text += "\\bottomrule\n\\end{tabular}\n";
  if (!notes.cell_notes.empty() || !notes.table_notes.empty()) {
    text += "\\par\\smallskip\n\\begin{minipage}{0.95\\linewidth}\\footnotesize\\raggedright\n";
    for (size_t index = 0; index < notes.cell_notes.size(); ++index) text += note_mark(index + 1) + " " + escape_latex(notes.cell_notes[index]) + "\\par\n";
    for (const std::string& note : notes.table_notes) text += escape_latex(note) + "\\par\n";
    text += "\\end{minipage}\n";
  }
  return text + "\\end{table}\n";
}

}  // namespace lockstep::report
