#pragma once
#include <string>
#include <vector>

#include "draw/document.h"

namespace lockstep::draw {

/// Names of a document's parts, unique in it and safe as file stems and anchors (letters, digits, '-', '_', '.'; never
/// hidden, at most 80 long).
struct BlockNames {
  std::vector<std::string> sections{};
  std::vector<std::vector<std::string>> blocks{};  ///< blocks[section][block]; empty for paragraphs.
  /// Titles likewise; what is called the same in two sections is followed by that of its section.
  std::vector<std::vector<std::string>> headings{};
};
BlockNames name_blocks(const Document& document);

/// Title of a table or chart in one line; empty for a paragraph.
std::string block_title(const Block& block);

/// What belongs under a table: one line per distinct cell note, numbered in order of appearance, then
/// the notes of the table.
struct TableNotes {
  std::vector<std::string> cell_notes{};
  std::vector<std::string> table_notes{};
  size_t number(const Cell& cell) const;  ///< From 1; 0 without a note.
};
TableNotes collect_notes(const Table& table);

/// Text of a cell in one line: as printed, else the number, else "-".
std::string cell_text(const Cell& cell);
bool is_blank(const Cell& cell);
/// The cell at a place, or an empty one: rows may be short.
const Cell& cell_at(const Table& table, size_t row, size_t column);

}  // namespace lockstep::draw
