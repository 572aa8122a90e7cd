// Memory and network of records that were written as training writes them.
#include <gtest/gtest.h>

#include "analysis/analyse.h"
#include "analysis/document.h"
#include "analysis/json.h"
#include "analysis/tables_runs.h"
#include "core/files.h"
#include "core/json.h"
#include "draw/render.h"
#include "unit/analysis/recorded_runs.h"

namespace lockstep::analysis {
namespace {

using tests::write_record;

Analysis analysis_below(const std::filesystem::path& folder, std::initializer_list<const char*> names) {
  std::vector<RunSummary> runs;
  for (const char* name : names) runs.push_back(summarise_run(record::load_run(folder / name), {}));
  return analyse(std::move(runs), {});
}

TEST(Resources, PeaksAndTrafficOfEverySizeStandInTableCsvAndJson) {
  const core::TempDir folder;
  write_record(
      folder.path() / "one",
      {.nodes = 1, .num_steps = 40, .peak_host_bytes = 9e9});  // an attempt that was broken off is not the measured one
  write_record(folder.path() / "one", {.nodes = 1});
  write_record(folder.path() / "two",
               {.nodes = 2, .step_ms = 125, .peak_host_bytes = 4 * 1024.0 * 1024 * 1024, .peak_device_bytes = 10e9});
  const Analysis analysis = analysis_below(folder.path(), {"one", "two"});
  ASSERT_EQ(analysis.curves.size(), 1u);
  const Curve& curve = analysis.curves[0];
  ASSERT_EQ(curve.points.size(), 2u);
  EXPECT_EQ(curve.points[0].memory.host_bytes, 3e9);
  EXPECT_EQ(curve.points[0].memory.device_bytes, 8e9);
  const draw::Table table = resource_table(curve);
  ASSERT_EQ(table.rows.size(), 2u) << "an interface that carried nothing is no row";
  const auto& row = table.rows[1];
  EXPECT_EQ(row[0].text, "2");
  EXPECT_EQ(row[1].text, "4.00");
  EXPECT_NEAR(*row[2].value, 10e9 / (1 << 30), 1e-6);
  EXPECT_EQ(row[3].text, "ib0");
  EXPECT_DOUBLE_EQ(*row[4].value, 10) << "a host's, not the sum of both hosts";
  EXPECT_DOUBLE_EQ(*row[5].value, 20);
  EXPECT_NEAR(*row[6].value, 10e6 / 0.125 / 1e9, 1e-3);
  EXPECT_NEAR(*row[7].value, 20e6 / 0.125 / 1e9, 1e-3);
  EXPECT_NE(table.caption.find("rank 0"), std::string::npos);
  EXPECT_NE(
      draw::to_csv(table).find("nodes,host_memory_gib,device_memory_gib,interface,received_mbytes_per_step,sent_mbytes_"
                               "per_step,received_gbytes_per_s,sent_gbytes_per_s"),
      std::string::npos);
  const core::Json point = core::Json::parse(analysis_json(analysis)).at("curves").at(0).at("points").at(1);
  EXPECT_EQ(point.at("device_memory_bytes"), 10e9);
  EXPECT_EQ(point.at("host_memory_bytes"), 4294967296.0);
  EXPECT_EQ(point.at("network_bytes_per_step").at("ib0").at("sent"), 2e7);
  bool is_on_page = false;
  for (const draw::Section& section : make_document(analysis).sections)
    for (const draw::Block& block : section.blocks)
      if (const draw::Table* shown = std::get_if<draw::Table>(&block))
        is_on_page |= shown->title.starts_with("Memory and network");
  EXPECT_TRUE(is_on_page);
}

TEST(Resources, RecordsThatDoNotTellHaveNoTable) {
  const core::TempDir folder;
  write_record(folder.path() / "one", {.has_resources = false});
  const Analysis analysis = analysis_below(folder.path(), {"one"});
  EXPECT_TRUE(resource_table(analysis.curves.at(0)).rows.empty());
  const core::Json point = core::Json::parse(analysis_json(analysis)).at("curves").at(0).at("points").at(0);
  EXPECT_TRUE(point.at("host_memory_bytes").is_null());
  EXPECT_TRUE(point.at("network_bytes_per_step").empty());
}

TEST(Resources, MemoryWithoutNetworkIsShownAndOfManyInterfacesTheBusiest) {
  Curve curve{.id = "a", .points = {Point{.size = 1}, Point{.size = 2}}};
  curve.points[0].memory.host_bytes = 1 << 30;
  for (int i = 0; i < 11; ++i)
    curve.points[1].network_per_step["mlx5_" + std::to_string(i) + "/1"] = {.received_bytes = 1e6 * i, .sent_bytes = 0};
  const draw::Table table = resource_table(curve);
  ASSERT_EQ(table.rows.size(), 1u + 8u);
  EXPECT_EQ(table.rows[0][1].text, "1.00");
  EXPECT_EQ(table.rows[0][3].note, "no record tells");
  EXPECT_EQ(table.rows[1][3].text, "mlx5_10/1");
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_EQ(table.notes[0], "2 nodes: 2 interfaces with less traffic are not shown");
}

}  // namespace
}  // namespace lockstep::analysis
