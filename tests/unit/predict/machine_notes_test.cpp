// What predictions say of the machine: sizes that it lacks, faults, and rates that an unknown model leaves unused.
#include "predict/machine_notes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/files.h"
#include "core/strings.h"
#include "predict/machine_file.h"

namespace lockstep::predict {
namespace {

std::string machine_notes_of(const std::string& table, const std::string& model, bool is_asked) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "mine.csv", table);
  const auto curves =
      read_table_curves(folder.path() / "mine.csv", {.machine = find_machine("karolina"), .model = model});
  const MeasuredCurve& curve = curves.front();
  CurvePrediction prediction =
      predict_curve(curve, {}, {{576, size_of(curve, 576)}, {584, size_of(curve, 584)}, {1152, size_of(curve, 1152)}});
  note_machine(curve.machine, is_asked, prediction);
  return core::join(prediction.curve.notes, "\n");
}

constexpr const char* kThreeSizes = "gpus,step_time_s\n8,1.0\n16,1.01\n32,1.02\n";

TEST(MachineNotes, SizesInDevicesAreHeldAgainstTheNodes) {
  const std::string notes = machine_notes_of(kThreeSizes, "", false);
  EXPECT_NE(notes.find("has 72 nodes: 584, 1152 GPUs do not exist."), std::string::npos) << notes;
}

TEST(MachineNotes, AMachineOfUnknownSizeHasAllNodes) {
  EXPECT_TRUE(has_nodes(std::nullopt, 1e6));
  Machine machine = find_machine("karolina");
  EXPECT_TRUE(has_nodes(machine, 72));
  EXPECT_FALSE(has_nodes(machine, 73));
  machine.num_nodes.reset();
  EXPECT_TRUE(has_nodes(machine, 73));
}

TEST(MachineNotes, SizesInDevicesSayWhatANodeHasAndWhatTellsIt) {
  const auto note = [](const std::string& table, const TableRequest& request) {
    core::TempDir folder;
    core::write_file_atomic(folder.path() / "mine.csv", table);
    const MeasuredCurve curve = read_table_curves(folder.path() / "mine.csv", request).front();
    CurvePrediction prediction = predict_curve(curve, {}, {{64, size_of(curve, 64)}});
    note_size_unit(prediction);
    const auto fact = std::find_if(prediction.facts.begin(), prediction.facts.end(),
                                   [](const KnownFact& one) { return one.name == "devices of a node"; });
    return core::join(prediction.curve.notes, " ") + (fact == prediction.facts.end() ? "" : "; " + fact->source);
  };
  const std::string rows = "gpus,step_time_s\n8,1.0\n16,1.01\n";
  for (const auto& [text, wanted] :
       {std::pair{note(rows, {}), "64 gpus are 8 nodes of 8 (not known: a guess)."},
        {note(rows, {.devices_per_node = 4}), "64 gpus are 16 nodes of 4 (--devices-per-node).; --devices-per-node"},
        {note("# 4 GPUs a node\n" + rows, {}), "16 nodes of 4 (comments of the table)"},
        {note(rows, {.machine = find_machine("leonardo")}), "16 nodes of 4 (as in nodes of Leonardo Booster)"}})
    EXPECT_NE(core::to_lower_ascii(text).find(core::to_lower_ascii(wanted)), std::string::npos) << text;
  EXPECT_EQ(note("nodes,step_time_s\n8,1.0\n16,1.01\n", {}).find("--nodes counts"), std::string::npos);
}

TEST(MachineNotes, ATableWithoutModelAndBatchSaysWhatTellsThem) {
  const std::string unknown = machine_notes_of(kThreeSizes, "", true),
                    known = machine_notes_of(kThreeSizes, "1.3B", true);
  EXPECT_NE(unknown.find("are not used. --model NAME"), std::string::npos) << unknown;
  EXPECT_EQ(known.find("are not used"), std::string::npos) << known;
  EXPECT_EQ(machine_notes_of(kThreeSizes, "", false).find("are not used"), std::string::npos);
  const std::string no_batch = machine_notes_of("gpus,samples_per_s\n8,800\n16,1590\n", "", true);
  EXPECT_NE(no_batch.find("--samples-per-device N or a column global_batch"), std::string::npos) << no_batch;
}

}  // namespace
}  // namespace lockstep::predict
