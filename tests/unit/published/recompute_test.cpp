#include "published/recompute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "analysis/text.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "published/columns.h"
#include "published/runs.h"

namespace lockstep::published {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "published";

PublishedTable golden(const std::string& name) { return check_published(kFolder / name); }

using Cells = std::set<std::string>;

/// "nodes 4 efficiency_pct 98.9 98.8" of every cell with this verdict.
Cells cells_with(const PublishedTable& table, CellVerdict verdict) {
  Cells cells;
  for (const CheckedCell& cell : table.cells)
    if (cell.verdict == verdict)
      cells.insert(cell.row_name + " " + cell.column + " " + cell.printed + " " + cell.recomputed);
  return cells;
}

TEST(Published, DecimalsOfAnyNumberAreCounted) {
  EXPECT_EQ(num_decimals("12"), 0);
  EXPECT_EQ(num_decimals("12.50"), 2);
  EXPECT_EQ(num_decimals("1.04e4"), -2);
  EXPECT_EQ(num_decimals("1.04E-4"), 6);
  for (const char* text : {"1e99999999999", "1e-99999999999", "1enan", "1einf", "e", "1e", ".e."})
    EXPECT_LE(std::abs(num_decimals(text)), 401) << text;
}

TEST(Published, ClapTinyFollowsButForOneEfficiencyAndFiveTotals) {
  const PublishedTable table = golden("clap_htsat_tiny_jupiter.csv");
  EXPECT_EQ(table.cells.size(), 24u);  // totals, MFU and efficiency of eight sizes
  EXPECT_EQ(cells_with(table, CellVerdict::kNot), Cells{});
  EXPECT_EQ(cells_with(table, CellVerdict::kUnroundedOnly),
            (Cells{"nodes 4 efficiency_pct 98.9 98.8", "nodes 4 samples_per_s 9865 9864",
                   "nodes 8 samples_per_s 19572 19571", "nodes 16 samples_per_s 38512 38515",
                   "nodes 64 samples_per_s 146767 146765", "nodes 128 samples_per_s 278833 278835"}));
}

TEST(Published, ManyRepeatsOfOneBaseAreComparedOnce) {
  // 4,000 rows that are all the base of all: 64 million numbers where each row looks for it anew.
  const core::TempDir folder;
  const auto path = folder.path() / "repeats.csv";
  std::string text = "system,nodes,gpus,samples_per_s,efficiency_pct,speedup\n";
  for (int i = 0; i < 4'000; ++i) text += "A,1,4,100,100,1\n";
  core::write_file_atomic(path, text);
  const PublishedTable table = check_published(path);
  EXPECT_EQ(table.cells.size(), 8'000u);
  EXPECT_EQ(cells_with(table, CellVerdict::kNot), Cells{});
  EXPECT_EQ(table.recomputed.rows.size(), 4'000u);
}

TEST(Published, EachGroupAndFormulaHasABaseOfItsOwn) {
  const core::TempDir folder;
  const auto path = folder.path() / "two.csv";
  core::write_file_atomic(path,
                          "system,gpus,samples_per_s,speedup\nA,4,100,1.00\nA,4,400,4.00\nA,8,800,4.00\n"
                          "B,4,10,1.00\nB,8,20,2.00\n");
  const PublishedTable table = check_published(path);
  EXPECT_EQ(cells_with(table, CellVerdict::kExact),  // A's base is the geometric mean of its repeats, 200
            (Cells{"A, gpus 8 speedup 4.00 4.00", "B, gpus 4 speedup 1.00 1.00", "B, gpus 8 speedup 2.00 2.00"}));
}

TEST(Published, LargeTablesAreRefused) {
  const core::TempDir folder;
  const auto path = folder.path() / "large.csv";
  std::string rows = "nodes,samples_per_s\n", header = "nodes", row = "1";
  for (int i = 0; i < 10'001; ++i) rows += "1,2\n";
  for (int i = 0; i < 256; ++i) header += fmt::format(",c{}", i), row += ",2";
  core::write_file_atomic(path, rows);
  EXPECT_THROW(check_published(path), DataError);
  core::write_file_atomic(path, header + "\n" + row + "\n");
  EXPECT_THROW(check_published(path), DataError);
}

TEST(Published, CommentsOfAnyLengthAreRead) {
  const core::TempDir folder;
  const std::string text = core::read_file(kFolder / "clap_htsat_tiny_jupiter.csv");
  std::string long_comments;
  for (const char* part : {"1", "1 TFLOP/s, ", "forward 1", "model FLOPs 1e1", "efficiency formula as printed: "}) {
    long_comments += "# ";
    for (int i = 0; i < 50'000; ++i) long_comments += part;
    long_comments += "\n";
  }
  core::write_file_atomic(folder.path() / "t.csv", text + long_comments);
  EXPECT_EQ(check_published(folder.path() / "t.csv").cells.size(), golden("clap_htsat_tiny_jupiter.csv").cells.size());
}

TEST(Published, ClapBaseHasTwoCellsThatNoRoundingExplains) {
  const PublishedTable table = golden("clap_htsat_base_jupiter.csv");
  EXPECT_EQ(table.cells.size(), 24u);
  EXPECT_EQ(cells_with(table, CellVerdict::kNot),
            (Cells{"nodes 8 efficiency_pct 96.9 97.0", "nodes 128 mfu_pct 18.0 17.9"}));
  EXPECT_EQ(cells_with(table, CellVerdict::kUnroundedOnly),
            (Cells{"nodes 64 mfu_pct 19.1 19.2", "nodes 16 samples_per_s 32502 32499",
                   "nodes 64 samples_per_s 124245 124237", "nodes 128 samples_per_s 232876 232858"}));
}

TEST(Published, NemotronFollowsToThePrintedDigit) {
  const PublishedTable table = golden("nemotron4_340b_h100.csv");
  EXPECT_EQ(table.cells.size(), 30u);  // tokens/s, MFU and days of five sizes in two precisions
  EXPECT_EQ(cells_with(table, CellVerdict::kExact).size(), 30u);
}

TEST(Published, NemoClipNeedsAnUnroundedBase) {
  const PublishedTable table = golden("nemo_clip_g14.csv");
  EXPECT_EQ(table.cells.size(), 20u);
  EXPECT_EQ(cells_with(table, CellVerdict::kNot), Cells{});
  const std::string a100 = "DGX-A100-80GB, nodes ", h100 = "DGX-H100-80GB, nodes ",
                    linear = " perfect_linear_samples_per_s ";
  EXPECT_EQ(
      cells_with(table, CellVerdict::kUnroundedOnly),
      (Cells{a100 + "16 speedup 15.43 15.44", h100 + "16 speedup 14.80 14.79", a100 + "2" + linear + "1119 1118",
             a100 + "4" + linear + "2237 2236", a100 + "8" + linear + "4475 4472", a100 + "16" + linear + "8950 8944",
             h100 + "2" + linear + "1869 1870", h100 + "4" + linear + "3739 3740", h100 + "8" + linear + "7478 7480",
             h100 + "16" + linear + "14955 14960"}));
}

TEST(Published, SpeedUpsOfMachinesAndInferenceFollow) {
  EXPECT_EQ(cells_with(golden("nemo_clip_compare.csv"), CellVerdict::kExact).size(), 3u);
  EXPECT_EQ(cells_with(golden("nemo_clip_inference.csv"), CellVerdict::kExact).size(), 4u);
}

TEST(Published, FlopsOfTheRecipeFollowAndDoNotFitTheModel) {
  const PublishedTable table = golden("nemotron4_340b_flops.csv");
  EXPECT_EQ(cells_with(table, CellVerdict::kExact).size(), 4u);
  EXPECT_EQ(cells_with(table, CellVerdict::kNot), Cells{});
  EXPECT_EQ(cells_with(table, CellVerdict::kOtherMeaning), Cells{"attention flops 869730877440 510966890496"});
  // Mark, list and count tell the same of that cell.
  const draw::Cell& mark = table.recomputed.rows.at(0).back();
  EXPECT_NE(mark.note.find("follows from its formula, which does not fit"), std::string::npos) << mark.note;
  const draw::Document document = published_document({table});
  EXPECT_NE(document.subtitle.find("of 4 derived cells 4 follow to the printed digit"), std::string::npos)
      << document.subtitle;
  EXPECT_NE(document.subtitle.find("0 do not; 1 have a remark"), std::string::npos) << document.subtitle;
  for (const CheckedCell& cell : table.cells)
    if (!cell.remark.empty()) {
      EXPECT_EQ(difference_text(cell).find("does not follow"), std::string::npos) << difference_text(cell);
    }
}

TEST(Published, EfficiencyFormulaOfTheGuideIsPrintedUpsideDown) {
  Cells rows;
  for (const CheckedCell& cell : golden("eurohpc_statements.csv").cells) {
    EXPECT_EQ(cell.verdict, CellVerdict::kOtherMeaning);
    rows.insert(cell.row_name + " " + cell.printed + " " + cell.recomputed);
  }
  EXPECT_EQ(rows, (Cells{"MareNostrum5 resnet50, per-batch efficiency FP32 and AMP at any node count 0.89 1.124",
                         "Leonardo resnet50, FP32 per-epoch efficiency at 16 nodes 0.90 0.069",
                         "Leonardo resnet50, FP32 per-epoch efficiency at 64 nodes 0.77 0.020"}));
}

TEST(Published, TwoTablesOfOneModelContradictEachOtherOnH100) {
  const auto found = contradictions({golden("nemo_clip_compare.csv"), golden("nemo_clip_g14.csv")});
  ASSERT_EQ(found.size(), 1u) << "on A100 both agree";
  EXPECT_NE(found[0].find("DGX-H100-80GB, 4 nodes"), std::string::npos) << found[0];
  EXPECT_NE(found[0].find("implies 5760 samples/s"), std::string::npos) << found[0];
}

TEST(Published, TablesWithoutFormulasAreShownAsTheyAre) {
  for (const char* name : {"epicure_runs.csv", "nemo_clip_accuracy.csv"}) {
    const PublishedTable table = golden(name);
    EXPECT_TRUE(table.cells.empty()) << name;
    EXPECT_FALSE(table.recomputed.rows.empty()) << name;
  }
}

TEST(Published, EveryRowHasACellForEveryColumn) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    ++count;
    EXPECT_TRUE(logs::is_result_table(entry.path())) << entry.path();
    const PublishedTable table = check_published(entry.path());
    for (const draw::Table* one : {&table.recomputed, &table.differences})
      for (const auto& row : one->rows) EXPECT_EQ(row.size(), one->columns.size()) << entry.path();
  }
  EXPECT_EQ(count, 10u);
}

TEST(Published, ChartsOfAWeakTableSayWeak) {
  const PublishedTable table = golden("clap_htsat_base_jupiter.csv");
  const std::vector<draw::Chart> charts = row_charts(table.rows, "-base");
  ASSERT_FALSE(charts.empty());
  EXPECT_EQ(charts[0].id, "efficiency-base");
  EXPECT_NE(charts[0].caption.find("weak scaling"), std::string::npos) << charts[0].caption;
  EXPECT_NEAR(charts[0].series[0].y.back(), 84.5, 0.06);
}

TEST(Published, RatesOverNodesAloneGiveSpeedUpAndEfficiencyAndSayWhatIsMissing) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path, "nodes,samples_per_s\n1,100\n2,190\n4,340\n");
  ASSERT_TRUE(logs::is_result_table(path));
  const PublishedTable table = check_published(path);
  const auto number = [&](const char* key, size_t row) {
    for (size_t i = 0; i < table.recomputed.columns.size(); ++i)
      if (table.recomputed.columns[i].key == key) return *table.recomputed.rows.at(row).at(i).value;
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(number("speedup", 2), 3.4);
  EXPECT_DOUBLE_EQ(number("efficiency_pct", 1), 95);
  EXPECT_DOUBLE_EQ(number("efficiency_pct", 2), 85);
  const std::string missing = core::join(table.missing, "; ");
  for (const char* words : {"the devices (a column gpus)", "--fwd-gflops", "--peak-tflops", "the batch"})
    EXPECT_NE(missing.find(words), std::string::npos) << missing;
  EXPECT_EQ(table.recomputed.notes.back(), "The table does not tell " + missing + ".");
  ASSERT_FALSE(row_charts(table.rows, "").empty());
  EXPECT_NEAR(row_charts(table.rows, "")[0].series[0].y.back(), 85, 1e-9);
  core::write_file_atomic(path, "nodes,gpus,samples_per_s\n1,4,2495\n2,8,4966\n");
  const PublishedTable more = check_published(path, {.forward_gflops = 111.2, .peak_tflops = 989});
  EXPECT_EQ(more.recomputed.columns.at(5).key, "mfu_pct");
  EXPECT_NEAR(*more.recomputed.rows.at(0).at(5).value, 3 * 111.2 * 2495 / 4 / 989e3 * 100, 1e-9);
  EXPECT_EQ(core::join(more.missing, "").find("MFU"), std::string::npos) << core::join(more.missing, "");
}

// As predict asks: such a rate is mostly that of one device, and its efficiency is then no eighth.
TEST(Published, RatesThatHardlyChangeAreAskedAbout) {
  core::TempDir folder;
  const auto doubts = [&](const std::string& text) {
    core::write_file_atomic(folder.path() / "mine.csv", text);
    return core::join(check_published(folder.path() / "mine.csv").doubts, " ");
  };
  const std::string flat = doubts("GPUs,tokens/s\n64,8850\n8,9100\n16,9020\n");
  EXPECT_NE(flat.find("Column 'tokens/s' hardly changes (9100 to 8850) while the devices grow from 8 to 64: is it the "
                      "rate of one device ('per GPU' in its name says so)? It was read as that of all."),
            std::string::npos)
      << flat;
  EXPECT_NE(doubts("nodes,images/s\n1,100\n8,101\n").find("the nodes grow from 1 to 8"), std::string::npos);
  const std::string one = doubts("model,GPUs,images/s\na,8,100\na,64,99\nb,8,100\nb,64,700\n");
  EXPECT_EQ(one.find("hardly"), one.rfind("hardly")) << "each curve is asked about alone: " << one;
  for (const char* text : {"GPUs,tokens/s\n8,100\n16,190\n", "GPUs,tokens/s/GPU\n8,100\n64,99\n",
                           "nodes,images/s\n1,2400\n2,4700\n4,8000\n8,9000\n16,9100\n"})
    EXPECT_EQ(doubts(text).find("hardly"), std::string::npos) << text;
}

// A '#' before the first name of all may begin a comment or count what follows it.
TEST(Published, ASignThatMakesTheHeaderACommentCountsDevices) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  const auto first_column = [&](const std::string& text) {
    core::write_file_atomic(path, text);
    EXPECT_TRUE(logs::is_result_table(path)) << text;
    const PublishedTable table = check_published(path);
    return table.printed.columns.front() + " of '" + table.given.front() + "'";
  };
  EXPECT_EQ(first_column("# A100,images/s\n8,100\n16,196\n"), "gpus of '# A100'");
  EXPECT_EQ(first_column("# nodes,images/s\n8,100\n16,196\n"), "nodes of 'nodes'");
  EXPECT_EQ(first_column("# A100 40GB\ngpus,images/s\n8,100\n16,196\n"), "gpus of 'gpus'") << "another header comes";
}

TEST(Published, FlagsWinOverComments) {
  const PublishedTable half =
      check_published(kFolder / "clap_htsat_tiny_jupiter.csv", {.forward_gflops = 111.2 / 2, .peak_tflops = {}});
  size_t mfu = 0;
  for (const CheckedCell& cell : half.cells)
    if (cell.column == "mfu_pct") {
      ++mfu;
      EXPECT_EQ(cell.verdict, CellVerdict::kNot) << cell.row_name;
    }
  EXPECT_EQ(mfu, 8u);
}

TEST(Published, DamagedTablesAreRefusedWithTheirPlace) {
  core::TempDir folder;
  const auto path = folder.path() / "table.csv";
  core::write_file_atomic(path, "nodes,gpus,samples_per_s_per_gpu,samples_per_s\n1,4,623.7,many\n");
  try {
    check_published(path);
    FAIL() << "a word for a number was taken";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("samples_per_s"), std::string::npos) << error.text();
  }
  core::write_file_atomic(path, "nodes,global_batch,samples_per_s\n1,1e300,10\n1e40,1e300,20\n");
  EXPECT_NO_THROW(check_published(path)) << "counts beyond any run";
  core::write_file_atomic(path, "nodes,gpus\n");
  EXPECT_THROW(check_published(path), DataError);
}

/// The value of a column in a row of the recomputed table.
double number_of(const PublishedTable& table, const std::string& key, size_t row) {
  for (size_t i = 0; i < table.recomputed.columns.size(); ++i)
    if (table.recomputed.columns[i].key == key) return *table.recomputed.rows.at(row).at(i).value;
  ADD_FAILURE() << "no column " << key;
  return 0;
}

std::string notes_of_table(const PublishedTable& table) { return core::join(table.recomputed.notes, " "); }

/// The table of a text.
PublishedTable table_of(const std::string& text, const analysis::AnalysisOptions& options = {}) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "mine.csv", text);
  return check_published(folder.path() / "mine.csv", options);
}

TEST(Published, TextsThatDoNotComeBackAtOtherSizesPartNothing) {
  for (const char* text : {"nodes,samples_per_s,nodelist\n1,100,n1\n2,150,n[1-2]\n4,210,n[1-4]\n",
                           "nodes,samples_per_s,comments\n1,100,\n2,150,\n4,210,slow disk\n"}) {
    const PublishedTable table = table_of(text);
    EXPECT_NE(notes_of_table(table).find("rows are compared without regard to it"), std::string::npos)
        << notes_of_table(table);
    EXPECT_NE(notes_of_table(table).find("Base: nodes 1 (line 2)."), std::string::npos) << notes_of_table(table);
    EXPECT_NEAR(number_of(table, "efficiency_pct", 1), 75, 1e-9) << text;
    EXPECT_NEAR(number_of(table, "efficiency_pct", 2), 52.5, 1e-9) << text;
  }
}

TEST(Published, RepeatsOfTheBaseAreOneBaseThatIsNamed) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path, "nodes,run,samples_per_s\n1,a,90\n1,b,160\n2,a,180\n2,b,216\n");
  const PublishedTable table = check_published(path);
  EXPECT_NEAR(number_of(table, "efficiency_pct", 0), 75, 1e-9) << "a repeat of the base is no base of its own";
  EXPECT_NEAR(number_of(table, "efficiency_pct", 2), 75, 1e-9);
  EXPECT_NEAR(number_of(table, "speedup", 3), 1.8, 1e-9) << "of the geometric mean, 120";
  EXPECT_NE(notes_of_table(table).find("Base: nodes 1 (geometric mean of 2 repeats, lines 2, 3)."), std::string::npos)
      << notes_of_table(table);
}

TEST(Published, RepeatsAreOneSizeWithAnInterval) {
  const PublishedTable table = table_of(
      "nodes,gpus,run,samples_per_s\n1,4,a,98\n1,4,b,100\n1,4,c,103\n2,8,a,186\n2,8,b,190\n2,8,c,195\n4,16,a,340\n");
  ASSERT_EQ(curves_with_repeats(table.rows).size(), 1u);
  const analysis::Curve& curve = *curves_with_repeats(table.rows).front();
  ASSERT_EQ(curve.points.size(), 3u);
  const auto logs =
      [](std::initializer_list<double> rates) {  // mean and half of the interval, Student's t of 2 degrees of freedom
        double mean = 0, squares = 0;
        for (const double rate : rates) mean += std::log(rate) / 3;
        for (const double rate : rates) squares += std::pow(std::log(rate) - mean, 2);
        return std::pair(mean, 4.302652729911275 * std::sqrt(squares / 2 / 3));
      };
  const auto [base, base_half] = logs({98, 100, 103});
  const auto [twice, twice_half] = logs({186, 190, 195});
  EXPECT_NEAR(curve.points[1].samples_per_s.value, std::exp(twice), 1e-9);
  EXPECT_NEAR(curve.points[1].samples_per_s.low, std::exp(twice - twice_half), 1e-6);
  EXPECT_NEAR(curve.points[1].samples_per_s.high, std::exp(twice + twice_half), 1e-6);
  EXPECT_NEAR(curve.points[1].efficiency.value, std::exp(twice - base) / 2, 1e-9);
  EXPECT_NEAR(curve.points[1].efficiency.low, std::exp(twice - base - std::hypot(base_half, twice_half)) / 2, 1e-6);
  EXPECT_FALSE(curve.points[2].efficiency.has_range) << "one value";
  EXPECT_EQ(curve.points[0].setup.global_batch, std::nullopt) << "a rate is no batch";
  const std::string limits = core::join(analysis::limits_of(curve), "\n");
  for (const char* words : {"One value only at 4 nodes", "The rows at 1 node, 2 nodes do not all name their job"})
    EXPECT_NE(limits.find(words), std::string::npos) << limits;
  // Rows of one job are no independent repeats, and equal rows are known to their printed digit only.
  const PublishedTable jobs = table_of("nodes,job,samples_per_s\n1,7,100\n1,7,100\n1,8,100\n2,9,190\n");
  const analysis::Point& point = jobs.rows.curves.at(0).points.at(0);
  EXPECT_EQ(point.num_allocations, 2u);
  ASSERT_TRUE(point.samples_per_s.has_range);
  EXPECT_LT(point.samples_per_s.low, 99.51);
  EXPECT_GT(point.samples_per_s.high, 100.49);
  // A column that parts the rows parts the repeats, too.
  const PublishedTable parted =
      table_of("nodes,network,samples_per_s\n1,slow,100\n1,fast,200\n2,slow,150\n2,fast,380\n");
  EXPECT_EQ(parted.rows.curves.size(), 2u);
  EXPECT_TRUE(curves_with_repeats(parted.rows).empty());
}

TEST(Published, TheMeanOfRepeatsIsDoubtedNotOneOfThem) {
  const PublishedTable one_high =
      table_of("nodes,global_batch,samples_per_s\n1,64,100\n1,64,100\n2,128,180\n2,128,210\n");
  EXPECT_TRUE(one_high.doubts.empty()) << core::join(one_high.doubts, "\n");
  const PublishedTable high = table_of("nodes,global_batch,samples_per_s\n1,64,100\n1,64,100\n2,128,230\n2,128,240\n");
  ASSERT_EQ(high.doubts.size(), 1u);
  EXPECT_NE(high.doubts[0].find("2 rows: efficiency is 117.5 %"), std::string::npos) << high.doubts[0];
}

TEST(Published, TheBaseMayBeAskedFor) {
  const std::string text = "nodes,gpus,samples_per_s,efficiency_pct\n1,4,100,100\n2,8,190,95\n4,16,361,90.25\n";
  const PublishedTable table = table_of(text, {.base_nodes = 2});
  EXPECT_NEAR(number_of(table, "efficiency_pct_recomputed", 2), 95, 1e-9);
  EXPECT_NEAR(number_of(table, "efficiency_pct_recomputed", 0), 105.3, 0.1);
  EXPECT_NE(notes_of_table(table).find("Base: nodes 2 (line 3)."), std::string::npos) << notes_of_table(table);
  EXPECT_EQ(table.rows.curves.at(0).base, 1u);
  const PublishedTable without = table_of("nodes,samples_per_s\n1,100\n2,190\n", {.base_nodes = 3});
  ASSERT_EQ(without.recomputed.columns.at(3).key, "efficiency_pct");
  const draw::Cell& efficiency = without.recomputed.rows.at(1).at(3);
  EXPECT_FALSE(efficiency.value.has_value());
  EXPECT_NE(efficiency.note.find("the base asked for, 3 nodes"), std::string::npos) << efficiency.note;
  EXPECT_NE(notes_of_table(without).find("There is no base: no row has 3 nodes."), std::string::npos)
      << notes_of_table(without);
  EXPECT_TRUE(table_of(text, {.base_nodes = 3}).cells.empty()) << "without a base no cell of it can be checked";
}

TEST(Published, JsonHasTheRecomputedRowsAndTheSizes) {
  const core::Json json =
      core::Json::parse(published_json({table_of("nodes,samples_per_s,note\n1,100,\n1,102,\n2,190,x\n")}))
          .at("tables")
          .at(0);
  EXPECT_NEAR(json.at("rows").at(2).at("efficiency_pct").get<double>(), 95 / std::sqrt(1.02), 1e-9);
  EXPECT_EQ(json.at("rows").at(2).at("note"), "x");
  const core::Json& points = json.at("sizes").at(0).at("points");
  EXPECT_EQ(points.at(0).at("runs").size(), 2u);
  EXPECT_TRUE(points.at(0).at("samples_per_s").contains("low"));
  EXPECT_TRUE(points.at(0).at("step_p50_ms").is_null()) << "a table of rates tells no step time";
}

TEST(Published, TokensPerSecondAreAppliedForInTokens) {
  const PublishedTable table = table_of("nodes,gpus,tokens_per_s\n1,8,1e5\n2,16,190000\n");
  const analysis::Point& point = table.rows.curves.at(0).points.at(1);
  EXPECT_TRUE(analysis::is_token_task(point));
  EXPECT_NEAR(point.budget_days, 1e12 / 190000 / 86400, 1e-9);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Published, SamplesOfATokenTableCountTheirTokensOrAreRefused) {
  analysis::AnalysisOptions options;
  options.budget_samples = 1e6, options.is_samples_budget_given = true;
  const std::string rows = "1,8,20000,2048\n2,16,39000,2048\n4,32,75000,2048\n";
  const analysis::Analysis analysis = table_of("nodes,gpus,tokens_per_s,seq_len\n" + rows, options).rows;
  const analysis::Point& last = analysis.curves.at(0).points.at(2);
  EXPECT_NEAR(last.budget_node_hours, 4 * 1e6 * 2048 / 75000 / 3600, 1e-9);
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      table_of(text, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(contains(refusal("nodes,gpus,tokens_per_s\n1,8,20000\n2,16,39000\n"),
                       "tells tokens/s, which --budget-samples cannot be counted by"));
  EXPECT_TRUE(contains(refusal("nodes,gpus,tflops_per_gpu\n1,8,150\n2,16,148\n"),
                       "tells TFLOP/s, which --budget-samples cannot be counted by"));
  options.is_samples_budget_given = false, options.is_tokens_budget_given = true;
  EXPECT_TRUE(contains(refusal("nodes,samples_per_s\n1,100\n2,190\n"),
                       "tells samples/s, which --budget-tokens cannot be counted by"));
}

TEST(Published, AsManyDevicesOnMoreNodesAreNoRepeatOfTheBase) {
  const PublishedTable table = table_of("nodes,gpus,samples_per_s\n1,8,1000\n2,8,960\n2,16,1900\n4,32,3600\n");
  EXPECT_NEAR(number_of(table, "speedup", 3), 3.6, 1e-9);
  EXPECT_NEAR(number_of(table, "efficiency_pct", 3), 90, 1e-9);
  EXPECT_NEAR(table.rows.curves.at(0).points.back().speedup, 3.6, 1e-9) << "the text of the same page";
  EXPECT_TRUE(contains(core::join(table.recomputed.notes, " "), "Base: nodes 1 (line 2)."));
}

TEST(Published, SizesBelowTheBaseAreNotJudgedByIt) {
  analysis::AnalysisOptions options;
  options.base_nodes = 4;
  const std::string text = "nodes,samples_per_s\n1,100\n2,190\n4,360\n8,680\n";
  EXPECT_EQ(table_of(text, options).doubts, std::vector<std::string>{});
  options.base_nodes = 8;
  const PublishedTable table = table_of(text, options);
  const std::string words = core::join(analysis::conclusions_of(table.rows.curves.at(0), options), " ");
  EXPECT_TRUE(contains(words, "The base is the largest size, 8 nodes with 680"));
  EXPECT_FALSE(contains(words, "times as much"));
  options.base_nodes = 4;
  EXPECT_EQ(table_of("nodes,samples_per_s\n1,100\n2,190\n4,360\n8,800\n", options).doubts.size(), 1u);
}

TEST(Published, TextsAndBatchesHaveBasesOfTheirOwn) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path, "nodes,network,samples_per_s\n1,slow,100\n1,fast,200\n2,slow,150\n2,fast,380\n");
  const PublishedTable texts = check_published(path);
  EXPECT_NEAR(number_of(texts, "efficiency_pct", 2), 75, 1e-9);
  EXPECT_NEAR(number_of(texts, "efficiency_pct", 3), 95, 1e-9);
  EXPECT_NE(notes_of_table(texts).find("(line 2); nodes 1 (line 3)."), std::string::npos) << notes_of_table(texts);
  // Weak: 32 and 64 a node. The local batch and the global one part the rows alike.
  for (const char* text :
       {"nodes,micro_batch,samples_per_s\n1,32,100\n1,64,200\n2,32,150\n2,64,380\n",
        "nodes,global_batch,samples_per_s\n1,32,100\n1,64,200\n2,64,150\n2,128,380\n4,128,300\n4,256,720\n"}) {
    core::write_file_atomic(path, text);
    const PublishedTable weak = check_published(path);
    EXPECT_NEAR(number_of(weak, "efficiency_pct", 1), 100, 1e-9) << text;
    EXPECT_NEAR(number_of(weak, "efficiency_pct", 2), 75, 1e-9) << text;
    EXPECT_NEAR(number_of(weak, "efficiency_pct", 3), 95, 1e-9) << text;
  }
  // Strong: 64 and 128 at every size, so the local batch shrinks.
  core::write_file_atomic(path,
                          "nodes,global_batch,micro_batch,samples_per_s\n1,64,64,100\n1,128,128,200\n2,64,32,150\n2,"
                          "128,64,380\n4,64,16,300\n4,128,32,720\n");
  const PublishedTable strong = check_published(path);
  EXPECT_NEAR(number_of(strong, "efficiency_pct", 2), 75, 1e-9);
  EXPECT_NEAR(number_of(strong, "efficiency_pct", 3), 95, 1e-9);
  EXPECT_NEAR(number_of(strong, "efficiency_pct", 5), 90, 1e-9);
}

TEST(Published, CountsAndRatesAreAboveZero) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  for (const auto& [row, column] : {std::pair{"1,-3", "samples_per_s"}, {"0,100", "nodes"}, {"2,0", "samples_per_s"}}) {
    core::write_file_atomic(path, std::string("nodes,samples_per_s\n1,100\n") + row + "\n");
    try {
      check_published(path);
      FAIL() << row << " was taken";
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(std::string("line 3, column '") + column + "'"), std::string::npos) << error.text();
    }
  }
}

TEST(Published, ValuesThatCannotBeAreDoubted) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path, "nodes,gpus,samples_per_s\n1,4,100\n2,8,203\n4,16,600\n");
  const PublishedTable table = check_published(path, {.forward_gflops = 10000, .peak_tflops = 1000});
  ASSERT_EQ(table.doubts.size(), 2u) << core::join(table.doubts, "\n");
  EXPECT_NE(table.doubts[0].find("M09 impossible: nodes 4 (line 4), efficiency_pct, added: 150.0 % is above 102 %"),
            std::string::npos)
      << table.doubts[0];
  EXPECT_NE(table.doubts[1].find("mfu_pct, added: 112.5 % is above 100 %"), std::string::npos) << table.doubts[1];
  EXPECT_EQ(core::Json::parse(published_json({table})).at("tables").at(0).at("doubts").size(), 2u);
  EXPECT_TRUE(golden("nemo_clip_g14.csv").doubts.empty());
}

/// Text of the error of a table, or "".
std::string error_of(const std::string& text, const std::string& name = "mine.csv") {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / name, text);
  EXPECT_TRUE(logs::is_result_table(folder.path() / name)) << text;
  try {
    check_published(folder.path() / name);
  } catch (const DataError& error) {
    return error.text();
  }
  return "";
}

TEST(Published, ColumnsAreKnownByTheNamesThatPeopleWrite) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.tsv";
  for (const char* text :
       {"n_nodes,num_gpus,global_batch_size,step_ms\n1,4,256,500\n2,8,512,512\n",
        "Number of nodes;GPUs;GBS;time_s\n1;4;256;0.500\n2;8;512;0.512\n",
        "nnodes\tngpus\tbatch per GPU\tstep time (ms)\n1\t4\t64\t500\n2\t8\t64\t512\n",
        "nodes,gpus,throughput\n1,4,512\n2,8,1000\n", "nodes,gpus,Throughput (samples/s)\n1,4,512\n2,8,1000\n",
        "nodes,gpus,throughput,unit\n1,4,512,images/s\n2,8,1000,images/s\n",
        "nodes,gpus,samples/s/GPU\n1,4,128\n2,8,125\n"}) {
    core::write_file_atomic(path, text);
    ASSERT_TRUE(logs::is_result_table(path)) << text;
    const PublishedTable table = check_published(path);
    EXPECT_NEAR(number_of(table, "efficiency_pct", 1), 100 * 1000.0 / 1024, 1e-9) << text;
    EXPECT_NEAR(number_of(table, "node_hours_per_million", 1), 2e6 / 3600 / 1000, 1e-9) << text;
    EXPECT_NE(core::join(table.recomputed.notes, " ").find(" was read as "), std::string::npos) << text;
    EXPECT_FALSE(row_charts(table.rows, "").empty()) << text;
  }
  core::write_file_atomic(path, "nodes,step_ms,global_batch\n1,512,256\n");
  EXPECT_EQ(check_published(path).printed.text(0, "step_time_s"), "0.512") << "as many digits as were printed";
  core::write_file_atomic(path, "nodes,samples_per_s,efficiency,mfu\n1,100,1.00,0.412\n2,190,0.95,0.39\n");
  const PublishedTable shares = check_published(path);
  EXPECT_EQ(shares.printed.text(1, "efficiency_pct"), "95");
  EXPECT_EQ(shares.printed.text(0, "mfu_pct"), "41.2");
  core::write_file_atomic(path, "nodes,samples_per_s,efficiency\n1,100,100%\n2,190,95 %\n4,3.6,0.9%\n");
  const PublishedTable percent = check_published(path);
  EXPECT_EQ(percent.printed.text(1, "efficiency_pct"), "95");
  EXPECT_EQ(cells_with(percent, CellVerdict::kExact).size(), 3u);
  // A step time without the batch is no rate, and a batch of nobody knows whom is none.
  core::write_file_atomic(path, "nodes,gpus,batch,time_s\n1,4,64,0.5\n2,8,64,0.51\n");
  const PublishedTable bare = check_published(path);
  EXPECT_NE(core::join(bare.missing, " ").find("no samples/s, node-hours and MFU"), std::string::npos)
      << core::join(bare.missing, " ");
  ASSERT_EQ(bare.rows.curves.size(), 1u);
  EXPECT_NE(core::join(bare.assumed, " ").find("Read as weak scaling"), std::string::npos) << "its times do not fall";
}

TEST(Published, ColumnsThatOnlyLookLikeSizesAndBatchesAreLeftAsTheyAre) {
  core::TempDir folder;
  const auto path = folder.path() / "mine.csv";
  core::write_file_atomic(path,
                          "GPU,# GPUs,Batch size / GPU,Global Batch Size,samples/s\n"
                          "V100,8,\"64 , 32\",4096,800\nV100,16,\"64 , 32\",4096,1500\n");
  const PublishedTable table = check_published(path);
  EXPECT_NEAR(number_of(table, "efficiency_pct", 1), 100 * 1500.0 / 1600, 1e-9);
  EXPECT_NE(core::join(table.recomputed.notes, " ").find("several batches in each row"), std::string::npos);
  // One batch that is no number is still refused.
  EXPECT_NE(error_of("gpus,Batch size / GPU,samples/s\n8,64k,800\n").find("'64k' is no finite number"),
            std::string::npos);
  core::write_file_atomic(path, "servers,gpus per server,samples/s\n1,1,100\n1,8,700\n2,8,1300\n");
  EXPECT_NEAR(number_of(check_published(path), "efficiency_pct", 2), 100 * 1300.0 / 1600, 1e-9);
}

TEST(Published, PrefixesAndPeriodsOfAUnitAreConverted) {
  struct Case {
    const char* text;
    const char* column;
    double value;  // of the second row
  };
  for (const Case& one : {Case{"nodes,throughput,unit\n1,10.4,kimg/s\n2,20.1,kimg/s\n", "samples_per_s", 20100},
                          Case{"nodes,throughput,unit\n1,600,samples/min\n2,1140,samples/min\n", "samples_per_s", 19},
                          Case{"nodes,throughput,unit\n1,1.2,M tokens/s\n2,2.3,M tokens/s\n", "tokens_per_s", 2.3e6},
                          Case{"nodes,Throughput (k img/s)\n1,10.4\n2,20.1\n", "samples_per_s", 20100},
                          Case{"nodes,throughput (10^3 samples/s)\n1,10.4\n2,20.1\n", "samples_per_s", 20100},
                          Case{"nodes,img/s (thousands)\n1,10.4\n2,20.1\n", "samples_per_s", 20100},
                          Case{"nodes,M tokens/s\n1,1.2\n2,2.3\n", "tokens_per_s", 2.3e6},
                          Case{"nodes,gpus,tokens/s/GPU (k)\n1,4,1.2\n2,8,1.1\n", "tokens_per_s_per_gpu", 1100},
                          Case{"nodes,throughput (samples/min)\n1,600\n2,1140\n", "samples_per_s", 19},
                          Case{"nodes,gpus,throughput per device\n1,4,120\n2,8,110\n", "samples_per_s_per_gpu", 110}}) {
    const PublishedTable table = table_of(one.text);
    ASSERT_TRUE(table.printed.find(one.column)) << one.text;
    EXPECT_NEAR(table.printed.number(1, one.column), one.value, 1e-9 * one.value) << one.text;
    EXPECT_FALSE(contains(core::join(table.recomputed.notes, " "), "names no unit")) << one.text;
  }
  EXPECT_FALSE(table_of("nodes,throughput [GB/s]\n1,10\n2,19\n").printed.find("samples_per_s"));
  for (const char* unit : {"TFLOP/s", "steps/s", "furlongs"}) {
    const std::string error = error_of(fmt::format("nodes,throughput,unit\n1,10,{0}\n2,19,{0}\n", unit));
    EXPECT_TRUE(contains(error, fmt::format("line 2, column 'unit': '{}' is no unit of a rate", unit))) << error;
  }
  const PublishedTable rounded = table_of("nodes,gpus,samples/s/GPU (k),samples_per_s\n1,4,2.5,10180\n");
  EXPECT_EQ(cells_with(rounded, CellVerdict::kUnroundedOnly).size(), 1u) << "2.5 thousand is no more exact than 2.5";
}

/// A name that differs in case alone is no news.
TEST(Published, OnlyOtherNamesAreToldAsRead) {
  const auto notes = [](const std::string& header) {
    return notes_of_table(table_of(header + "\n1,100\n2,190\n4,350\n"));
  };
  EXPECT_FALSE(contains(notes("Nodes,Samples_per_s"), "was read as"));
  EXPECT_TRUE(contains(notes("Nodes,Samples per second"), "was read as samples_per_s"));
  EXPECT_TRUE(contains(notes("Nodes,Throughput"), "'Throughput' was read as samples_per_s, since it names no unit"));
}

TEST(Published, TimesOfAClockAreDurations) {
  const PublishedTable table = table_of("nodes,elapsed\n1,01:30:00\n2,00:47:00\n4,25:00\n8,0-00:14:00\n");
  EXPECT_NEAR(number_of(table, "speedup", 1), 90.0 / 47, 1e-9);
  EXPECT_NEAR(number_of(table, "speedup", 2), 90.0 / 25, 1e-9);
  EXPECT_NEAR(number_of(table, "speedup", 3), 90.0 / 14, 1e-9);
  EXPECT_TRUE(contains(core::join(table.recomputed.notes, " "), "'elapsed' was read as time_to_solution, in seconds"));
  EXPECT_TRUE(contains(error_of("nodes,elapsed\n1,01:30:00\n2,soon\n"), "line 3, column 'elapsed': 'soon' is no time"));
  EXPECT_TRUE(
      contains(error_of("nodes,wall_time\n1,90\n2,47 min\n"), "line 3, column 'wall_time': '47 min' is no time"));
  const PublishedTable words = table_of("nodes,samples_per_s,elapsed\n1,10,long\n2,19,short\n");
  EXPECT_TRUE(contains(core::join(words.recomputed.notes, " "), "'elapsed' was not read"));
}

TEST(Published, RatesFollowFromBatchAndStepTimeAndEfficiencyFromSpeedUp) {
  const PublishedTable rates = table_of(
      "nodes,gpus,global_batch,step_time_s,samples_per_s\n1,4,1024,0.1,10240\n2,8,2048,0.11,18618\n"
      "4,16,4096,0.12,40000\n");
  EXPECT_EQ(cells_with(rates, CellVerdict::kNot), (Cells{"nodes 4 samples_per_s 40000 34133"}));
  const PublishedTable ratios = table_of("nodes,speedup,efficiency\n1,1.0,100\n2,1.9,95\n4,3.6,80\n");
  EXPECT_EQ(cells_with(ratios, CellVerdict::kNot), (Cells{"nodes 4 efficiency_pct 80 90"}));
  EXPECT_EQ(cells_with(ratios, CellVerdict::kExact).size(), 2u);
}

TEST(Published, ConstantsAreReadFromCommentsInAnyForm) {
  for (const char* comment :
       {"# forward 14.78 GFLOP/sample, peak 989 TFLOP/s", "# forward 14.78 GFLOP/sample, 989 TFLOP/s bf16",
        "# peak_tflops = 989\n# forward_gflops = 14.78", "# peak_tflops: 989, fwd_gflops: 14.78"}) {
    const PublishedTable table = table_of(std::string(comment) + "\nnodes,gpus,samples_per_s,mfu\n1,4,36000,40.3\n");
    EXPECT_EQ(cells_with(table, CellVerdict::kNot).size() + cells_with(table, CellVerdict::kExact).size(), 1u)
        << comment;
    EXPECT_NEAR(number_of(table, "mfu_pct_recomputed", 0), 100 * 3 * 14.78 * 36000 / 4 / 989e3, 1e-6) << comment;
  }
}

TEST(Published, TwoUnitsInOneColumnAreRefusedWithTheirPlace) {
  const std::string times = error_of("nodes,global_batch,step_time_s\n1,256,0.500\n2,512,512\n4,1024,0.52\n");
  for (const char* words :
       {"line 3, column 'step_time_s': 512 stands beside", "two units in one column", "write one unit"})
    EXPECT_NE(times.find(words), std::string::npos) << times;
  EXPECT_NE(error_of("nodes,samples_per_s\n1,100000\n2,190\n4,370\n").find("line 2, column 'samples_per_s'"),
            std::string::npos);
  EXPECT_EQ(error_of("nodes,global_batch,step_time_s\n1,65536,600\n1024,65536,0.7\n"), "")
      << "strong scaling over a thousand nodes";
  EXPECT_EQ(error_of("nodes,samples_per_s\n1,100\n1024,90000\n"), "") << "weak scaling over a thousand nodes";
  EXPECT_NE(error_of("nodes,gpus,time (ms),global batch size\n1,8,512,256\n2,16,520,512\n4,32,0.530,1024\n")
                .find("column 'time (ms)': "),
            std::string::npos)
      << "the batch grows as well";
  EXPECT_NE(error_of("nodes,step_ms\n1,512\n2,300\n4,0.2\n").find("two units in one column"), std::string::npos)
      << "no strong scaling gains a thousandfold in one step";
  EXPECT_EQ(error_of("nodes,step_ms\n1,600000\n32,20000\n1024,700\n"), "") << "strong scaling falls steadily";
  const std::string units = error_of("nodes,throughput,unit\n1,100,samples/s\n2,400000,tokens/s\n");
  for (const char* words :
       {"line 3, column 'unit': 'tokens/s' stands beside 'samples/s' (line 2)", "a column or a table of its own"})
    EXPECT_NE(units.find(words), std::string::npos) << units;
  EXPECT_NE(error_of("nodes,global_batch,step_ms,step_time_s\n1,256,500,0.5\n")
                .find("the columns 'step_time_s' and 'step_ms' both tell step_time_s"),
            std::string::npos);
  for (const char* rows : {"1,100 tokens/s\n", "1,100 tokens/s\n2,190 samples/s\n", "1,100 tokens/s\n2,190\n"})
    EXPECT_NE(error_of(std::string("nodes,samples_per_s\n") + rows)
                  .find("line 2, column 'samples_per_s': '100 tokens/s' is no finite number"),
              std::string::npos)
        << rows;
  const std::string comma = error_of("nodes;samples_per_s;eff\n1;100;0.5\n2;190,5;0.4\n");
  for (const char* words :
       {"line 3, column 'samples_per_s': '190,5' is a number with a comma", "write a decimal point"})
    EXPECT_NE(comma.find(words), std::string::npos) << comma << "; the table writes decimal points";
  EXPECT_NE(error_of("nodes,samples_per_s\n1,100\n2,190,7\n").find("line 3: 3 fields"), std::string::npos)
      << "a table all the same";
}

TEST(Published, CommasInQuotesPartThousands) {
  const PublishedTable table =
      table_of("nodes,samples_per_s,note\n1,950,a\n2,\"1,650\",\"2,5 racks\"\n4,-,\"1,234\"\n8,\"6,100\",\n");
  EXPECT_EQ(table.printed.text(1, "samples_per_s"), "1650");
  EXPECT_EQ(table.printed.text(2, "samples_per_s"), "6100");
  EXPECT_NE(notes_of_table(table).find("Commas in column 'samples_per_s' part thousands: '1,650' was read as 1650."),
            std::string::npos)
      << notes_of_table(table);
  const std::string decimal = error_of("nodes,samples_per_s\n1,\"1,650\"\n2,\"3,25\"\n");
  for (const char* words : {"line 3, column 'samples_per_s': '3,25' is a number with a comma",
                            "write a decimal point (1.65)", "may only part thousands"})
    EXPECT_NE(decimal.find(words), std::string::npos) << decimal;
  EXPECT_NE(error_of("nodes;samples_per_s\n1;950\n2;1,650\n").find("'1,650' is a number with a comma"),
            std::string::npos)
      << "where semicolons part fields, commas are decimal ones";
}

TEST(Published, DecimalCommasAreReadWhereNothingElseIsMeant) {
  const PublishedTable table =
      table_of("nodes;samples_per_s;Efficiency\n1;2.495;100,0 %\n2;4.966,5;99,5 %\n4;-;98,9 %\n8;19.572;98,1 %\n");
  EXPECT_EQ(table.printed.text(0, "samples_per_s"), "2495");
  EXPECT_EQ(table.printed.text(1, "samples_per_s"), "4966.5");
  EXPECT_EQ(table.printed.text(2, "efficiency_pct"), "98.1");
  EXPECT_NE(notes_of_table(table).find("Commas of this table are decimal commas: '4.966,5' was read as 4966.5, and "
                                       "points part thousands: '2.495' was read as 2495."),
            std::string::npos)
      << notes_of_table(table);
  EXPECT_NE(error_of("nodes;samples_per_s\n1;950\n2;1,650\n").find("'1,650' is a number with a comma"),
            std::string::npos)
      << "it may part thousands";
  const PublishedTable english = table_of("nodes;samples_per_s;eff\n1;950;1.0\n2;1,650;0.9\n");
  EXPECT_EQ(english.printed.text(1, "samples_per_s"), "1650");
}

TEST(Published, BlanksAndApostrophesPartThousands) {
  const PublishedTable table = table_of(
      "nodes,tokens/s,note\n1,9'500,a 1 200\n2,18 950,\n4,37\xc2\xa0"
      "800,\n8,1 075 000.5,\n");
  for (const auto& [row, number] : {std::pair{0, "9500"}, {1, "18950"}, {2, "37800"}, {3, "1075000.5"}})
    EXPECT_EQ(table.printed.text(static_cast<size_t>(row), "tokens_per_s"), number);
  EXPECT_EQ(table.printed.text(0, "note"), "a 1 200");
}

TEST(Published, ARowOfUnitsBelowTheHeaderBelongsToTheColumns) {
  const PublishedTable table = table_of(
      "nodes,gpus,throughput,step_time,efficiency\n,,[tokens/s],ms,%\n1,4,24950,987,100\n2,8,49660,992,99.5\n");
  EXPECT_EQ(table.printed.text(0, "tokens_per_s"), "24950");
  EXPECT_EQ(table.printed.text(0, "step_time_s"), "0.987");
  EXPECT_EQ(table.printed.text(1, "efficiency_pct"), "99.5");
  EXPECT_NE(notes_of_table(table).find("Line 2 was read as the units of the columns."), std::string::npos);
  EXPECT_NE(notes_of_table(table_of("nodes,samples_per_s,note\n,,queue\n1,100,\n2,190,\n")).find("Left out: "),
            std::string::npos)
      << "words are no units";
}

TEST(Published, UnitsInFieldsBelongToTheirColumn) {
  const PublishedTable table =
      table_of("nodes,gpus,Throughput,Speed up\n1,8,432 img/s,1.00x\n2,16,\"1,850 img/s\",4.28x\n4,32,-,\n");
  ASSERT_EQ(table.printed.rows.size(), 2u);
  EXPECT_EQ(table.printed.text(1, "samples_per_s"), "1850");
  EXPECT_EQ(table.printed.text(1, "speedup"), "4.28");
  EXPECT_NE(notes_of_table(table).find("The fields of column 'Throughput' are in 'img/s'."), std::string::npos);
  EXPECT_EQ(table_of("nodes,img/s\n1,432 img/s\n2,850 img/s\n").printed.text(0, "samples_per_s"), "432");
}

TEST(Published, AccumulatedBatchesAreNoBatchesThatContradict) {
  const PublishedTable table =
      table_of("gpus,batch per GPU,accumulation steps,samples/s\n8,64,128,100\n16,64,64,190\n");
  EXPECT_EQ(table.printed.text(1, "local_batch"), "4096");
  EXPECT_EQ(table.printed.text(1, "micro_batch"), "64");
  EXPECT_NEAR(number_of(table, "efficiency_pct", 1), 95, 1e-9);
}

TEST(Published, ARowThatWasNotMeasuredIsLeftOutAndNamed) {
  const PublishedTable table =
      table_of("nodes,images/s,status,eff\n1,100,ok,-\n2,,failed,\n4,370,ok,92.5\n8,OOM,failed,\n");
  ASSERT_EQ(table.printed.rows.size(), 2u);
  EXPECT_EQ(cells_with(table, CellVerdict::kNot), Cells{});
  EXPECT_EQ(table.printed.text(1, "efficiency_pct"), "92.5") << "percent, whatever its base lacks";
  for (const char* words :
       {"line 3, column 'images/s': '' is no value", "line 5, column 'images/s': 'OOM' is no value"})
    EXPECT_NE(notes_of_table(table).find(words), std::string::npos) << notes_of_table(table);
  for (const auto& row : table.recomputed.rows) EXPECT_EQ(row.size(), table.recomputed.columns.size());
  EXPECT_NE(error_of("nodes,images/s\n1,\n2,-\n").find("line 2, column 'images/s': '' is no value"), std::string::npos);
  EXPECT_NE(error_of("n_nodes,images/s\n1,100\n2,many\n").find("line 3, column 'images/s': 'many' is no finite number"),
            std::string::npos);
  EXPECT_NE(error_of("n_nodes,images/s\n1,100\n0,190\n").find("line 3, column 'n_nodes': '0' is not above zero"),
            std::string::npos);
}

TEST(Published, EfficiencyAndMfuAreCheckedAgainstTheTotalRateToo) {
  const PublishedTable table =
      table_of("nodes,gpus,samples_per_s,efficiency_pct,mfu_pct\n1,4,100,100.0,50\n2,8,190,99.9,50\n",
               {.forward_gflops = 10, .peak_tflops = 989});
  EXPECT_EQ(cells_with(table, CellVerdict::kNot),
            (Cells{"nodes 2 efficiency_pct 99.9 95.0", "nodes 1 mfu_pct 50 0", "nodes 2 mfu_pct 50 0"}));
  EXPECT_EQ(cells_with(table, CellVerdict::kExact), Cells{"nodes 1 efficiency_pct 100.0 100.0"});
  const PublishedTable right = table_of(
      "nodes,samples_per_s,started,efficiency_pct\n1,100,9:00 today,100\n2,150,9:10 today,75\n4,210,9:20 today,52\n");
  EXPECT_EQ(cells_with(right, CellVerdict::kNot), Cells{}) << "no text accuses a right column";
  EXPECT_EQ(cells_with(right, CellVerdict::kExact).size(), 3u);
}

TEST(Published, RatesOfOneDeviceOfGptTablesAreRates) {
  for (const char* column : {"TFLOP/s/GPU", "tokens/s/GPU"}) {
    const PublishedTable table = table_of(std::string("gpus,") + column + "\n8,400\n16,380\n", {.peak_tflops = 1000});
    EXPECT_NEAR(number_of(table, "efficiency_pct", 1), 95, 1e-9) << column;
    EXPECT_NEAR(number_of(table, "speedup", 1), 1.9, 1e-9) << column;
    const bool is_tokens = std::string(column) == "tokens/s/GPU";
    const std::string total = is_tokens ? "tokens_per_s" : "tflop_per_s";
    EXPECT_NEAR(number_of(table, total, 1), 16 * 380, 1e-9) << column;
    EXPECT_NE(notes_of_table(table).find(total + " = " + column + " x devices"), std::string::npos)
        << notes_of_table(table);
    EXPECT_EQ(notes_of_table(table).find("samples_per_s ="), std::string::npos) << "a rate is named after its unit";
    EXPECT_FALSE(row_charts(table.rows, "").empty()) << column;
    if (std::string(column) == "TFLOP/s/GPU") {
      EXPECT_NEAR(number_of(table, "mfu_pct", 1), 38, 1e-9);
    }
  }
  EXPECT_NE(core::join(table_of("nodes,loss\n1,2.5\n2,2.4\n").missing, " ").find("a rate (a column samples_per_s"),
            std::string::npos);
}

TEST(Published, TimesToASolutionGiveSpeedUpAndEfficiency) {
  const PublishedTable printed = table_of(
      "Nodes,GPUs,Wall time [s],Speedup,Parallel efficiency\n1,4,3600,1.0,100%\n2,8,1850,2.95,97%\n"
      "4,16,980,3.67,72%\n");
  EXPECT_EQ(cells_with(printed, CellVerdict::kNot),
            (Cells{"nodes 2 speedup 2.95 1.95", "nodes 4 efficiency_pct 72 92"}));
  EXPECT_EQ(cells_with(printed, CellVerdict::kExact).size(), 4u);
  const PublishedTable added = table_of("nodes,gpus,Time to solution (h),global_batch\n1,4,8,64\n2,8,5,64\n");
  EXPECT_NEAR(number_of(added, "speedup", 1), 1.6, 1e-9);
  EXPECT_NEAR(number_of(added, "efficiency_pct", 1), 80, 1e-9);
  EXPECT_EQ(core::join(added.missing, " ").find("neither"), std::string::npos) << core::join(added.missing, " ");
  const PublishedTable failed = table_of("nodes,wall_time_s\n1,8\n2,5\n4,OOM\n");
  EXPECT_EQ(failed.recomputed.rows.size(), 2u) << "a row that was not measured is left out";
  // A rate is worth more than a time beside it.
  EXPECT_NEAR(number_of(table_of("nodes,samples_per_s,runtime\n1,100,50\n2,190,OOM\n"), "speedup", 1), 1.9, 1e-9);
  const PublishedTable clocks = table_of("nodes,walltime\n1,1:00:00\n2,0:31:00\n");
  EXPECT_NEAR(number_of(clocks, "speedup", 1), 60.0 / 31, 1e-9);
  EXPECT_NEAR(number_of(clocks, "node_hours_to_solution", 1), 62.0 / 60, 1e-9);
  EXPECT_EQ(core::join(clocks.missing, " ").find("node-hours"), std::string::npos);
  EXPECT_EQ(notes_of_table(clocks).find("No column of this table"), std::string::npos) << "columns were added";
  EXPECT_NEAR(number_of(added, "node_hours_to_solution", 1), 10, 1e-9);
  for (const char* unknown : {"nodes,walltime\n1,60\n2,31\n", "gpus,walltime (h)\n1,60\n2,31\n"})
    EXPECT_NE(core::join(table_of(unknown).missing, " ").find("no samples/s, node-hours and MFU"), std::string::npos);
}

TEST(Published, TwoPartsOfATimeAreWhatTheirColumnSays) {
  const PublishedTable hours = table_of("nodes,time to train (h:mm)\n1,10:30\n2,5:24\n");
  EXPECT_NEAR(number_of(hours, "node_hours_to_solution", 0), 10.5, 1e-9);
  EXPECT_NEAR(number_of(hours, "node_hours_to_solution", 1), 2 * 5.4, 1e-9);
  EXPECT_EQ(notes_of_table(hours).find("minutes and seconds"), std::string::npos) << notes_of_table(hours);
  const PublishedTable minutes = table_of("nodes,walltime (mm:ss)\n1,10:30\n2,5:24\n");
  EXPECT_NEAR(number_of(minutes, "node_hours_to_solution", 0), 630 / 3600.0, 1e-9);
  EXPECT_EQ(notes_of_table(minutes).find("hours and minutes"), std::string::npos) << notes_of_table(minutes);
  const PublishedTable unsaid = table_of("nodes,walltime\n1,10:30\n2,5:24\n");
  EXPECT_NEAR(number_of(unsaid, "node_hours_to_solution", 0), 630 / 3600.0, 1e-9);
  EXPECT_NE(notes_of_table(unsaid).find("name the column 'walltime (h:mm)'"), std::string::npos)
      << notes_of_table(unsaid);
}

TEST(Published, TimesOfUnknownWorkAreReadByWhetherTheyFallUnlessTheTableSays) {
  const std::string rows = "nodes,step_time_s\n1,4.0\n2,5.0\n";
  const PublishedTable growing = table_of("nodes,runtime,gbs\n1,4.0,64\n2,5.0,128\n");
  for (const draw::Column& column : growing.recomputed.columns) EXPECT_NE(column.key, "speedup");
  EXPECT_NE(core::join(growing.missing, " ").find("'# strong scaling' or '# weak scaling'"), std::string::npos)
      << core::join(growing.missing, " ");
  EXPECT_TRUE(growing.rows.curves.empty());
  const PublishedTable strong = table_of("# Strong scaling of GPT\n" + rows),
                       weak = table_of("# weak-scaling\n" + rows), unsaid = table_of(rows),
                       asked = table_of(rows, {.scaling = "strong"});
  for (const PublishedTable* table : {&strong, &asked}) {
    EXPECT_NEAR(number_of(*table, "speedup", 1), 0.8, 1e-9);
    EXPECT_NEAR(number_of(*table, "efficiency_pct", 1), 40, 1e-9);
    EXPECT_TRUE(table->assumed.empty());
  }
  for (const PublishedTable* table : {&weak, &unsaid}) {
    EXPECT_NEAR(number_of(*table, "speedup", 1), 1.6, 1e-9);
    EXPECT_NEAR(number_of(*table, "efficiency_pct", 1), 80, 1e-9);
    EXPECT_EQ(table->rows.curves.at(0).kind, analysis::ScalingKind::kWeak);
  }
  ASSERT_EQ(unsaid.assumed.size(), 1u);
  EXPECT_NE(unsaid.assumed[0].find("--scaling strong"), std::string::npos) << unsaid.assumed[0];
  const PublishedTable falling = table_of("nodes,walltime_s\n1,100\n2,60\n");
  EXPECT_NEAR(number_of(falling, "efficiency_pct", 1), 100 * 100.0 / 120, 1e-9);
  EXPECT_NE(falling.assumed.at(0).find("Read as strong scaling"), std::string::npos);
}

TEST(Published, CurvesOfTimesHaveTheNumbersOfTheirFormulas) {
  for (const char* text :
       {"nodes,walltime_s\n1,3600\n2,2000\n4,1200\n", "nodes,time\n1,3600\n2,2000\n4,1200\n",
        "Nodes;Seconds\n1;3600\n2;2000\n4;1200\n", "nodes,Time [min]\n1,60\n2,33.3333333\n4,20\n",
        "nodes,elapsed\n1,1:00:00\n2,33:20\n4,20:00\n", "nodes,runtime\n1,1h00m\n2,33m20s\n4,20m00s\n",
        "nodes,time\n1 node,3600 s\n2 nodes,2000 s\n4 nodes,1200 s\n", "cores,GROMACS (s)\n1,3600\n2,2000\n4,1200\n",
        "partition,time\n1 core,3600 s\n2 cores,2000 s\n4 cores,1200 s\n",
        "size,walltime\n1 node,3600 ± 5 s\n2 nodes,2000 ± 4 s\n4 nodes,1200 ± 9 s\n",
        "nodes,walltime (s)\n1,\"3,600\"\n2,\"2,000\"\n4,\"1,200\"\n"}) {
    const PublishedTable table = table_of(text);
    ASSERT_EQ(table.rows.curves.size(), 1u) << text;
    const analysis::Curve& curve = table.rows.curves[0];
    ASSERT_EQ(curve.points.size(), 3u) << text;
    EXPECT_EQ(curve.kind, analysis::ScalingKind::kStrong) << text;
    EXPECT_NEAR(curve.points[2].speedup, 3, 1e-6) << text;
    EXPECT_NEAR(curve.points[2].efficiency.value, 0.75, 1e-6) << text;
    EXPECT_NEAR(analysis::work_seconds(curve.points[2]).value, 1200, 1e-6) << text;
    std::set<std::string> ids;
    for (const draw::Chart& chart : row_charts(table.rows, "")) ids.insert(chart.id);
    EXPECT_EQ(ids, (std::set<std::string>{"efficiency", "speedup", "walltime"})) << text;
  }
}

TEST(Published, TimesOfSeveralCodesAreACurveEach) {
  const PublishedTable beside = table_of("nodes,GROMACS (s),LAMMPS (s)\n1,1000,2000\n2,520,1010\n4,280,-\n");
  ASSERT_EQ(beside.rows.curves.size(), 2u);
  std::map<std::string, size_t> num_sizes;
  for (const analysis::Curve& curve : beside.rows.curves) num_sizes[curve.name] = curve.points.size();
  EXPECT_EQ(num_sizes, (std::map<std::string, size_t>{{"mine, code GROMACS", 3}, {"mine, code LAMMPS", 2}}));
  const PublishedTable both = table_of("nodes,Strong (s),Weak (s)\n1,100,100\n2,52,101\n4,28,103\n");
  ASSERT_EQ(both.rows.curves.size(), 2u);
  for (const analysis::Curve& curve : both.rows.curves) {
    const bool is_strong = curve.name.find("Strong") != std::string::npos;
    EXPECT_EQ(curve.kind, is_strong ? analysis::ScalingKind::kStrong : analysis::ScalingKind::kWeak) << curve.name;
  }
  for (const char* other : {"nodes,step_time_s,compute (s),comm (s)\n1,10,8,2\n2,10,8,2\n",
                            "nodes,samples_per_s,forward (s),backward (s)\n1,10,8,2\n2,10,8,2\n",
                            "nodes,walltime_s,Ideal (s),Node hours\n1,100,100,1\n2,60,50,2\n"})
    EXPECT_EQ(table_of(other).rows.curves.size(), 1u) << other << ": parts and ideals are no codes";
}

TEST(Published, SpeedUpsOfOtherBasesHaveIdealLinesOfTheirOwn) {
  const PublishedTable table = table_of("case,nodes,walltime_s\nsmall,1,100\nsmall,2,52\nlarge,2,900\nlarge,4,460\n");
  for (const draw::Chart& chart : row_charts(table.rows, "")) {
    if (chart.id != "speedup") continue;
    std::map<std::string, double> ideal_at_4;
    for (const draw::Series& series : chart.series)
      if (series.is_reference) ideal_at_4[series.name] = series.y.back();
    EXPECT_EQ(ideal_at_4, (std::map<std::string, double>{{"ideal from 1", 4}, {"ideal from 2", 2}}));
  }
  EXPECT_EQ(limits_of_rows(table.rows).size(), 1u) << "what holds for both curves is said once";
}

TEST(Published, FieldsWithWhatPeopleWriteBesideANumberAreReadOrRefused) {
  const PublishedTable spread = table_of("nodes,samples_per_s\n1 node,2495 +- 12\n2 nodes,4900 +/- 30\n");
  EXPECT_EQ(spread.printed.text(0, "samples_per_s"), "2495");
  EXPECT_NE(notes_of_table(spread).find("'2495 +- 12' was read as 2495"), std::string::npos) << notes_of_table(spread);
  EXPECT_NEAR(number_of(spread, "speedup", 1), 4900.0 / 2495, 1e-9);
  const PublishedTable thousands = table_of("nodes,throughput\n1,2.5k\n2,4.9K\n4,9800\n");
  EXPECT_NEAR(number_of(thousands, "speedup", 2), 9800.0 / 2500, 1e-9);
  struct Refused {
    const char* text;
    const char* place;
  };
  for (const Refused& one :
       {Refused{"nodes,samples_per_s\n1,2495(12)\n2,4900(30)\n", "line 2, column 'samples_per_s': '2495(12)'"},
        Refused{"nodes,walltime_s\n1,90\n2,5m\n", "line 3, column 'walltime_s': '5m'"},
        Refused{"nodes,samples_per_s\n1k,100\n2k,190\n", "line 2, column 'nodes': '1k'"},
        Refused{"nodes,samples_per_s\n4 GPUs,100\n8 GPUs,190\n", "line 2, column 'nodes': '4 GPUs'"},
        Refused{"nodes;samples_per_s\n1;1,024\n2;1,900\n", "line 2, column 'samples_per_s': '1,024'"},
        Refused{"nodes,samples_per_s\n1,12 +- x\n2,24 +- 1\n", "line 2, column 'samples_per_s': '12 +- x'"}})
    EXPECT_NE(error_of(one.text).find(one.place), std::string::npos) << one.text << error_of(one.text);
}

// Table 1 of the Megatron-LM paper in short, and two sequence lengths side by side.
TEST(Published, RowsOfDifferentModelsAreNoCurveAndNoRepeats) {
  core::TempDir folder;
  const auto read = [&](const char* text) {
    core::write_file_atomic(folder.path() / "mine.csv", text);
    return check_published(folder.path() / "mine.csv");
  };
  const PublishedTable models =
      read("Number of parameters (billion),Number of GPUs,TFLOP/s per GPU\n1.7,32,137\n3.6,64,138\n7.5,128,142\n");
  EXPECT_EQ(models.rows.curves.size(), 3u);
  EXPECT_TRUE(models.doubts.empty()) << models.doubts[0];
  EXPECT_NE(core::join(models.recomputed.notes, " ").find("rows of different models are no curve"), std::string::npos);
  const PublishedTable lengths =
      read("nodes,seq_len,global_batch,samples/s\n1,128,64,3000\n4,128,64,12000\n1,512,64,580\n4,512,64,2300\n");
  ASSERT_EQ(lengths.rows.curves.size(), 2u);
  EXPECT_EQ(lengths.rows.curves[0].points[0].runs.size(), 1u);
}

TEST(Published, ColumnsThatContradictEachOtherAreNamedWithBothValues) {
  core::TempDir folder;
  const auto doubts_of = [&](const std::string& text) {
    core::write_file_atomic(folder.path() / "mine.csv", text);
    return core::join(check_published(folder.path() / "mine.csv").doubts, "\n");
  };
  const std::string step = doubts_of(
      "nodes,gpus,global batch,img/s,step time (s)\n1,8,1024,2000,0.512\n2,16,2048,3900,0.700\n4,32,4096,7600,0.720\n");
  EXPECT_NE(step.find("Line 3: 'step time (s)' is 0.7000 s, but 'global batch' 2048 and 'img/s' 3900 give 0.5251 s "
                      "(likewise line 4)"),
            std::string::npos)
      << step;
  const std::string share = doubts_of("gpus,tokens/s/GPU,tokens/s\n8,1000,8000\n16,1000,12000\n32,990,31700\n");
  EXPECT_NE(share.find("Line 3: 'tokens/s' is 12,000, but 'tokens/s/GPU' 1000 and 'gpus' 16 give 16,000."),
            std::string::npos)
      << share;
  EXPECT_EQ(doubts_of("gpus,local_batch,img/s,step_time_s\n8,16,1000,0.512\n16,16,1980,0.517\n"), "")
      << "four passes of a step";
  EXPECT_EQ(doubts_of("gpus,global_batch,img/s,step_time_s\n8,128,1000,0.130\n16,256,1980,0.131\n"), "") << "rounded";
}

// In files of programs that write commas as decimals a point parts thousands, also where no comma is left to show it.
TEST(Published, PointsThatPartThousandsAreTold) {
  core::TempDir folder;
  const auto read = [&](const std::string& text) {
    core::write_file_atomic(folder.path() / "mine.csv", text);
    return read_result_table(folder.path() / "mine.csv");
  };
  const auto rates = [](const ResultTable& result) { return result.table.numbers("samples_per_s"); };
  using Numbers = std::vector<double>;
  EXPECT_EQ(rates(read("nodes;img/s\n1;625\n2;1.250\n4;2.480\n")), (Numbers{625, 1250, 2480})) << "beside a 625";
  EXPECT_EQ(rates(read("gpus;img/s\n512;1.250\n1.024;2.480\n")), (Numbers{1250, 2480})) << "no 1.024 GPUs";
  EXPECT_EQ(rates(read("nodes;img/s\n1;1.250.000\n2;2.480.000\n")), (Numbers{1250000, 2480000}));
  EXPECT_EQ(rates(read("nodes;img/s;eff\n1;1.250 img/s;1,00\n2;2.480 img/s;0,99\n")), (Numbers{1250, 2480}))
      << "decimal commas elsewhere, and a unit in the field";
  EXPECT_EQ(rates(read("nodes;img/s;s\n1;1.250;0.512\n2;2.480;0.515\n")), (Numbers{1.25, 2.48}))
      << "decimals elsewhere";
  const ResultTable unclear = read("nodes;img/s\n1;1.250\n2;2.480\n");
  EXPECT_EQ(rates(unclear), (Numbers{1.25, 2.48}));
  ASSERT_EQ(unclear.doubts.size(), 1u);
  EXPECT_NE(unclear.doubts[0].find("If they part thousands"), std::string::npos) << unclear.doubts[0];
  EXPECT_TRUE(read("nodes,img/s\n1,1.250\n2,2.480\n").doubts.empty()) << "commas part the fields";
}

TEST(Published, BatchesThatContradictOrChangeGiveNoEfficiency) {
  const auto has_value = [](const PublishedTable& table, const std::string& key, size_t row) {
    for (size_t i = 0; i < table.recomputed.columns.size(); ++i)
      if (table.recomputed.columns[i].key == key) return table.recomputed.rows.at(row).at(i).value.has_value();
    return false;
  };
  const PublishedTable against = table_of("gpus,step_time_s,local_batch,gbs\n8,1.0,4,32\n16,1.1,4,999\n");
  EXPECT_NE(
      notes_of_table(against).find("Line 3: the batches contradict each other, local_batch 4 x gpus 16 is not gbs 999"),
      std::string::npos)
      << notes_of_table(against);
  const PublishedTable mixed = table_of("nodes,samples_per_s,global_batch\n1,100,256\n2,190,1024\n4,370,512\n");
  EXPECT_NE(notes_of_table(mixed).find("256 at nodes 1, 1024 at nodes 2, 512 at nodes 4: neither weak nor strong"),
            std::string::npos)
      << notes_of_table(mixed);
  for (const PublishedTable* table : {&against, &mixed})
    for (const char* key : {"efficiency_pct", "speedup"}) EXPECT_FALSE(has_value(*table, key, 1)) << key;
  const PublishedTable accumulated = table_of("gpus,step_time_s,local_batch,gbs\n8,1.0,4,64\n16,0.6,4,64\n");
  EXPECT_TRUE(has_value(accumulated, "efficiency_pct", 1)) << "two micro-batches at the smaller size: strong scaling";
}

TEST(Published, DocumentAndJsonNameEveryDifference) {
  const std::vector<PublishedTable> tables = {golden("clap_htsat_base_jupiter.csv"), golden("nemo_clip_g14.csv")};
  EXPECT_EQ(published_document(tables).sections.size(), 2u);
  const core::Json json = core::Json::parse(published_json(tables));
  size_t not_following = 0;
  for (const auto& table : json.at("tables"))
    for (const auto& cell : table.at("cells")) not_following += cell.at("verdict") == "does not follow" ? 1 : 0;
  EXPECT_EQ(not_following, 2u);
}

}  // namespace
}  // namespace lockstep::published
