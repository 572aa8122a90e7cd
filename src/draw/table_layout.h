#pragma once
#include <vector>

#include "draw/document.h"

namespace lockstep::draw {

/// How wide a column may be, in any unit.
struct ColumnWidth {
  double natural = 0;  ///< No cell is broken.
  double least = 0;    ///< Words stay whole; of numbers the natural width.
  double hard = 0;     ///< Words are broken, where nothing else helps.
};

struct PlacedColumn {
  size_t column = 0;
  double width = 0;
};
using TablePart = std::vector<PlacedColumn>;

/// The columns that tell rows apart, which every part of a split table repeats: of the shortest prefix whose texts
/// differ in every row those that it needs; the first column where there is none.
std::vector<size_t> key_columns(const Table& table);

/// Parts of a table that fit into `width`, each with the key columns: one part where narrow columns suffice, else as
/// many as needed. Never empty for a table with columns.
std::vector<TablePart> lay_out_table(const std::vector<ColumnWidth>& columns, std::vector<size_t> keys, double gap,
                                     double width);

}  // namespace lockstep::draw
