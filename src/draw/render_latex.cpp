#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "draw/block_names.h"
#include "draw/render.h"
#include "draw/table_layout.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

/// Lines of the class article on A4, at its 10 pt.
constexpr double kLinePt = 345, kMinTextPt = 45;
constexpr double kMaxWordPt = 90;  ///< Longer ones, as paths are, may break behind signs.
/// Advance widths of Computer Modern Roman from the space to the tilde, thousandths of its size at 10 pt; smaller sizes
/// are wider by up to 7 %.
constexpr std::array<int, 95> kComputerModern = {
    333, 278, 500, 833, 500, 833, 778, 278, 389, 389, 500, 778, 278, 333, 278, 500, 500, 500,  500,
    500, 500, 500, 500, 500, 500, 500, 278, 278, 778, 778, 778, 472, 778, 750, 708, 722, 764,  681,
    653, 785, 750, 361, 514, 778, 625, 917, 750, 778, 681, 778, 736, 556, 722, 750, 750, 1028, 750,
    750, 611, 278, 500, 278, 500, 360, 278, 500, 556, 444, 556, 444, 306, 500, 556, 278, 306,  528,
    278, 833, 556, 500, 556, 528, 392, 394, 389, 556, 528, 722, 528, 528, 444, 500, 278, 500,  500,
};
constexpr double kSmallSizes = 1.07;

double width_pt(std::string_view text, double font_pt) {
  constexpr int kOther = 600, kWide = 3200;  // "U+4E2D" in typewriter letters
  int width = 0;
  for (const char32_t point : code_points(text))
    width += point >= ' ' && point < 127 ? kComputerModern[point - ' '] : point < 0x180 ? kOther : kWide;
  return kSmallSizes * font_pt * width / 1000;
}
/// What of a page's 598 pt the lines of a table may take beside its caption and notes; LaTeX does not break a table, so
/// longer ones come in several.
constexpr double kPagePt = 470;
constexpr double kLineHeight = 1.2;

struct FontSize {
  double pt = 0, gap_pt = 0;  ///< gap_pt: between two columns.
  const char* command = "";
};
constexpr FontSize kNormal{.pt = 10, .gap_pt = 12, .command = ""};
constexpr FontSize kSmall{.pt = 8, .gap_pt = 6, .command = "\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"};

constexpr std::array<std::pair<char32_t, const char*>, 30> kSymbols = {{
    {'\\', "\\textbackslash{}"},
    {'{', "\\{"},
    {'}', "\\}"},
    {'$', "\\$"},
    {'&', "\\&"},
    {'#', "\\#"},
    {'_', "\\_"},
    {'%', "\\%"},
    {'^', "\\textasciicircum{}"},
    {'~', "\\textasciitilde{}"},
    {'<', "$<$"},
    {'>', "$>$"},
    {'|', "$|$"},
    {'"', "''"},
    {'[', "{[}"},
    {']', "{]}"},
    {'\n', " "},
    {0xA0, "~"},
    {0xB0, "$^\\circ$"},
    {0xB1, "$\\pm$"},
    {0xB2, "$^2$"},
    {0xB3, "$^3$"},
    {0xB5, "$\\mu$"},
    {0xB7, "$\\cdot$"},
    {0xD7, "$\\times$"},
    {0x2013, "--"},
    {0x2014, "---"},
    {0x2192, "$\\to$"},
    {0x2264, "$\\le$"},
    {0x2265, "$\\ge$"},
}};

/// Text for LaTeX without packages: what is special is escaped, letters that the engine may lack become their code
/// point, and no signs join to others.
std::string escape_latex(std::string_view text) {
  std::string escaped;
  const std::string clean = clean_text(text);
  for (const char32_t point : code_points(clean)) {
    const auto found =
        std::find_if(kSymbols.begin(), kSymbols.end(), [&](const auto& each) { return each.first == point; });
    if (point == '-' && escaped.ends_with('-'))
      escaped += "{}-";
    else if (found != kSymbols.end())
      escaped += found->second;
    else if (point < 0x7F)
      escaped += static_cast<char>(point);
    else if (point >= 0xC0 && point < 0x180)
      escaped += {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
    else
      escaped += fmt::format("\\texttt{{U+{:04X}}}", static_cast<uint32_t>(point));
  }
  return core::replace_all(escaped, "+- ", "$\\pm$ ");
}

/// Prose: words wider than the line may break behind signs, as in paths.
std::string prose_latex(const std::string& text, double line_pt, double font_pt) {
  constexpr double kNarrower =
      0.8;  // the letters that wrap_text knows are narrower than Computer Modern's in the worst words
  std::string prose;
  for (const std::string& word : core::split(one_line(text), " ")) {
    prose += prose.empty() ? "" : " ";
    const std::vector<std::string> pieces =
        width_pt(word, font_pt) <= line_pt ? std::vector{word} : wrap_text(word, kNarrower * line_pt, font_pt);
    for (size_t piece = 0; piece < pieces.size(); ++piece)
      prose += (piece > 0 ? "\\allowbreak{}" : "") + escape_latex(pieces[piece]);
  }
  return core::replace_all(prose, "+- ", "$\\pm$ ");
}

/// A cell of one line: a leading minus becomes the mathematical one, a blank a dash.
std::string cell_latex(const Cell& cell, bool is_text) {
  if (is_blank(cell)) return "--";
  const std::string text = cell_text(cell);
  if (is_text) return escape_latex(text);
  const bool is_negative = text.size() > 1 && text[0] == '-' && ((text[1] >= '0' && text[1] <= '9') || text[1] == '.');
  return is_negative ? "$-$" + escape_latex(text.substr(1)) : escape_latex(text);
}

std::string note_mark(size_t number) { return number == 0 ? "" : fmt::format("\\textsuperscript{{{}}}", number); }

double widest_word(const std::string& text, double font_pt) {
  double widest = 0;
  for (const std::string& word : core::split(text, " ")) widest = std::max(widest, width_pt(word, font_pt));
  return widest;
}

/// A table as LaTeX: side by side what fits into a line, below each other what fits onto a page.
class LatexTable {
 public:
  explicit LatexTable(const Table& table) : table_(table), notes_(collect_notes(table)) {
    for (const FontSize& font : {kNormal, kSmall}) {
      font_ = font;
      std::vector<ColumnWidth> widths;
      for (size_t column = 0; column < table.columns.size(); ++column) widths.push_back(width_of(column));
      parts_ = lay_out_table(widths, key_columns(table), font.gap_pt, kLinePt);
      const auto is_narrowed = [&](const PlacedColumn& placed) { return placed.width < widths[placed.column].natural; };
      is_prose_.assign(widths.size(), false);
      for (const TablePart& part : parts_)
        for (const PlacedColumn& placed : part)
          if (is_narrowed(placed)) is_prose_[placed.column] = true;
      if (parts_.size() == 1 && std::none_of(parts_[0].begin(), parts_[0].end(), is_narrowed)) return;
    }
  }

  std::string text() const {
    std::string text =
        "% The rules of booktabs; plain lines where that package is not loaded.\n"
        "\\providecommand{\\toprule}{\\hline}\\providecommand{\\midrule}{\\hline}\\providecommand{\\bottomrule}{"
        "\\hline}\n";
    const std::vector<size_t> ends = page_ends();
    for (size_t page = 0, from = 0; page < ends.size(); from = ends[page++])
      text += page_text(page, ends.size(), from, ends[page]);
    return text;
  }

 private:
  ColumnWidth width_of(size_t column) const {
    const double title = widest_word(one_line(table_.columns[column].title), font_.pt);
    double natural = title, words = title;
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      const Cell& cell = cell_at(table_, row, column);
      const double mark = notes_.number(cell) > 0 ? width_pt(std::to_string(notes_.number(cell)), font_.pt) : 0;
      natural = std::max(natural, width_pt(cell_text(cell), font_.pt) + mark);
      words = std::max(words, widest_word(cell_text(cell), font_.pt) + mark);
    }
    if (!table_.columns[column].is_text) return {.natural = natural, .least = natural, .hard = natural};
    return {.natural = natural,
            .least = std::min(std::max({std::min(words, kMaxWordPt), title, kMinTextPt}), natural),
            .hard = std::min(std::max(title, kMinTextPt), natural)};
  }

  std::string head_latex(const PlacedColumn& placed) const {
    const Column& column = table_.columns[placed.column];
    if (is_prose_[placed.column]) return "\\raggedright " + prose_latex(column.title, placed.width, font_.pt);
    std::string head;
    std::vector<std::string> lines;
    for (const std::string& word : core::split(one_line(column.title), " ")) {
      if (lines.empty() || width_pt(lines.back() + " " + word, font_.pt) > placed.width)
        lines.push_back(word);
      else
        lines.back() += " " + word;
    }
    for (const std::string& line : lines) head += (head.empty() ? "" : "\\\\") + escape_latex(line);
    return lines.size() == 1 ? head
                             : fmt::format("\\begin{{tabular}}[b]{{@{{}}{}@{{}}}}{}\\end{{tabular}}",
                                           column.is_text ? 'l' : 'r', head);
  }

  /// Height of a row in a part, after the paragraph with the most lines.
  double row_height(const TablePart& part, size_t row) const {
    size_t num_lines = 1;
    for (const PlacedColumn& placed : part)
      if (is_prose_[placed.column])
        num_lines = std::max(num_lines,
                             wrap_text(cell_text(cell_at(table_, row, placed.column)), placed.width, font_.pt).size());
    return static_cast<double>(num_lines) * kLineHeight * font_.pt;
  }

  /// Behind which rows a page ends; at least one, that of the last row.
  std::vector<size_t> page_ends() const {
    constexpr double kHeadLines = 4;
    const double heads = static_cast<double>(parts_.size()) * kHeadLines * kLineHeight * font_.pt;
    std::vector<size_t> ends;
    double height = heads;
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      double rows = 0;
      for (const TablePart& part : parts_) rows += row_height(part, row);
      if (height > heads && height + rows > kPagePt) {
        ends.push_back(row);
        height = heads;
      }
      height += rows;
    }
    ends.push_back(table_.rows.size());
    return ends;
  }

  /// One table environment.
  std::string page_text(size_t page, size_t num_pages, size_t from, size_t to) const {
    std::string text = "\\begin{table}[htbp]\n\\centering\\emergencystretch=3em\n";
    std::string title = one_line(table_.title);
    const std::string caption = page == 0 ? one_line(table_.caption) : "";
    if (num_pages > 1) title += fmt::format("{}({} of {})", title.empty() ? "" : " ", page + 1, num_pages);
    if (!title.empty() || !caption.empty())
      text += fmt::format("\\caption{{{}{}{}}}\n", escape_latex(title), title.empty() || caption.empty() ? "" : ". ",
                          prose_latex(caption, kLinePt / 4, kNormal.pt));
    Document alone;
    alone.sections = {{.blocks = {Table{.id = table_.id, .title = table_.title}}}};  // all that names it
    text += fmt::format("\\label{{tab:{}{}}}\n{}", name_blocks(alone).blocks[0][0],
                        page == 0 ? "" : fmt::format("-{}", page + 1), font_.command);
    for (size_t part = 0; part < parts_.size(); ++part)
      text += (part > 0 ? "\\par\\medskip\n" : "\\par\\smallskip\n") + part_text(parts_[part], from, to);
    return text + (page + 1 == num_pages ? notes_text() : "") + "\\end{table}\n";
  }

  std::string part_text(const TablePart& part, size_t from, size_t to) const {
    std::string layout;
    for (const PlacedColumn& placed : part)
      layout += is_prose_[placed.column]                ? fmt::format("p{{{:.0f}pt}}", std::floor(placed.width))
                : table_.columns[placed.column].is_text ? "l"
                                                        : "r";
    // A paragraph has its own meaning of \\.
    const char* end = !part.empty() && is_prose_[part.back().column] ? " \\tabularnewline\n" : " \\\\\n";
    std::string text = fmt::format("\\begin{{tabular}}{{@{{}}{}@{{}}}}\n\\toprule\n", layout.empty() ? "l" : layout);
    for (size_t index = 0; index < part.size(); ++index) text += (index > 0 ? " & " : "") + head_latex(part[index]);
    text += std::string(part.empty() ? "\\\\\n" : end) + "\\midrule\n";
    for (size_t row = from; row < to; ++row) {
      for (size_t index = 0; index < part.size(); ++index) {
        const size_t column = part[index].column;
        const Cell& cell = cell_at(table_, row, column);
        text += (index > 0 ? " & " : "");
        text += is_prose_[column] && !is_blank(cell)
                    ? "\\raggedright " + prose_latex(cell_text(cell), part[index].width, font_.pt)
                    : cell_latex(cell, table_.columns[column].is_text);
        text += note_mark(notes_.number(cell));
      }
      text += end;
    }
    return text + "\\bottomrule\n\\end{tabular}\n";
  }

  std::string notes_text() const {
    if (notes_.cell_notes.empty() && notes_.table_notes.empty()) return "";
    constexpr double kWidthPt = 0.95 * kLinePt;
    std::string text = "\\par\\smallskip\n\\begin{minipage}{0.95\\linewidth}\\footnotesize\\raggedright\n";
    for (size_t index = 0; index < notes_.cell_notes.size(); ++index)
      text += note_mark(index + 1) + " " + prose_latex(notes_.cell_notes[index], kWidthPt, kSmall.pt) + "\\par\n";
    for (const std::string& note : notes_.table_notes) text += prose_latex(note, kWidthPt, kSmall.pt) + "\\par\n";
    return text + "\\end{minipage}\n";
  }

  const Table& table_;
  TableNotes notes_;
  FontSize font_{};
  std::vector<TablePart> parts_{};
  std::vector<bool> is_prose_{};  ///< Columns of paragraphs: narrower in some part than their longest text.
};

}  // namespace

std::string to_latex(const Table& table) { return LatexTable(table).text(); }

}  // namespace lockstep::draw
