#include "draw/block_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/strings.h"
#include "draw/axis_scale.h"
#include "draw/text_metrics.h"

namespace lockstep::draw {
namespace {

constexpr size_t kMaxNameLength = 80;

std::string safe_name(const std::string& wanted, const char* otherwise) {
  std::string name;
  for (const char c : wanted) {
    const bool is_safe =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (is_safe)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  const size_t first = name.find_first_not_of("-.");
  name = first == std::string::npos ? otherwise : name.substr(first, kMaxNameLength);
  while (name.back() == '-' || name.back() == '.') name.pop_back();
  return name;
}

std::vector<std::vector<std::string>> headings_of(const Document& document) {
  std::map<std::string, std::set<size_t>> sections_of;
  for (size_t section = 0; section < document.sections.size(); ++section)
    for (const Block& block : document.sections[section].blocks) sections_of[block_title(block)].insert(section);
  std::vector<std::vector<std::string>> headings(document.sections.size());
  for (size_t section = 0; section < document.sections.size(); ++section)
    for (const Block& block : document.sections[section].blocks) {
      const std::string title = block_title(block), of = one_line(document.sections[section].title);
      headings[section].push_back(title.empty() || of.empty() || sections_of[title].size() < 2 ? title
                                                                                               : title + ": " + of);
    }
  return headings;
}

}  // namespace

BlockNames name_blocks(const Document& document) {
  std::set<std::string> taken = {"main", "contents", "lockstep-data", "tip"};
  const auto unique = [&](const std::string& wanted, const char* otherwise) {
    const std::string name = safe_name(wanted, otherwise);
    std::string candidate = name;
    for (int count = 2; !taken.insert(core::to_lower_ascii(candidate)).second; ++count)
      candidate = fmt::format("{}-{}", name, count);
    return candidate;
  };
  BlockNames names;
  names.blocks.resize(document.sections.size());
  // Tables and charts first: their names are file names, and an equal name of a section must not change them.
  for (size_t section = 0; section < document.sections.size(); ++section)
    for (const Block& block : document.sections[section].blocks) {
      const Table* table = std::get_if<Table>(&block);
      const Chart* chart = std::get_if<Chart>(&block);
      names.blocks[section].push_back(table != nullptr   ? unique(table->id, "table")
                                      : chart != nullptr ? unique(chart->id, "chart")
                                                         : "");
    }
  for (const Section& section : document.sections)
    names.sections.push_back(unique(section.id.empty() ? section.title : section.id, "section"));
  names.headings = headings_of(document);
  return names;
}

std::string block_title(const Block& block) {
  if (const Table* table = std::get_if<Table>(&block)) return one_line(table->title);
  if (const Chart* chart = std::get_if<Chart>(&block)) return one_line(chart->title);
  return "";
}

size_t TableNotes::number(const Cell& cell) const {
  if (cell.note.empty()) return 0;
  const auto found = std::find(cell_notes.begin(), cell_notes.end(), one_line(cell.note));
  return static_cast<size_t>(found - cell_notes.begin()) + 1;
}

TableNotes collect_notes(const Table& table) {
  TableNotes notes;
  std::set<std::string> seen;
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (const std::string note = one_line(cell.note); !cell.note.empty() && seen.insert(note).second)
        notes.cell_notes.push_back(note);
  for (const std::string& note : table.notes) notes.table_notes.push_back(one_line(note));
  return notes;
}

bool is_blank(const Cell& cell) { return cell.text.empty() && !(cell.value && std::isfinite(*cell.value)); }

std::string cell_text(const Cell& cell) {
  if (is_blank(cell)) return "-";
  return cell.text.empty() ? short_number(*cell.value) : one_line(cell.text);
}

const Cell& cell_at(const Table& table, size_t row, size_t column) {
  static const Cell kEmpty;
  return column < table.rows[row].size() ? table.rows[row][column] : kEmpty;
}

}  // namespace lockstep::draw
