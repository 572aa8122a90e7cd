#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "core/files.h"
#include "core/process.h"
#include "core/strings.h"
#include "draw/page_assets.h"
#include "draw/render.h"
#include "draw/text_metrics.h"
#include "support/demo_document.h"
#include "support/xml_tree.h"

namespace lockstep::draw {
namespace {

using tests::demo_document;

/// What stands between two marks, for the first place where both occur.
std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t start = text.find(from);
  if (start == std::string::npos) return "(not found)";
  return text.substr(start + from.size(), text.find(to, start + from.size()) - start - from.size());
}

size_t count(const std::string& text, const std::string& part) { return core::split(text, part).size() - 1; }

std::vector<std::string> all_matches(const std::string& text, const std::string& expression) {
  const std::regex regex(expression);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

TEST(RenderPage, HashesForThePolicyAreRight) {
  EXPECT_EQ(csp_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(csp_hash("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(csp_hash(std::string(1000000, 'a')), "sha256-zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA=")
      << "the long example of FIPS 180";
  for (const size_t length : {55u, 56u, 63u, 64u, 119u, 120u})
    EXPECT_EQ(csp_hash(std::string(length, 'x')).size(), 7u + 44u);
}

TEST(RenderPage, PolicyAllowsOnlyItsOwnStyleAndScript) {
  const std::string html = to_html(demo_document());
  const std::string policy = between(html, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
  EXPECT_EQ(
      policy,
      fmt::format("default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
                  csp_hash(between(html, "<style>", "</style>")), csp_hash(between(html, "\n<script>", "</script>"))));
  EXPECT_LT(page_script().size(), 10000u);
  EXPECT_EQ(page_script().find("</script"), std::string::npos);
  EXPECT_EQ(count(html, "<script>"), 1u);
  EXPECT_EQ(count(html, "<style"), 1u);
  EXPECT_EQ(count(html, " style=\""), 0u) << "the policy refuses style attributes";
}

TEST(RenderPage, LoadsNothing) {
  const std::string html = core::replace_all(to_html(demo_document()), "http://www.w3.org/2000/svg", "");
  for (const char* reference : {"http:", "https:", "//www", "<link", "<img", "<iframe", "<object", "@import", "src=\"",
                                "srcset", "@font-face", "url(http", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(html.find(reference), std::string::npos) << reference;
  for (const std::string& target : all_matches(html, "href=\"([^\"]*)\"")) EXPECT_EQ(target[0], '#') << target;
}

TEST(RenderPage, EveryDrawingIsValidXmlAndIdsAreUnique) {
  const std::string html = to_html(demo_document());
  size_t num_drawings = 0;
  for (size_t at = html.find("<svg"); at != std::string::npos; at = html.find("<svg", at + 1)) {
    const tests::XmlTree svg(html.substr(at, html.find("</svg>", at) + 6 - at));
    EXPECT_EQ(svg.find("//*[@role='img']").size(), 1u);
    ++num_drawings;
  }
  EXPECT_EQ(num_drawings, 20u) << "ten charts in two widths";
  const std::vector<std::string> ids = all_matches(html, " id=\"([^\"]*)\"");
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
}

TEST(RenderPage, HasContentsSkipLinkCaptionsAndScopes) {
  const std::string html = to_html(demo_document());
  EXPECT_NE(html.find("<a class=\"skip\" href=\"#main\">"), std::string::npos);
  EXPECT_NE(html.find("<a href=\"#efficiency\">Scaling efficiency against one node</a>"), std::string::npos);
  EXPECT_EQ(count(html, "<table"), count(html, "<caption>"));
  EXPECT_EQ(count(html, "<h1>"), 1u);
  EXPECT_EQ(count(html, "<h2 "), 5u);
  EXPECT_EQ(count(html, "<th>"), 0u) << "every head has a scope";
  EXPECT_EQ(count(html, "<details>"), 10u);
  EXPECT_NE(html.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(html.find("@page{size:A4"), std::string::npos);
}

TEST(RenderPage, ShowsEveryNumberOfItsTables) {
  const std::string html = to_html(demo_document());
  const std::string table = between(html, "<div class=\"table\" id=\"scaling\">", "</table>");
  for (const auto& row : tests::demo::scaling_table().rows)
    for (const Cell& cell : row) EXPECT_NE(table.find(">" + cell.text), std::string::npos) << cell.text;
  EXPECT_NE(table.find("&ndash;"), std::string::npos);
  EXPECT_NE(html.find("<li id=\"scaling-n1\">fewer than 100 measured steps</li>"), std::string::npos);
}

TEST(RenderPage, ThinsVeryLongChartDataAndSaysSo) {
  Chart chart{.id = "long", .series = {{.name = "s", .mark = Mark::kLine}}};
  for (int index = 0; index < 20000; ++index) {
    chart.series[0].x.push_back(index);
    chart.series[0].y.push_back(index);
  }
  const std::string html = to_html({.sections = {{.blocks = {chart}}}});
  EXPECT_NE(html.find("One in 7 of 20000 rows; figures/long.csv has all."), std::string::npos);
  EXPECT_EQ(count(html, "<tr>"), 1u + 2858u);
}

TEST(RenderPage, CarriesItsDataUnharmed) {
  const std::string html = to_html(demo_document());
  const std::string data = between(html, "<script type=\"application/json\" id=\"lockstep-data\">", "</script>");
  EXPECT_EQ(core::replace_all(data, "\\u003c", "<"), demo_document().data_json);
}

TEST(RenderPage, HostileTextStaysTextEverywhere) {
  const std::string hostile =
      "\"><script>alert('x')</script><img src=x onerror=alert(1)> </title></style> & \x01 \xff \xe2\x82";
  Table table{.id = hostile,
              .title = hostile,
              .caption = hostile,
              .columns = {{hostile, hostile, true}},
              .rows = {{{.text = hostile, .note = hostile}}},
              .notes = {hostile}};
  Chart chart{.id = hostile,
              .title = hostile,
              .summary = hostile,
              .caption = hostile,
              .x = {.title = hostile},
              .y = {.title = hostile},
              .series = {{.name = hostile, .x = {1}, .y = {2}, .labels = {hostile}},
                         {.name = hostile + "2", .x = {1}, .y = {3}}}};
  Document document{
      .title = hostile,
      .subtitle = hostile,
      .sections = {{.id = hostile, .title = hostile, .blocks = {Paragraph{.text = hostile}, table, chart, table}}},
      .data_json = "{\"a\": \"</script><script>alert(2)</script><!--\"}"};
  const std::string html = to_html(document);
  EXPECT_EQ(count(html, "<script"), 2u) << "data and own script";
  EXPECT_EQ(count(html, "</script"), 2u);
  EXPECT_EQ(count(html, "<img"), 0u);
  EXPECT_EQ(count(html, "<!--"), 0u);
  EXPECT_EQ(count(html, "</title>"), count(html, "<title"));
  EXPECT_EQ(clean_text(html), html) << "valid UTF-8 without control characters";
  for (const std::string& id : all_matches(html, " id=\"([^\"]*)\""))
    EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."),
              std::string::npos)
        << id;
}

TEST(RenderPage, EmptyDocumentsAreStillPages) {
  EXPECT_NE(to_html(Document{}).find("</html>"), std::string::npos);
  const std::string html =
      to_html({.sections = {{.blocks = {Table{}, Chart{}, Paragraph{}, Table{.columns = {{"a", "a"}}}}}}});
  EXPECT_NE(html.find("This table has no columns."), std::string::npos);
  EXPECT_NE(html.find("no rows"), std::string::npos);
}

/// Runs the checker of pages; its problems, or a skip where there is no browser.
core::CommandResult check_page(const std::string& html, const std::filesystem::path& folder) {
  core::write_file_atomic(folder / "report.html", html);
  return core::run_command(
      {.argv = {"python3", LOCKSTEP_SOURCE_DIR "/tests/support/check_page.py", (folder / "report.html").string()}},
      std::chrono::minutes(8));
}
constexpr int kNoBrowser = 3;

TEST(RenderPage, BrowserFindsNoProblemAtTwoWidthsLightDarkPrintedAndWithoutScripts) {
  const core::TempDir folder("report_page");
  const core::CommandResult result = check_page(to_html(demo_document()), folder.path());
  if (result.status.code == kNoBrowser) GTEST_SKIP() << result.out;
  EXPECT_TRUE(result.status.ok()) << result.out << result.err;
}

TEST(RenderPage, BrowserCheckNoticesWhatIsBroken) {
  std::string html = to_html(demo_document());
  // Overlapping and cut text, a faint one, and, past the policy, a script error and a request.
  html = core::replace_all(html, "<div class=\"wide\"><svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\"",
                           "<div class=\"wide\"><svg class=\"chart broken\"");
  const size_t first = html.find("chart broken"), end = html.find("</svg>", first);
  html.insert(end,
              "<text x=\"820\" y=\"100\" class=\"ink\">leaves the drawing</text><text x=\"300\" y=\"100\" "
              "class=\"ink\">over</text><text x=\"304\" y=\"102\" class=\"ink\">each other</text>");
  html = core::replace_all(html, "--muted:#57606a", "--muted:#c8c8c8");
  html =
      core::replace_all(html, "<footer>",
                        "<div class=\"table\" id=\"scaling-broken\"><div class=\"scroll\"><table "
                        "style=\"width:40px;min-width:0;table-layout:fixed\"><caption>x</caption><thead><tr>"
                        "<th scope=\"col\">x</th></tr></thead><tbody><tr><td "
                        "style=\"white-space:normal;overflow-wrap:anywhere\">13,000,000,000</td></tr></tbody></table>"
                        "<div style=\"width:3000px\">x</div></div></div><footer>");
  html = core::replace_all(
      html, "content=\"default-src 'none';",
      "content=\"default-src *; img-src *; script-src 'unsafe-inline'; style-src 'unsafe-inline'; x-rest");
  html = core::replace_all(html, "<footer>",
                           "<img src=\"missing.png\"><script>throw new Error('broken on purpose');</script><p "
                           "id=\"main\"><a href=\"#nowhere\">x</a></p><footer>");
  const core::TempDir folder("report_page");
  const core::CommandResult result = check_page(html, folder.path());
  if (result.status.code == kNoBrowser) GTEST_SKIP() << result.out;
  EXPECT_EQ(result.status.code, 1) << result.err;
  for (const char* problem :
       {"cut: 'leaves the drawing'", "overlap: 'over' and 'each other'", "contrast 1.67",
        "broken inside a word: '13,000,000,000'", "table scaling-broken needs", "broken on purpose", "missing.png",
        "id 'main' occurs twice", "link to nowhere: #nowhere"})
    EXPECT_NE(result.out.find(problem), std::string::npos) << problem << " in\n" << result.out;
}

TEST(RenderPage, WideTablesTakeThePageAndTheirHeadsKeepWordsWhole) {
  const std::string style = page_style();
  const std::string head = between(style, "thead th{font-weight:600;", "}");
  EXPECT_NE(head.find("overflow-wrap:normal"), std::string::npos) << head;
  EXPECT_NE(head.find("word-break:normal"), std::string::npos) << head;
  EXPECT_NE(style.find("@media screen{.many{font-size:.78rem}"), std::string::npos);
  const auto frame_rem = core::parse_double(between(style, ".frame{max-width:", "rem"));
  ASSERT_TRUE(frame_rem);
  EXPECT_GE(*frame_rem * 16, 1400) << "a page of 1400 px leaves nothing unused";
}

}  // namespace
}  // namespace lockstep::draw
