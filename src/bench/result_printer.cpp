#include "bench/result_printer.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "core/files.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"

namespace lockstep::bench {
namespace {

constexpr size_t kTableWidth = 80;

}  // namespace

ResultPrinter::ResultPrinter(const commands::BenchOptions& options, bool is_printing, std::vector<TableColumn> columns,
                             core::Json document)
    : options_(options), is_printing_(is_printing), columns_(std::move(columns)), document_(std::move(document)) {}

void ResultPrinter::begin(const std::vector<std::string>& preamble) {
  if (std::exchange(has_begun_, true)) return;
  if (options_.csv) return print("part," + csv_header(columns_));
  if (options_.json) return;
  for (const auto& text : preamble) {
    if (text.empty()) print("#");
    for (const auto& line : core::wrap_text(text, kTableWidth - 2)) print("# " + line);
  }
  for (const auto& line : table_header(columns_)) print(line);
}

void ResultPrinter::add(core::Json row) {
  const std::string part = row.value("part", "");
  if (options_.csv) {
    print(part + "," + csv_line(columns_, row));
  } else if (!options_.json) {
    if (part != last_part_) print("# " + part);
    print(table_line(columns_, row));
  }
  last_part_ = part;
  rows_.push_back(std::move(row));
  if (options_.out.empty()) return;
  core::Json document = document_;
  document["incomplete"] = true;
  document["rows"] = rows_;
  write(document);
}

void ResultPrinter::end(const std::vector<SummaryItem>& summary) {
  core::Json document = std::move(document_);
  document["rows"] = rows_;
  document["summary"] = core::Json::object();
  for (const auto& item : summary) document["summary"][item.key] = item.value;
  if (options_.json)
    print(document.dump(2));
  else if (!options_.csv)
    for (const auto& item : summary)
      print(fmt::format("# {:<22}: {}", item.label, item.text.empty() ? item.value.dump() : item.text));
  write(document);
}

void ResultPrinter::print(const std::string& line) {
  if (!is_printing_) return;
  core::print("{}\n", line);
  std::fflush(stdout);  // a long table is read while it grows
}

void ResultPrinter::write(const core::Json& document) const {
  if (is_printing_ && !options_.out.empty()) core::write_file_atomic(options_.out, document.dump(2) + "\n");
}

}  // namespace lockstep::bench
