#include "data/shards/csv_table.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::data {
namespace {

/// Splits text into records of fields.
class CsvReader {
 public:
  CsvReader(std::string_view text, char separator, std::string_view file)
      : text_(text), separator_(separator), file_(file) {}

  size_t line() const { return record_line_; }

  /// The next record that is no empty line; false at the end.
  bool next(std::vector<std::string>& fields) {
    while (at_ < text_.size() && is_line_end(text_[at_])) end_line();
    if (at_ >= text_.size()) return false;
    fields.clear();
    record_line_ = line_;
    for (;;) {
      fields.push_back(read_field());
      if (at_ >= text_.size()) return true;
      if (text_[at_] == separator_) {
        ++at_;
        continue;
      }
      end_line();
      return true;
    }
  }

 private:
  static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

  void end_line() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    ++at_;
    ++line_;
  }

  std::string read_field() {
    std::string field;
    if (at_ < text_.size() && text_[at_] == '"') read_quoted(field);
    // Outside quotes, and behind a closing one, a quote is a character like any other.
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && !is_line_end(text_[at_])) ++at_;
    field += text_.substr(begin, at_ - begin);
    return field;
  }

  void read_quoted(std::string& field) {
    const size_t start_line = line_;
    ++at_;
    for (;;) {
      if (at_ >= text_.size())
        throw DataError(fmt::format("data: '{}' line {}: a quote that is never closed", file_, start_line),
                        "a field that begins with a quote must end with one; double the quotes inside");
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c != '"') {
        field += c;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        field += '"';
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  char separator_;
  std::string_view file_;
  size_t at_ = 0, line_ = 1, record_line_ = 1;
};

/// What a table with one column has between what should be several.
std::string separator_hint(std::string_view only_column) {
  for (const auto& [separator, flag] :
       {std::pair('\t', "$'\\t' (a tab, the default)"), {',', ","}, {';', "';'"}, {'|', "'|'"}})
    if (only_column.find(separator) != std::string_view::npos)
      return fmt::format("the line looks as if its separator were --csv-separator {}", flag);
  return "name the column with --csv-img-key and --csv-caption-key or --csv-label-key, and the separator with "
         "--csv-separator";
}

/// Files of spreadsheets are often UTF-16, and begin with its mark.
void refuse_utf16(std::string_view text, std::string_view file) {
  if (!core::starts_with(text, "\xff\xfe") && !core::starts_with(text, "\xfe\xff")) return;
  throw DataError(fmt::format("data: '{}' is a table in UTF-16, expected UTF-8", file),
                  fmt::format("convert it: iconv -f UTF-16 -t UTF-8 '{}'", file));
}

}  // namespace

size_t SampleTable::column(std::string_view name, std::string_view file) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found != columns.end()) return static_cast<size_t>(found - columns.begin());
  throw DataError(
      fmt::format("data: '{}' has no column '{}'; its columns are '{}'", file, name, core::join(columns, "', '")),
      columns.size() == 1 ? separator_hint(columns.front())
                          : "name the columns with --csv-img-key and --csv-caption-key or --csv-label-key, and the "
                            "separator with --csv-separator");
}

SampleTable parse_csv(std::string_view text, char separator, const std::vector<std::string>& keep,
                      std::string_view file) {
  refuse_utf16(text, file);
  if (core::starts_with(text, "\xef\xbb\xbf")) text.remove_prefix(3);
  CsvReader reader(text, separator, file);
  std::vector<std::string> fields;
  if (!reader.next(fields))
    throw DataError(fmt::format("data: '{}' is empty: expected a line with the names of the columns", file));
  const SampleTable all{.columns = fields, .rows = {}, .lines = {}};
  SampleTable table;
  std::vector<size_t> kept;
  for (size_t i = 0; i < all.columns.size(); ++i)
    if (keep.empty() || std::find(keep.begin(), keep.end(), all.columns[i]) != keep.end()) kept.push_back(i);
  for (const std::string& name : keep) all.column(name, file);
  for (const size_t i : kept) table.columns.push_back(all.columns[i]);
  while (reader.next(fields)) {
    if (fields.size() > all.columns.size())
      throw DataError(fmt::format("data: '{}' line {}: {} fields, but the header names {}", file, reader.line(),
                                  fields.size(), all.columns.size()),
                      "put fields that contain the separator in quotes, or choose another --csv-separator");
    std::vector<std::string> row;
    row.reserve(kept.size());
    for (const size_t i : kept) row.push_back(i < fields.size() ? std::move(fields[i]) : std::string());
    table.rows.push_back(std::move(row));
    table.lines.push_back(reader.line());
  }
  return table;
}

char parse_separator(std::string_view text) {
  if (text == "\\t" || text == "tab") return '\t';
  if (text.size() == 1 && text[0] != '"' && text[0] != '\n' && text[0] != '\r') return text[0];
  throw UsageError(fmt::format("data: CSV separator '{}' is not a single character", text), "for example ',' or '\\t'");
}

}  // namespace lockstep::data
