#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/process.h"
#include "core/strings.h"
#include "draw/block_names.h"
#include "draw/render.h"
#include "support/demo_document.h"

namespace lockstep::draw {
namespace {
namespace fs = std::filesystem;

/// PATH without any program, for the life of the object.
class EmptyPath {
 public:
  EmptyPath() : path_(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "") { setenv("PATH", "/nonexistent", 1); }
  EmptyPath(const EmptyPath&) = delete;
  EmptyPath& operator=(const EmptyPath&) = delete;
  ~EmptyPath() { setenv("PATH", path_.c_str(), 1); }

 private:
  std::string path_;
};

bool has_program(const std::string& name) {
  return core::run_command({.argv = {"sh", "-c", "command -v " + name}}, std::chrono::seconds(10)).status.ok();
}

TEST(RenderFiles, WritesPageTablesAndFiguresAndReturnsThem) {
  const core::TempDir folder("report_files");
  const std::vector<fs::path> files = write_document(tests::demo_document(), folder.path() / "new" / "out");
  ASSERT_EQ(files.size(), 2u + 3u + 3u * 10u);
  EXPECT_EQ(files[0].filename(), "report.html");
  std::set<fs::path> on_disk;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    if (entry.is_regular_file()) on_disk.insert(entry.path());
  EXPECT_EQ(on_disk, std::set<fs::path>(files.begin(), files.end()));
  EXPECT_EQ(core::read_file(files[0]), to_html(tests::demo_document()));
  EXPECT_EQ(core::read_file(folder.path() / "new/out/tables/scaling.csv"), to_csv(tests::demo::scaling_table()));
  EXPECT_EQ(core::read_file(folder.path() / "new/out/figures/mfu.svg"), to_svg(tests::demo::mfu_chart()));
}

TEST(RenderFiles, TheNextReportRemovesWhatItDoesNotWriteAndNothingElse) {
  const core::TempDir folder("report_files");
  const fs::path out = folder.path() / "out";
  const auto table = [](const char* id, const char* text) {
    return Table{.id = id, .columns = {{"c", "c"}}, .rows = {{{.text = text}}}};
  };
  const auto write = [&](const std::vector<Block>& blocks) {
    return replace_report(out, write_document(Document{.sections = {{.id = "s", .blocks = blocks}}}, out));
  };
  EXPECT_TRUE(
      write({table("old", "1"), table("edited", "1"), table("both", "1"), tests::demo::mfu_chart()}).removed.empty());
  core::write_file_atomic(out / "tables/mine.csv", "a file of the user");
  core::write_file_atomic(out / "tables/edited.md", "changed by the user");
  core::write_file_atomic(folder.path() / "precious.txt", "outside");
  const ReplacedFiles replaced = write({table("both", "2"), table("new", "1")});
  EXPECT_EQ(replaced.removed.size(), 3u + 2u + 3u) << "old in three formats, edited in two, the figure in three";
  ASSERT_EQ(replaced.kept.size(), 1u);
  EXPECT_EQ(replaced.kept[0], out / "tables/edited.md");
  for (const char* gone : {"tables/old.tex", "tables/edited.csv", "figures/mfu.svg"})
    EXPECT_FALSE(fs::exists(out / gone)) << gone;
  for (const char* there : {"tables/mine.csv", "tables/edited.md", "tables/both.tex", "tables/new.csv", "report.html"})
    EXPECT_TRUE(fs::exists(out / there)) << there;
  EXPECT_TRUE(write({table("both", "2"), table("new", "1")}).removed.empty()) << "the same again";

  // A list that leads elsewhere, and a foreign file of its name.
  std::string list = core::read_file(out / kFileList);
  for (const char* elsewhere : {"../precious.txt", "tables/../../precious.txt", "tables/mine.csv"})
    list += fmt::format(
        "{} {}\n",
        core::xxh3_hex(std::string_view(std::string(elsewhere) == "tables/mine.csv" ? "other content" : "outside")),
        elsewhere);
  core::write_file_atomic(out / kFileList, list + fmt::format("{} {}\n", core::xxh3_hex(std::string_view("outside")),
                                                              (folder.path() / "precious.txt").string()));
  write({table("new", "1")});
  EXPECT_TRUE(fs::exists(folder.path() / "precious.txt"));
  EXPECT_TRUE(fs::exists(out / "tables/mine.csv")) << "its content is not that of the list";
  EXPECT_FALSE(fs::exists(out / "tables/both.csv"));
  core::write_file_atomic(out / kFileList, "notes of the user\n");
  EXPECT_TRUE(write({table("new", "1")}).removed.empty());
  EXPECT_EQ(core::read_file(out / kFileList), "notes of the user\n");
}

TEST(RenderFiles, NamesAreSafeAndUnique) {
  const Document document{
      .sections = {{.id = "scaling",
                    .blocks = {Table{.id = "../../etc/passwd"}, Table{.id = "scaling"}, Chart{.id = "Scaling"}, Table{},
                               Table{.id = ".."}, Table{.id = std::string(500, 'x')}, Paragraph{}}},
                   {.title = "main"}}};
  const BlockNames names = name_blocks(document);
  EXPECT_EQ(names.blocks[0], (std::vector<std::string>{"etc-passwd", "scaling", "Scaling-2", "table", "table-2",
                                                       std::string(80, 'x'), ""}));
  EXPECT_EQ(names.sections, (std::vector<std::string>{"scaling-3", "main-2"}))
      << "anchors never take a name of the page or of a file";
  const core::TempDir folder("report_files");
  for (const fs::path& file : write_document(document, folder.path() / "out"))
    EXPECT_TRUE(
        core::starts_with(fs::weakly_canonical(file).string(), (fs::weakly_canonical(folder.path()) / "out").string()))
        << file;
}

TEST(RenderFiles, WritesNothingThatWasNotAskedFor) {
  const core::TempDir folder("report_files");
  core::write_file_atomic(folder.path() / "report.md", "of the user");
  const Document document{.title = "d", .sections = {{.blocks = {tests::demo::efficiency_chart()}}}};
  const std::vector<fs::path> files = write_document(document, folder.path(), {"html", "svg"});
  EXPECT_EQ(files.size(), 2u);
  EXPECT_EQ(core::read_file(folder.path() / "report.md"), "of the user");
}

TEST(RenderFiles, ConvertsToPngAndPdf) {
  if (!has_program("rsvg-convert")) GTEST_SKIP() << "rsvg-convert is missing (package librsvg2-bin)";
  const core::TempDir folder("report_files");
  const Document document{.title = "d",
                          .sections = {{.blocks = {tests::demo::breakdown_chart(), tests::demo::efficiency_chart()}}}};
  const std::vector<fs::path> files = write_document(document, folder.path(), {"svg", "png", "pdf"});
  EXPECT_EQ(files.size(), 2u * 3u) << "nothing that was not asked for";
  const std::string png = core::read_file(folder.path() / "figures/breakdown.png");
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_EQ(static_cast<unsigned char>(png[18]) * 256 + static_cast<unsigned char>(png[19]), 1488)
      << "twice the width of the drawing with its margin";
  EXPECT_EQ(core::read_file(folder.path() / "figures/efficiency.pdf").substr(0, 5), "%PDF-");
}

TEST(RenderFiles, MissingConverterIsExplained) {
  const core::TempDir folder("report_files");
  const Document document{.sections = {{.blocks = {tests::demo::mfu_chart()}}}};
  const EmptyPath path;
  try {
    write_document(document, folder.path(), {"html", "png"});
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_NE(error.hint().find("librsvg2-bin"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("rsvg-convert"), std::string::npos);
  }
  EXPECT_TRUE(fs::exists(folder.path() / "report.html")) << "what needs no converter is there";
}

TEST(RenderFiles, FolderThatCannotBeMadeIsNamed) {
  const core::TempDir folder("report_files");
  core::write_file_atomic(folder.path() / "file", "x");
  try {
    write_document({}, folder.path() / "file" / "out");
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_NE(std::string(error.what()).find((folder.path() / "file" / "out").string()), std::string::npos);
  }
}

TEST(RenderFiles, GnuplotAcceptsEveryScript) {
  if (!has_program("gnuplot")) GTEST_SKIP() << "gnuplot is missing (package gnuplot-nox)";
  const core::TempDir folder("report_files");
  write_document(tests::demo_document(), folder.path());
  size_t num_scripts = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "figures")) {
    if (entry.path().extension() != ".gp") continue;
    const fs::path out = folder.path() / "out.svg";
    fs::remove(out);
    const auto result = core::run_command(
        {.argv = {"gnuplot", "-e", "set terminal svg; set output '" + out.string() + "'", entry.path().string()}},
        std::chrono::seconds(30));
    EXPECT_TRUE(result.status.ok() && result.err.find("line ") == std::string::npos)
        << entry.path() << ": " << result.err;
    EXPECT_TRUE(fs::exists(out) && fs::file_size(out) > 2000) << entry.path();
    ++num_scripts;
  }
  EXPECT_EQ(num_scripts, 10u);
}

/// Points by which the worst line of a LaTeX run is too wide, and whether a table is too high for its page.
std::string latex_complaints(const std::string& log) {
  constexpr double kMaxOverfullPt = 5;
  std::string complaints;
  for (const std::string& line : core::split(log, "\n")) {
    const std::string begin = "Overfull \\hbox (";
    if (const size_t at = line.find(begin);
        at != std::string::npos &&
        core::parse_double(line.substr(at + begin.size(), line.find("pt too wide") - at - begin.size())).value_or(1e9) >
            kMaxOverfullPt)
      complaints += line + "\n";
    if (line.find("Float too large") != std::string::npos) complaints += line + "\n";
  }
  return complaints;
}

TEST(RenderFiles, LatexCompilesAndFitsA4WithAndWithoutBooktabs) {
  if (!has_program("pdflatex")) GTEST_SKIP() << "pdflatex is missing (package texlive-latex-base)";
  const core::TempDir folder("report_files");
  Table hostile = tests::demo::scaling_table();
  for (const char* text : {"50% & $x_1$ #2 \\input{x} ~ ^ <>| \"q\" [1] {b}",
                           "gr\xc3\xbc\xc3\x9f \xc2\xb5 \xe2\x89\xa5 \xe4\xb8\xad \x01\xff"})
    hostile.rows.push_back({{.text = text, .note = text}});
  Table wide{.id = "wide",
             .title = "Wide",
             .caption =
                 "A path in prose: /scratch/project_465/sweeps/clap-scaling/runs/0003-nodes-4-batch-616/out.log, and "
                 "--budget-samples.",
             .columns = {{"host", "host", true}, {"nodes", "nodes"}, {"remark", "remark", true}},
             .rows = {}};
  for (int column = 0; column < 14; ++column)
    wide.columns.push_back({fmt::format("samples/s of column {}", column), fmt::format("c{}", column)});
  for (int row = 0; row < 60; ++row) {
    wide.rows.push_back({{.text = "DGX-A100-80GB"},
                         {.text = std::to_string(row)},
                         {.text = "measured: total step time over that of median steps, in "
                                  "/scratch/project_465/runs/0003-nodes-4-batch-616"}});
    for (int column = 0; column < 14; ++column)
      wide.rows.back().push_back(
          {.text = "27,025 (26,947 to 27,126)", .note = column == 3 ? "a note in each part" : ""});
  }
  for (const Table& table : {hostile, wide})
    for (const char* package : {"", "\\usepackage{booktabs}"}) {
      core::write_file_atomic(
          folder.path() / "a.tex",
          fmt::format("\\documentclass[a4paper]{{article}}{}\\begin{{document}}\n{}\n\\end{{document}}\n", package,
                      to_latex(table)));
      const auto result =
          core::run_command({.argv = {"pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"},
                             .working_folder = folder.path()},
                            std::chrono::seconds(60));
      EXPECT_TRUE(result.status.ok()) << result.out;
      EXPECT_EQ(latex_complaints(core::read_file(folder.path() / "a.log")), "") << package;
    }
}

}  // namespace
}  // namespace lockstep::draw
