#pragma once
#include <functional>
#include <vector>

#include "draw/document.h"

namespace lockstep::analysis {

/// A column and what fills it, so that a heading and its values stand in one place.
template <typename Item> struct TableColumn {
  draw::Column column{};
  std::function<draw::Cell(const Item&)> cell{};
};
template <typename Item> using TableColumns = std::vector<TableColumn<Item>>;

/// Gives `table` these columns and a row for each item.
template <typename Item>
void fill_table(draw::Table& table, const TableColumns<Item>& columns, const std::vector<Item>& items) {
  for (const TableColumn<Item>& one : columns) table.columns.push_back(one.column);
  for (const Item& item : items) {
    std::vector<draw::Cell>& row = table.rows.emplace_back();
    for (const TableColumn<Item>& one : columns) row.push_back(one.cell(item));
  }
}

}  // namespace lockstep::analysis
