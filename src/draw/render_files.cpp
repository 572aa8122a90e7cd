#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/process.h"
#include "core/strings.h"
#include "core/wrapped_message.h"
#include "draw/block_names.h"
#include "draw/chart_svg.h"
#include "draw/render.h"

namespace lockstep::draw {
namespace {
namespace fs = std::filesystem;

constexpr std::chrono::seconds kConverterTimeout{60};

/// Runs rsvg-convert; its output goes to `target`.
void convert(const std::string& svg_text, const fs::path& target, const std::string& format) {
  const core::TempDir scratch;
  const fs::path svg = scratch.path() / target.filename().replace_extension("svg");
  core::write_file_atomic(svg, svg_text);
  std::vector<std::string> argv = {"rsvg-convert", "--format", format, "--output", target.string(), svg.string()};
  if (format == "png") argv.insert(argv.begin() + 1, {"--zoom", "2"});
  core::CommandResult result;
  try {
    result = core::run_command({.argv = argv}, kConverterTimeout);
  } catch (const EnvironmentError& error) {
    throw EnvironmentError(core::wrapped_message(fmt::format("report: cannot make {} files", format), error),
                           "install the package librsvg2-bin (program rsvg-convert), or leave PNG and PDF out: SVG "
                           "files need no converter");
  }
  if (result.is_timed_out || !result.status.ok())
    throw EnvironmentError(fmt::format("report: rsvg-convert could not make '{}': {}{}", target.string(),
                                       result.is_timed_out ? "timed out" : result.status.text(),
                                       result.err.empty() ? "" : ": " + std::string(core::trim(result.err))),
                           "write SVG files (--format svg); any program that reads SVG can convert them");
}

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    throw EnvironmentError(fmt::format("report: cannot make folder '{}': {}", folder.string(), code.message()),
                           "check the path and its permissions");
}

/// Writes files of one report below a folder and remembers them.
class FileSet {
 public:
  explicit FileSet(fs::path folder) : folder_(std::move(folder)) {}

  fs::path write(const fs::path& relative, const std::string& content) {
    const fs::path path = folder_ / relative;
    core::write_file_atomic(path, content);
    files_.push_back(path);
    return path;
  }
  /// A file that another program writes.
  fs::path add(const fs::path& relative) {
    files_.push_back(folder_ / relative);
    return files_.back();
  }
  std::vector<fs::path> take() { return std::move(files_); }

 private:
  fs::path folder_;
  std::vector<fs::path> files_{};
};

void write_table(const Table& table, const std::string& name, const Formats& formats, FileSet& files) {
  const std::string stem = "tables/" + name;
  if (formats.contains("csv")) files.write(stem + ".csv", to_csv(table));
  if (formats.contains("md")) files.write(stem + ".md", to_markdown(table));
  if (formats.contains("latex")) files.write(stem + ".tex", to_latex(table));
}

void write_chart(const Chart& chart, const std::string& name, const Formats& formats, FileSet& files) {
  const std::string stem = "figures/" + name;
  if (formats.contains("svg")) files.write(stem + ".svg", to_svg(chart));
  if (formats.contains("csv")) files.write(stem + ".csv", to_csv(chart_table(chart)));
  if (formats.contains("gnuplot")) files.write(stem + ".gp", to_gnuplot(chart));
  for (const char* format : {"png", "pdf"})
    if (formats.contains(format)) convert(to_svg(chart), files.add(stem + "." + format), format);
}

}  // namespace

std::vector<fs::path> write_document(const Document& document, const fs::path& folder, const Formats& formats) {
  const BlockNames names = name_blocks(document);
  make_folder(folder / "tables");
  make_folder(folder / "figures");
  FileSet files(folder);
  if (formats.contains("html")) files.write("report.html", to_html(document));
  if (formats.contains("md")) files.write("report.md", to_markdown(document));
  for (size_t section = 0; section < document.sections.size(); ++section)
    for (size_t block = 0; block < document.sections[section].blocks.size(); ++block) {
      const Block& each = document.sections[section].blocks[block];
      const std::string& name = names.blocks[section][block];
      if (const Table* table = std::get_if<Table>(&each))
        write_table(*table, name, formats, files);
      else if (const Chart* chart = std::get_if<Chart>(&each))
        write_chart(*chart, name, formats, files);
    }
  return files.take();
}

namespace {

constexpr const char* kListHead =
    "# Written by lockstep report: checksum and name of its files. The next report into this folder removes those that "
    "it does not write.";

/// Only what a report may have written: a list that someone edited must not lead elsewhere.
bool is_of_report(const fs::path& relative) {
  if (relative.empty() || relative.is_absolute() || relative != relative.lexically_normal()) return false;
  const std::string first = relative.begin()->string();
  const auto depth = std::distance(relative.begin(), relative.end());
  return depth == 1 ? first == "report.html" || first == "report.md"
                    : depth == 2 && (first == "tables" || first == "figures");
}

struct ListedFile {
  std::string checksum{};
  fs::path relative{};
};

/// What the list in a folder names; nothing where there is none, or one that no report wrote.
std::vector<ListedFile> listed_files(const fs::path& list) {
  if (!fs::is_regular_file(fs::symlink_status(list))) return {};
  const std::vector<std::string> lines = core::split(core::read_file(list), "\n");
  if (lines.front() != kListHead) return {};
  std::vector<ListedFile> files;
  for (size_t line = 1; line < lines.size(); ++line) {
    const size_t space = lines[line].find(' ');
    if (space == std::string::npos) continue;
    ListedFile file{.checksum = lines[line].substr(0, space), .relative = lines[line].substr(space + 1)};
    if (is_of_report(file.relative)) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

ReplacedFiles replace_report(const fs::path& folder, const std::vector<fs::path>& files) {
  std::set<fs::path> written;
  std::string list = std::string(kListHead) + "\n";
  for (const fs::path& file : files) {
    const fs::path relative = file.lexically_relative(folder);
    written.insert(relative);
    list += fmt::format("{} {}\n", core::xxh3_hex(core::read_file(file)), relative.generic_string());
  }
  ReplacedFiles replaced;
  for (const ListedFile& old : listed_files(folder / kFileList)) {
    const fs::path path = folder / old.relative;
    if (written.contains(old.relative) || !fs::is_regular_file(fs::symlink_status(path))) continue;
    if (core::xxh3_hex(core::read_file(path)) != old.checksum) {
      replaced.kept.push_back(path);
      continue;
    }
    fs::remove(path);
    replaced.removed.push_back(path);
  }
  const fs::path target = folder / kFileList;
  if (!fs::exists(target) || core::starts_with(core::read_file(target), kListHead))
    core::write_file_atomic(target, list);
  return replaced;
}

}  // namespace lockstep::draw
