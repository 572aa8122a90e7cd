#include "core/csv_table.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "support/fuzz.h"

namespace lockstep::core {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

TEST(CsvField, NoTextIsAFormulaOfASpreadsheet) {
  for (const char* text : {"=HYPERLINK(A1)", "@SUM(1)", "+A1", "-2+3|' /C calc'!A0", "-B2*2", "+=1"})
    EXPECT_EQ(csv_field(text), std::string("'") + text) << text;
  for (const char* text : {"x;=HYPERLINK(A1)", "x\t=HYPERLINK(A1)"})  // where a program parts fields at ';' or tabs
    EXPECT_EQ(csv_field(text), fmt::format("\"{}\"", text));
  EXPECT_EQ(csv_field("=a,\"b\""), "\"'=a,\"\"b\"\"\"");
  for (const char* text : {"", "-", "+", "-0.5", "+12 %", "-1e-3", "-3.2 ms", "a=b", "x - y", "64"})
    EXPECT_EQ(csv_field(text), text) << text;
}

class TableFile {
 public:
  explicit TableFile(const std::string& text) : path_(folder_.path() / "table.csv") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  CsvTable read() const { return read_table(path_); }
  std::string error() const {
    try {
      read();
    } catch (const DataError& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

 private:
  core::TempDir folder_{};
  fs::path path_;
};

TEST(Table, ColumnsByNameAndCommentsKept) {
  const CsvTable table = TableFile(
                             "\xef\xbb\xbf# CLAP, batch 616/GPU\nnodes,gpus,rate\r\n\n1, 4 ,623.7\n# a "
                             "note\n2,8,\"1,241.4\"\n4,16,\"say \"\"hi\"\"\"")
                             .read();
  EXPECT_EQ(table.comments, (Texts{"CLAP, batch 616/GPU", "a note"}));
  EXPECT_EQ(table.columns, (Texts{"nodes", "gpus", "rate"}));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.lines, (std::vector<size_t>{4, 6, 7}));
  EXPECT_EQ(table.text(1, "rate"), "1,241.4");
  EXPECT_EQ(table.text(2, "rate"), "say \"hi\"");
  EXPECT_EQ(table.number(0, "rate"), 623.7);
  EXPECT_EQ(table.numbers("gpus"), (std::vector<double>{4, 8, 16}));
  EXPECT_FALSE(table.find("mfu"));
}

TEST(Table, ACommentRightAboveTheFirstRowIsTheHeaderWhereItNamesItsNumbers) {
  const CsvTable table = TableFile("# a title\n#System,#GPUs,img/s\nA,4,\"1,650\"\nA,8,3230\n").read();
  EXPECT_EQ(table.columns, (Texts{"System", "#GPUs", "img/s"}));
  EXPECT_EQ(table.comments, Texts{"a title"});
  EXPECT_EQ(table.lines, (std::vector<size_t>{3, 4}));
  EXPECT_EQ(table.text(0, "img/s"), "1,650");
  EXPECT_EQ(TableFile("#one, two\nnodes,rate\n1,4\n").read().columns, (Texts{"nodes", "rate"})) << "a row of names";
  EXPECT_EQ(TableFile("#one, two, three\n1,4\n").read().columns, (Texts{"1", "4"})) << "not as many names";
  EXPECT_EQ(TableFile("#1,2\n3,4\n").read().columns, (Texts{"3", "4"})) << "no names";
  EXPECT_THROW(TableFile("#a,a\n3,4\n").read(), DataError);
}

TEST(Table, TitlesAndEmptyRowsOfASpreadsheetArePassedOver) {
  const CsvTable table =
      TableFile("Scaling test of June;;\n;;\n# Nodes;# GPUs;rate\n1;4;100\n;;\n2;8;190\n;;\n").read();
  EXPECT_EQ(table.comments, Texts{"Scaling test of June"});
  EXPECT_EQ(table.columns, (Texts{"Nodes", "# GPUs", "rate"}));
  EXPECT_EQ(table.lines, (std::vector<size_t>{4, 6}));
  EXPECT_EQ(TableFile("Scaling test\nnodes,rate\n1,4\n").read().columns, (Texts{"nodes", "rate"}));
  EXPECT_EQ(TableFile("nodes\n1\n").read().columns, Texts{"nodes"}) << "one column is no title";
  EXPECT_NE(TableFile("title;;\n1;2;3\n").error().find("two columns have the same name ''"), std::string::npos)
      << "no names below it";
}

TEST(Table, MarkdownIsReadAsItIsPasted) {
  const CsvTable table = TableFile("| nodes | rate |\n|---|---:|\n| 1 | 100 |\n| 2 | |\n").read();
  EXPECT_EQ(table.columns, (Texts{"nodes", "rate"}));
  EXPECT_EQ(table.rows, (std::vector<Texts>{{"1", "100"}, {"2", ""}}));
  EXPECT_EQ(table.lines, (std::vector<size_t>{3, 4}));
}

TEST(Table, MistakesNameFileLineAndColumn) {
  const CsvTable table = TableFile("a,b\n1,x\n2,inf\n").read();
  try {
    table.number(0, "b");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("table.csv' line 2, column 'b': 'x'"), std::string::npos) << error.what();
  }
  EXPECT_THROW(table.number(1, "b"), DataError);
  EXPECT_THROW(table.column("c"), DataError);
  EXPECT_NE(TableFile("").error().find("is empty"), std::string::npos);
  EXPECT_NE(TableFile("# only\n").error().find("is empty"), std::string::npos);
  EXPECT_NE(TableFile("a,b\n1,2\n1,2,3\n").error().find("line 3: 3 fields, but the header names 2"), std::string::npos);
  EXPECT_NE(TableFile("a,b\n1,\"2\n").error().find("line 2: a quote"), std::string::npos);
  EXPECT_NE(TableFile("a,a\n").error().find("same name"), std::string::npos);
  EXPECT_THROW(read_table("/nonexistent.csv"), EnvironmentError);
}

TEST(Table, TheHeaderTellsTheSeparator) {
  for (const char sign : {',', ';', '\t'}) {
    const std::string parted =
        core::replace_all("nodes|rate|note\n1|100.5|\"a|b\"\n2|190|\n", "|", std::string(1, sign));
    const CsvTable table = TableFile(parted).read();
    EXPECT_EQ(table.columns, (Texts{"nodes", "rate", "note"}));
    EXPECT_EQ(table.numbers("rate"), (std::vector<double>{100.5, 190})) << sign;
    EXPECT_EQ(table.text(0, "note"), std::string("a") + sign + "b");
    EXPECT_EQ(table.text(1, "note"), "") << "a separator may end a line";
  }
  EXPECT_EQ(separator_of("nodes"), ',');
  EXPECT_EQ(separator_of("a;b,c"), ',');
}

TEST(Table, CommasInNumbersAreInDoubt) {
  for (const char* text : {"0,5", "1,234", "-2,25", "1,5e3"}) EXPECT_TRUE(has_ambiguous_comma(text)) << text;
  for (const char* text : {"1,234.5", "1,234,567", "a,b", "12", "", "0.5", "ranks 0,1"})
    EXPECT_FALSE(has_ambiguous_comma(text)) << text;
  for (const char* text : {"1,650", "12,345.6", "1,234,567", "650,000"}) EXPECT_TRUE(may_part_thousands(text)) << text;
  for (const char* text :
       {"1,65", "0,512", "1650", "1,6500", "1234,567", "1,234,56", ",650", "-1,650", "1,650 s", "1.5,000"})
    EXPECT_FALSE(may_part_thousands(text)) << text;
  const CsvTable table = TableFile("nodes;rate\n1;100,5\n2;95 %\n").read();
  for (size_t row = 0; row < 2; ++row) {
    try {
      table.number(row, "rate");
      FAIL() << table.text(row, "rate");
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(row == 0 ? "write a decimal point" : "its unit belongs into the name of the column"),
                std::string::npos)
          << error.text();
    }
  }
}

TEST(Table, DamagedTablesAreReadOrRefusedNeverMisshapen) {
  const std::string text = "# c\nnodes,gpus,rate\n1,4,623.7\n2,8,\"1,241.4\"\n4,16,\"say \"\"hi\"\"\"\n";
  uint64_t num_read = 0;
  const uint64_t rounds = tests::fuzz_rounds(300);
  for (uint64_t round = 0; round < rounds; ++round) {
    core::CounterRng rng(round);
    try {
      const CsvTable table = TableFile(tests::damage(text, rng)).read();
      ++num_read;
      for (const auto& row : table.rows) ASSERT_EQ(row.size(), table.columns.size()) << "round " << round;
      ASSERT_EQ(table.lines.size(), table.rows.size());
    } catch (const DataError&) {
    }
  }
  EXPECT_GT(num_read, rounds / 10);
}

}  // namespace
}  // namespace lockstep::core
