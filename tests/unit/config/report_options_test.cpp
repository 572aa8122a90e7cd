#include "config/report_options.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::config {
namespace {

TEST(ReportOptions, OtherNamesOfFlagsAreTaken) {
  for (const char* folder : {"-o", "--out", "--output", "--outdir", "--out-dir", "--output_dir"}) {
    ReportOptions options;
    declare_report_options(options).parse(std::vector<std::string>{"a.log", folder, "there", "--gpus-per-node", "4"});
    EXPECT_EQ(options.output, "there") << folder;
    const auto facts = report_facts(options);
    EXPECT_EQ(std::count(facts.begin(), facts.end(), std::pair<std::string, std::string>("devices_per_node", "4")), 1);
  }
}

}  // namespace
}  // namespace lockstep::config
