// Predictions of published tables from their small sizes: the split, the errors reached, the rivals.
#include "predict/validation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/files.h"
#include "core/strings.h"
#include "predict/machine_file.h"
#include "predict/page.h"
#include "predict/plan_step.h"

namespace lockstep::predict {
namespace {

std::filesystem::path published(const char* name) {
  return std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "published" / name;
}

struct Bar {
  const char* table;
  double calibrate_up_to;
  size_t num_curves, num_judged;
  double most_mean_pct, most_worst_pct;
};

class PublishedTables : public testing::TestWithParam<Bar> {};

// What issue 18 asks for: 3 % mean and 8 % worst error, at least 80 % of the points in the 90 % interval.
TEST_P(PublishedTables, LargeSizesFollowFromSmallOnes) {
  const Bar& bar = GetParam();
  const auto curves = read_table_curves(published(bar.table));
  ASSERT_EQ(curves.size(), bar.num_curves);
  for (const MeasuredCurve& curve : curves) {
    const Validation validation = validate_curve(curve, bar.calibrate_up_to);
    ASSERT_EQ(validation.judged.size(), bar.num_judged) << curve.name;
    EXPECT_LT(validation.mean_error_pct, bar.most_mean_pct) << score_text(validation);
    EXPECT_LT(validation.worst_error_pct, bar.most_worst_pct) << score_text(validation);
    EXPECT_GE(validation.coverage90, 0.8) << score_text(validation);
    EXPECT_LT(validation.median_half_width_pct, 10) << score_text(validation);
    EXPECT_TRUE(validation.beats_rivals()) << score_text(validation);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PublishedTables,
                         testing::Values(Bar{"clap_htsat_tiny_jupiter.csv", 8, 1, 4, 3, 8},
                                         Bar{"clap_htsat_base_jupiter.csv", 8, 1, 4, 3, 8},
                                         Bar{"nemo_clip_g14.csv", 2, 2, 3, 3, 8},
                                         Bar{"nemotron4_340b_h100.csv", 128, 2, 4, 3, 3}));

struct UncalibratedBar {
  const char *table, *system;
  std::vector<std::string> words;
  size_t curve = 0;
  std::optional<double> samples_per_device{};
};

class UncalibratedTables : public testing::TestWithParam<UncalibratedBar> {};

std::vector<std::string> clap_words(const char* model, const char* batch) {
  return {"train",       "clap",     "--model",        model,       "--batch-size",        batch,
          "--precision", "amp_bf16", "--dataset-type", "synthetic", "--train-num-samples", "1000000"};
}

std::vector<std::string> recipe_words(const char* task, const char* recipe) {
  return {"train", task, "--config", (std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "recipes" / recipe).string()};
}

// From system and recipe alone: efficiency within five points of what was published, at every size.
TEST_P(UncalibratedTables, EfficiencyFollowsFromTheSystem) {
  const UncalibratedBar& bar = GetParam();
  const MeasuredCurve curve = read_table_curves(published(bar.table)).at(bar.curve);
  const Machine machine = find_machine(bar.system);
  std::vector<int64_t> nodes;
  for (const CurvePoint& point : curve.points) nodes.push_back(std::llround(point.measured.size.nodes));
  std::vector<std::string> refused;
  const auto steps =
      plan_steps({.words = bar.words, .samples_per_device = bar.samples_per_device}, machine, nodes, refused);
  ASSERT_EQ(steps.size(), nodes.size());
  const CurvePrediction prediction = predict_steps(model_of(steps, machine), steps, {});
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double of_table = 100 * curve.points[0].measured.step_s / curve.points[i].measured.step_s;
    EXPECT_NEAR(100 / prediction.forecast.steps[i].over_first.p50, of_table, 5) << nodes[i] << " nodes";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, UncalibratedTables,
    testing::Values(
        UncalibratedBar{"clap_htsat_tiny_jupiter.csv", "jupiter", clap_words("HTSAT-tiny-Roberta-base", "616")},
        UncalibratedBar{"clap_htsat_base_jupiter.csv", "jupiter", clap_words("HTSAT-base-Roberta-base", "416")},
        UncalibratedBar{"nemo_clip_g14.csv", "dgx-a100", recipe_words("clip", "clip_vitg14_dgx.toml"), 0},
        UncalibratedBar{"nemo_clip_g14.csv", "dgx-h100", recipe_words("clip", "clip_vitg14_dgx.toml"), 1},
        UncalibratedBar{"nemotron4_340b_h100.csv", "dgx-h100", recipe_words("gpt", "gpt_nemotron4_340b_h100.toml"), 0,
                        0.25}));

// Nothing that is judged may reach the prediction: other measurements at the sizes kept back change no predicted digit.
TEST(Split, PointsKeptBackChangeNothing) {
  for (const char* table : {"clap_htsat_base_jupiter.csv", "nemo_clip_g14.csv", "nemotron4_340b_h100.csv"}) {
    for (const MeasuredCurve& curve : read_table_curves(published(table))) {
      const double largest = curve.points.at(1).size;
      MeasuredCurve other = curve;
      for (CurvePoint& point : other.points)
        if (point.size > largest) point.measured.step_s *= 3;
      const Validation before = validate_curve(curve, largest), after = validate_curve(other, largest);
      ASSERT_FALSE(before.judged.empty());
      EXPECT_EQ(prediction_json(before.prediction), prediction_json(after.prediction)) << curve.name;
      EXPECT_NE(before.judged[0].error_pct, after.judged[0].error_pct);
      for (const CurvePoint& point : before.prediction.calibration) EXPECT_LE(point.size, largest);
    }
  }
}

// How a table is read is decided by the rows that may be seen, too: whether scaling is strong, or TFLOP/s are a
// device's.
TEST(Split, RowsKeptBackDoNotDecideHowTheTableIsRead) {
  const auto predicted = [](const std::string& text) {
    const core::TempDir folder;
    core::write_file_atomic(folder.path() / "mine.csv", text);
    const MeasuredCurve curve = read_table_curves(folder.path() / "mine.csv", {.largest_known = 2}).at(0);
    return prediction_json(validate_curve(curve, 2).prediction);
  };
  const std::string steps = "nodes,gpus,step_time_s\n1,8,1.0\n2,16,0.9\n4,32,";
  EXPECT_EQ(predicted(steps + "0.3\n"), predicted(steps + "0.9\n"));
  const std::string tflops = "nodes,gpus,TFLOP/s\n1,64,150\n2,128,148\n4,512,";
  EXPECT_EQ(predicted(tflops + "145\n"), predicted(tflops + "1100\n"));
}

TEST(Split, DevicesThatGetFasterAsTheyGetMoreAreDoubted) {
  const auto is_doubted = [](const std::string& rates) {
    const core::TempDir folder;
    core::write_file_atomic(folder.path() / "mine.csv", "nodes,gpus,images/s/gpu\n" + rates);
    const CurvePrediction prediction = predict_curve(read_table_curves(folder.path() / "mine.csv").at(0), {}, {});
    return std::any_of(prediction.curve.notes.begin(), prediction.curve.notes.end(),
                       [](const std::string& note) { return note.find("totals of all devices") != std::string::npos; });
  };
  EXPECT_TRUE(is_doubted("1,4,10200\n2,8,20100\n4,16,39500\n"));
  EXPECT_FALSE(is_doubted("1,4,2550\n2,8,2600\n4,16,2470\n"));
}

// A measurement that is used does change it.
TEST(Split, CalibrationPointsCount) {
  const MeasuredCurve curve = read_table_curves(published("clap_htsat_base_jupiter.csv")).at(0);
  MeasuredCurve other = curve;
  other.points[3].measured.step_s *= 1.03;
  EXPECT_GT(validate_curve(other, 8).prediction.forecast.steps.back().step_s.p50,
            1.01 * validate_curve(curve, 8).prediction.forecast.steps.back().step_s.p50);
}

TEST(Split, EmptySidesAreRefused) {
  const MeasuredCurve curve = read_table_curves(published("clap_htsat_base_jupiter.csv")).at(0);
  EXPECT_THROW(validate_curve(curve, 128), UsageError);
  EXPECT_THROW(validate_curve(curve, 0.5), UsageError);
}

/// A table as somebody would write it.
std::vector<MeasuredCurve> curves_of(const std::string& text) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "mine.csv", text);
  return read_table_curves(folder.path() / "mine.csv");
}

// From parts of a device, and from more devices than there can be, no finite step follows.
TEST(TableCurves, SizesThatNoMachineHasAreRefused) {
  const std::string head = "# ResNet-50 on 4 GPUs a node\ngpus,global_batch,samples_per_s\n4,256,1000\n";
  for (const char* row : {"1e-6,256,1900\n", "1e20,512,1900\n"}) {
    const MeasuredCurve curve = curves_of(head + row).at(0);
    EXPECT_THROW(predict_curve(curve, {}, {{8, size_of(curve, 8)}}), DataError) << row;
  }
  const MeasuredCurve curve = curves_of(head + "8,512,1900\n").at(0);
  EXPECT_NO_THROW(predict_curve(curve, {}, {{1, size_of(curve, 1)}}));
  EXPECT_THROW(predict_curve(curve, {}, {{1e12, size_of(curve, 1e12)}}), DataError);
}

TEST(TableCurves, ReadModelLayoutAndSystemFromTheText) {
  const MeasuredCurve curve = read_table_curves(published("nemotron4_340b_h100.csv")).at(1);
  EXPECT_EQ(curve.name, "fp8");
  EXPECT_EQ(curve.work.tp, 8);
  EXPECT_EQ(curve.work.pp, 8);
  EXPECT_EQ(curve.work.chunks, 12);
  ASSERT_TRUE(curve.machine);
  EXPECT_EQ(curve.machine->name, "DGX H100 SuperPOD");
  EXPECT_NEAR(*curve.work.parameters, 340e9, 5e9);
  // 7 idle slots of 16 micro-batches in 12 chunks.
  EXPECT_NEAR(curve.points[0].measured.size.bubble, 7.0 / (16 * 12), 1e-12);
}

TEST(TableCurves, ABatchOfAllDevicesThatStaysIsStrongScaling) {
  const MeasuredCurve curve =
      curves_of(
          "# gpt3-1.3b on LUMI, FSDP\nnodes,gpus,global_batch,step_time_s\n1,8,512,8\n2,16,512,4.1\n4,32,512,2.2\n")
          .at(0);
  EXPECT_TRUE(curve.is_strong);
  EXPECT_TRUE(curve.has_seconds);
  EXPECT_EQ(curve.work.sharding, Sharding::kFull);
  EXPECT_DOUBLE_EQ(curve.points[2].measured.size.work, 0.25);
  EXPECT_DOUBLE_EQ(size_of(curve, 16).work, 1.0 / 16);
  EXPECT_DOUBLE_EQ(curve.rate_per_device, 64);
}

// Rates alone do not tell strong from weak scaling: the words do, or the user.
TEST(TableCurves, WordsTellStrongScalingWhereNoBatchDoes) {
  const auto curve = curves_of("# strong scaling\nnodes,gpus,samples_per_s\n1,8,100\n4,32,360\n").at(0);
  EXPECT_TRUE(curve.is_strong);
  EXPECT_FALSE(curve.has_seconds);
  EXPECT_DOUBLE_EQ(curve.points[1].measured.size.work, 0.25);
  EXPECT_DOUBLE_EQ(curve.points[1].measured.step_s, 8 / 360.0);
}

TEST(TableCurves, PartsOfOneNodeAreToldApartByDevices) {
  const auto curve = curves_of("nodes,gpus,global_batch,step_time_s\n1,1,8,1\n1,8,64,1.02\n2,16,128,1.03\n").at(0);
  EXPECT_EQ(curve.size_name, "GPUs");
  EXPECT_DOUBLE_EQ(curve.points[0].measured.size.nodes, 1.0 / 8);
}

TEST(TableCurves, ContradictingRepeatsWidenTheInterval) {
  const auto width = [](const std::string& second) {
    const auto curve =
        curves_of("nodes,gpus,global_batch,step_time_s\n1,8,64,1.00\n1,8,64," + second + "\n2,16,128,1.02\n");
    const CurvePrediction prediction = predict_curve(curve.at(0), {}, {{8, size_of(curve.at(0), 8)}});
    const bool warns =
        std::any_of(prediction.curve.notes.begin(), prediction.curve.notes.end(),
                    [](const std::string& note) { return note.find("contradict") != std::string::npos; });
    EXPECT_EQ(warns, second != "1.00") << second;
    return prediction.forecast.steps[0].step_s.relative_half_width();
  };
  EXPECT_GT(width("1.30"), 1.5 * width("1.00"));
}

TEST(TableCurves, AGuessedPipelineGivesWayToWhatWasMeasured) {
  const auto curve_of = [](const char* rate_of_1152) {
    core::TempDir folder;
    core::write_file_atomic(folder.path() / "mine.csv",
                            std::string("# 405B, H100, sequence length 8192\nGPUs,GBS,Tokens per second per GPU\n"
                                        "576,252,333\n1152,252,") +
                                rate_of_1152 + "\n");
    return read_table_curves(folder.path() / "mine.csv").at(0);
  };
  const auto bubble_at_base = [&](const MeasuredCurve& curve) {
    const CurvePrediction prediction = predict_curve(curve, {}, {{576, curve.points[0].measured.size}});
    EXPECT_NEAR(prediction.forecast.steps[0].step_s.p50 / curve.points[0].measured.step_s, 1, 0.03);
    return prediction.targets[0].at.bubble;
  };
  const MeasuredCurve good = curve_of("327");
  ASSERT_TRUE(good.work.is_layout_assumed);
  ASSERT_GT(good.points[0].measured.size.bubble, 0.2);
  EXPECT_LT(bubble_at_base(good), 0.05) << "98 % of the rate are kept";
  // A rate that falls as the guessed bubble grows leaves the guess as it is.
  const MeasuredCurve poor = curve_of("270");
  EXPECT_DOUBLE_EQ(bubble_at_base(poor), poor.points[0].measured.size.bubble);
}

// What a full node loses beside one of its devices stays lost: it is no noise of the rows.
TEST(TableCurves, ALossInsideANodeIsKeptBeyondIt) {
  const std::string model = "# ResNet-50, V100, 8 GPUs a node\nnodes,gpus,samples/s,batch_per_gpu\n";
  const auto curve = curves_of(model + "1,1,100,64\n1,4,340,64\n1,8,640,64\n2,16,1260,64\n4,32,2490,64\n").at(0);
  const Validation validation = validate_curve(curve, 8);
  ASSERT_EQ(validation.judged.size(), 2u);
  EXPECT_LT(validation.worst_error_pct, 8);
  // Without parts of a node there is nothing to be lost in it.
  const auto whole = curves_of(model + "1,8,640,64\n2,16,1260,64\n4,32,2490,64\n").at(0);
  const auto unknowns = [](const Validation& one) { return one.prediction.forecast.learned.size(); };
  EXPECT_EQ(unknowns(validation), unknowns(validate_curve(whole, 2)) + 1);
}

// One device says nothing of what a full node loses: the loss is expected, and how much is open.
TEST(TableCurves, OneDeviceLeavesTheLossInsideANodeOpen) {
  const std::string model = "# ResNet-50, V100, 8 GPUs a node\nnodes,gpus,samples/s,batch_per_gpu\n";
  const auto curve = curves_of(model + "1,1,100,64\n1,8,640,64\n2,16,1260,64\n").at(0);
  const Interval full_node = validate_curve(curve, 1).judged.at(0).predicted;
  const double alone = 64 / 100.0;
  EXPECT_GT(full_node.p50, 1.02 * alone);
  EXPECT_LT(full_node.p50, 1.06 * alone);
  EXPECT_GT(full_node.p95, 1.2 * alone) << "a loss of a fifth is no surprise";
}

// A slower network takes a larger share of the step of a model that is not known.
TEST(TableCurves, ANetworkThatIsToldTellsTheTrafficOfAnUnknownModel) {
  const auto traffic = [](const std::string& network) {
    const auto curve = curves_of("# our net, A100, 8 GPUs a node, " + network +
                                 "\nnodes,gpus,samples/s,batch_per_gpu\n1,8,640,64\n2,16,1260,64\n")
                           .at(0);
    for (const KnownFact& fact : predict_curve(curve, {}, {}).facts)
      if (fact.name == "gradient traffic") return fact.value;
    return std::string();
  };
  EXPECT_EQ(traffic("4x HDR"), "10 % of a step") << "12.5 GB/s a device";
  EXPECT_EQ(traffic("8x HDR"), "5 % of a step");
}

// Programs interleave stages more often than tables tell it.
TEST(TableCurves, UntoldVirtualStagesMakeTheBubbleUncertain) {
  const auto width = [](const std::string& layout) {
    const auto curve = curves_of("# 175B, TP=8 PP=8 MBS=1" + layout +
                                 ", 8 GPUs a node\nGPUs,global_batch,step_time_s\n64,16,10\n128,16,6.5\n")
                           .at(0);
    const Validation validation = validate_curve(curve, 64);
    return validation.prediction.forecast.steps[0].step_s.relative_half_width();
  };
  EXPECT_GT(width(""), 1.2 * width(" VP=1"));
}

// Notes name the unit of the numbers in them, and what is missing is not called known.
TEST(TableCurves, NotesOfTablesWithoutSecondsSayWhatIsMissing) {
  const auto curve = curves_of("nodes,batch_per_gpu,s/epoch\n1,64,340\n1,64,530\n2,64,200\n").at(0);
  const std::string notes = core::join(predict_curve(curve, {}, {}).curve.notes, "\n");
  EXPECT_NE(notes.find("contradict each other"), std::string::npos) << notes;
  EXPECT_NE(notes.find("device seconds a unit of work"), std::string::npos) << notes;
  EXPECT_EQ(notes.find("follow from the parameters"), std::string::npos) << notes;
  EXPECT_NE(notes.find("the model is not known (--model NAME"), std::string::npos) << notes;
}

// Two sizes whose line falls below zero are two sizes.
TEST(TableCurves, ARivalWithoutATimeSaysSo) {
  const auto curve = curves_of("nodes,gpus,global_batch,step_time_s\n1,8,64,4.0\n2,16,64,1.5\n16,128,64,0.3\n").at(0);
  const draw::Table table = score_table({validate_curve(curve, 2)});
  std::string notes;
  for (const draw::Cell& cell : table.rows.at(0)) notes += cell.note;
  EXPECT_EQ(notes.find("needs two sizes"), std::string::npos) << notes;
  EXPECT_NE(notes.find("its line gives no time above zero"), std::string::npos) << notes;
}

TEST(TableCurves, OnePointSaysWhatIsNotLearned) {
  const auto curve = curves_of("nodes,gpus,global_batch,step_time_s\n1,8,64,1.00\n").at(0);
  const CurvePrediction prediction = predict_curve(curve, {}, {{16, size_of(curve, 16)}});
  EXPECT_NE(prediction.curve.notes.back().find("nothing was learned"), std::string::npos);
}

// What a table tells of its layout may not fit its devices: a slip, of the layout or of the device.
TEST(TableCurves, LayoutsThatCannotBeAreDoubted) {
  const auto notes = [](const std::string& comment, const char* rows) {
    const auto curve = curves_of("# " + comment + "\nnodes,gpus,global_batch,step_time_s\n" + rows).at(0);
    return core::join(predict_curve(curve, {}, {}).curve.notes, "\n");
  };
  const char* rows = "1,8,32,10\n2,16,64,10.2\n";
  const std::string memory = notes("175B, A100 40GB, TP=8 PP=1", rows);
  EXPECT_NE(memory.find("about 394 GB a device"), std::string::npos) << memory;
  EXPECT_NE(memory.find("A100 SXM 40GB has 40 GB"), std::string::npos) << memory;
  const std::string ranks = notes("1.3B, A100 40GB, TP=16 PP=1", rows);
  EXPECT_NE(ranks.find("needs 16 devices for a copy of the model"), std::string::npos) << ranks;
  EXPECT_NE(ranks.find("its smallest calibrated size has 8"), std::string::npos) << ranks;
  const std::string good = notes("1.3B, A100 40GB, TP=8 PP=1", rows);
  EXPECT_EQ(good.find("a device ("), std::string::npos) << good;
  EXPECT_EQ(good.find("copy of the model"), std::string::npos) << good;
}

// A point that the fit overrules is named, with what was measured and what is fitted.
TEST(TableCurves, APointOutsideItsOwnFitIsNamed) {
  const auto notes = [](const char* rows) {
    const auto curve = curves_of(std::string("nodes,step_time_s\n") + rows).at(0);
    return core::join(predict_curve(curve, {}, {{8, size_of(curve, 8)}}).curve.notes, "\n");
  };
  const std::string far = notes("1,1.0\n2,1.02\n4,10.5\n");
  EXPECT_NE(far.find("does not follow the point at 4 nodes: 10.5 s was measured"), std::string::npos) << far;
  EXPECT_NE(far.find("From 2 to 4 nodes all devices together got slower"), std::string::npos) << far;
  const std::string near = notes("1,1.0\n2,1.02\n4,1.05\n");
  EXPECT_EQ(near.find("does not follow"), std::string::npos) << near;
  EXPECT_EQ(near.find("From 2 to 4"), std::string::npos) << near;
}

// What more devices did not speed up may stay where it is: intervals of larger sizes hold that.
TEST(TableCurves, IntervalsBehindAPlateauReachIt) {
  const auto saturated = curves_of("nodes,images/s\n1,2400\n2,4700\n4,8000\n8,9000\n16,9100\n32,9150\n").at(0);
  const Validation validation = validate_curve(saturated, 16);
  EXPECT_EQ(validation.coverage90, 1) << score_text(validation);
  const std::string notes = core::join(validation.prediction.curve.notes, "\n");
  EXPECT_NE(notes.find("From 8 to 16 nodes all devices together gained nothing (1.01 times"), std::string::npos);
  EXPECT_NE(notes.find("the rate is that of one device"), std::string::npos) << notes;
  // A point that something disturbed: what it told of larger sizes is not ruled out.
  const auto slower = curves_of("nodes,step_time_s\n1,1.0\n2,1.02\n4,10.5\n").at(0);
  EXPECT_GE(predict_curve(slower, {}, {{8, size_of(slower, 8)}}).forecast.steps[0].step_s.p95, 21);
  // A rate that still grows is no plateau.
  const auto growing = curves_of("nodes,images/s\n1,2400\n2,4700\n4,8000\n").at(0);
  EXPECT_EQ(
      core::join(predict_curve(growing, {}, {{8, size_of(growing, 8)}}).curve.notes, " ").find("all devices together"),
      std::string::npos);
}

TEST(TableCurves, TablesWithoutSizesOrTimesAreRefused) {
  EXPECT_THROW(curves_of("model,samples_per_s\nx,5\n"), DataError);
  EXPECT_THROW(curves_of("nodes,gpus\n1,8\n"), DataError);
  EXPECT_THROW(curves_of("nodes,samples_per_s\n1,fast\n"), DataError);
}

}  // namespace
}  // namespace lockstep::predict
