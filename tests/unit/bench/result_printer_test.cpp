#include "bench/result_printer.h"

#include <gtest/gtest.h>

#include "core/files.h"

namespace lockstep::bench {
namespace {

/// What --output holds while rows come and after the end.
TEST(ResultPrinter, KeepsEachRowInTheDocumentAsSoonAsItIsMeasured) {
  const core::TempDir folder;
  commands::BenchOptions options;
  options.json = true;  // no table
  options.out = (folder.path() / "out.json").string();
  ResultPrinter printer(options, /*is_printing=*/true, {}, {{"format", "f"}});
  ResultPrinter other(options, /*is_printing=*/false, {}, {{"format", "of another rank"}});
  printer.begin({});
  for (int64_t i = 0; i < 2; ++i) {
    printer.add({{"part", "p"}, {"index", i}});
    other.add({{"part", "p"}, {"index", 9}});
    const core::Json document = core::read_json_file(options.out);
    EXPECT_EQ(document.at("format"), "f");
    EXPECT_EQ(document.at("incomplete"), true);
    ASSERT_EQ(document.at("rows").size(), static_cast<size_t>(i) + 1);
    EXPECT_EQ(document.at("rows").back().at("index"), i);
    EXPECT_FALSE(document.contains("summary"));
  }
  printer.end({{.key = "best", .label = "Best", .value = 3}});
  other.end({});
  const core::Json document = core::read_json_file(options.out);
  EXPECT_FALSE(document.contains("incomplete"));
  EXPECT_EQ(document.at("rows").size(), 2u);
  EXPECT_EQ(document.at("summary").at("best"), 3);
}

}  // namespace
}  // namespace lockstep::bench
