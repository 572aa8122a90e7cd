#include <gtest/gtest.h>

#include "bench/result_table.h"

namespace lockstep::bench {
namespace {

const std::vector<TableColumn> kColumns = {
    {.key = "bytes", .title = "size", .unit = "B", .width = 6},
    {.key = "time_us", .title = "time", .unit = "us", .width = 8, .group = "out-of-place"},
    {.key = "wrong", .title = "#wrong", .width = 7, .group = "out-of-place"}};

TEST(ResultTable, ColumnsAreAlignedAndWhatIsMissingSaysSo) {
  const auto header = table_header(kColumns);
  ASSERT_EQ(header.size(), 3u);
  EXPECT_NE(header[0].find("out-of-place"), std::string::npos);
  EXPECT_EQ(header[1], "#  size     time  #wrong");
  EXPECT_EQ(header[2], "#   (B)     (us)        ");
  EXPECT_EQ(table_line(kColumns, {{"bytes", 1024}, {"time_us", 12.3456}, {"wrong", 0}}), "   1024    12.35       0");
  EXPECT_EQ(table_line(kColumns, {{"bytes", 1024}, {"wrong", nullptr}}), "   1024      N/A     N/A");
}

TEST(ResultTable, CommaSeparatedValuesKeepAllDigitsAndQuote) {
  EXPECT_EQ(csv_header(kColumns), "bytes,time_us,wrong");
  EXPECT_EQ(csv_line(kColumns, {{"bytes", 8}, {"time_us", 0.1}}), "8,0.1,");
  EXPECT_EQ(csv_line(kColumns, {{"bytes", "a,\"b\""}}), "\"a,\"\"b\"\"\",,");
}

TEST(ResultTable, NoTextIsAFormulaOrBeginsALine) {
  EXPECT_EQ(csv_line(kColumns, {{"bytes", "=A1;2"}, {"time_us", "x;=A1"}}), "\"'=A1;2\",\"x;=A1\",");
  EXPECT_EQ(csv_line(kColumns, {{"bytes", -8}, {"time_us", -0.5}}), "-8,-0.5,");
  EXPECT_EQ(table_line(kColumns, {{"bytes", "a\nb"}}), " a\\u000ab      N/A     N/A");
}

}  // namespace
}  // namespace lockstep::bench
