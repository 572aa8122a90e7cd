#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "draw/document.h"

namespace lockstep::draw {

std::string to_html(const Document& document);
std::string to_markdown(const Document& document);
std::string to_text(const Table& table, int width = 80);  ///< For terminals.
/// Text for terminals in lines of at most `width` columns, each ended: `first` begins the first, as many spaces the
/// others. Words that are wider than a line are broken.
std::string wrapped(const std::string& first, const std::string& content, int width = 80);
std::string to_markdown(const Table& table);
std::string to_latex(const Table& table);    ///< A booktabs table that compiles on its own inside any document and fits
                                             ///< the lines of an article on A4: wide ones come in parts.
std::string to_csv(const Table& table);      ///< Unrounded numbers.
std::string to_svg(const Chart& chart);      ///< Stands alone.
std::string to_gnuplot(const Chart& chart);  ///< A script with its data inside.

/// What a report is written as. "png" and "pdf" go through rsvg-convert: EnvironmentError with the package name when it
/// is missing.
using Formats = std::set<std::string>;
inline const Formats kTextFormats = {"html", "md", "csv", "latex", "svg", "gnuplot"};

/// Writes of report.html, report.md, tables/<id>.{csv,md,tex}, figures/<id>.{svg,csv,gp,png,pdf} into `folder` those
/// that are wanted, and no others. Ids become unique, safe file names. Returns the files, report.html first.
std::vector<std::filesystem::path> write_document(const Document& document, const std::filesystem::path& folder,
                                                  const Formats& formats = kTextFormats);

/// The list of what a report wrote into its folder.
inline constexpr const char* kFileList = "report.files";

struct ReplacedFiles {
  std::vector<std::filesystem::path> removed{};
  std::vector<std::filesystem::path> kept{};  ///< Of the report before, but changed since.
};
/// Removes what the report before wrote into `folder` and this one, which wrote `files`, did not; lists `files` for the
/// next. Nothing else is touched.
ReplacedFiles replace_report(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files);

}  // namespace lockstep::draw
