// One curve told in many ways: whatever the columns are called, the same steps follow.
#include "predict/table_curves.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "predict/document.h"
#include "predict/machine_file.h"
#include "predict/page.h"
#include "predict/validation.h"

namespace lockstep::predict {
namespace {

constexpr double kSteps[] = {1.0, 1.02, 1.04, 1.06, 1.09};  // of 1, 2, 4, 8 and 16 nodes of 8 devices with 32 samples
constexpr double kLocal = 32, kPerNode = 8, kSequence = 2048;

/// A row's fields from its nodes, devices and step.
using Row = std::function<std::string(double nodes, double devices, double step_s)>;

struct Spelling {
  const char* name;
  std::string header;
  Row row;
  bool has_seconds;
  std::string comment = "# GPT 1.3B, 8 GPUs a node";
};

MeasuredCurve read(const std::string& text, const TableRequest& request = {}) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "mine.csv", text);
  const auto curves = read_table_curves(folder.path() / "mine.csv", request);
  EXPECT_EQ(curves.size(), 1u);
  return curves.at(0);
}

MeasuredCurve read(const Spelling& spelling) {
  std::string text = spelling.comment + "\n" + spelling.header + "\n";
  double nodes = 1;
  for (const double step : kSteps) {
    text += spelling.row(nodes, nodes * kPerNode, step) + "\n";
    nodes *= 2;
  }
  return read(text);
}

double rate(double devices, double step_s) { return devices * kLocal / step_s; }
std::string fields(std::initializer_list<double> values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ",") + fmt::format("{:.9g}", value);
  return text;
}

std::vector<Spelling> spellings() {
  return {
      {"rates of all", "Nodes,# GPUs,Global batch,Throughput (samples/s)",
       [](double n, double d, double s) {
         return fields({n, d, d * kLocal, rate(d, s)});
       },
       true},
      {"batch of a GPU", "GPUs,Batch size per GPU,seqs/s",
       [](double, double d, double s) {
         return fields({d, kLocal, rate(d, s)});
       },
       true},
      {"tokens with lengths", "num_gpus,global_batch_size,tokens/sec,seq_len",
       [](double, double d, double s) {
         return fields({d, d * kLocal, kSequence * rate(d, s), kSequence});
       },
       true},
      {"tokens without lengths", "num_gpus,gbs,tokens/sec",
       [](double, double d, double s) {
         return fields({d, d * kLocal, kSequence * rate(d, s)});
       },
       false},
      {"batch in tokens", "GPUs,Batch size (tokens),tokens/s/GPU",
       [](double, double d, double s) {
         return fields({d, d * kLocal * kSequence, kSequence * kLocal / s});
       },
       true},
      {"TFLOP of a GPU", "GPUs,TFLOPs",
       [](double, double d, double s) {
         return fields({d, 140 / s});
       },
       false},
      {"PFLOP of all", "GPUs,Aggregate PFLOP/s",
       [](double, double d, double s) {
         return fields({d, 0.14 * d / s});
       },
       false},
      {"times of an epoch", "Nodes,GPUs,Epoch time (min)",
       [](double n, double d, double s) {
         return fields({n, d, 1e5 / rate(d, s)});
       },
       false},
      {"times of a training", "GPUs,Training time (hours)",
       [](double, double d, double s) {
         return fields({d, 1e4 / rate(d, s)});
       },
       false},
      {"steps a second", "GPUs,gbs,it/s",
       [](double, double d, double s) {
         return fields({d, d * kLocal, 1 / s});
       },
       true},
      {"seconds an iteration", "GPUs,gbs,s/it",
       [](double, double d, double s) {
         return fields({d, d * kLocal, s});
       },
       true},
      {"milliseconds", "GPUs,gbs,Iteration time [ms]",
       [](double, double d, double s) {
         return fields({d, d * kLocal, 1e3 * s});
       },
       true},
      {"steps without a unit", "GPUs,gbs,Step time",
       [](double, double d, double s) {
         return fields({d, d * kLocal, s});
       },
       true},
      {"iterations without a unit", "GPUs,gbs,time per iteration",
       [](double, double d, double s) {
         return fields({d, d * kLocal, s});
       },
       true},
      {"seconds of an epoch", "Nodes,GPUs,s/epoch",
       [](double n, double d, double s) {
         return fields({n, d, 1e5 / rate(d, s)});
       },
       false},
      {"rates of a node", "Nodes,images/s/node",
       [](double n, double d, double s) {
         return fields({n, rate(d, s) / n});
       },
       false, "# ResNet-50, 8 GPUs per node"},
      {"model FLOP utilisation", "GPUs,MFU (%)",
       [](double, double d, double s) {
         return fields({d, 45 / s});
       },
       false},
      {"speed-ups", "GPUs,Speedup",
       [](double n, double d, double s) {
         return fields({d, n / s});
       },
       false},
      {"efficiencies", "GPUs,Scaling efficiency (%)",
       [](double, double d, double s) {
         return fields({d, 100 / s});
       },
       false},
      {"a batch that grows", "GPUs,batch size,images/sec",
       [](double, double d, double s) {
         return fields({d, d * kLocal, rate(d, s)});
       },
       true, "# ResNet-50"},
      {"a batch that stays", "GPUs,batch size,images/sec",
       [](double, double d, double s) {
         return fields({d, kLocal, rate(d, s)});
       },
       true, "# ResNet-50"},
      {"sizes in other words", "GPU number,DGX A100 nodes,gbs,samples/s",
       [](double n, double d, double s) {
         return fields({d, n, d * kLocal, rate(d, s)});
       },
       true},
      {"numbers behind what they count", "node_num,device num,gbs,samples/s (PyTorch)",
       [](double n, double d, double s) {
         return fields({n, d, d * kLocal, rate(d, s)});
       },
       true},
      {"a sign for a number", "# of accelerators,gbs,step time (s)",
       [](double, double d, double s) {
         return fields({d, d * kLocal, s});
       },
       true},
      {"servers and the GPUs of each", "Servers,gpus per server,gbs,samples/s",
       [](double n, double d, double s) {
         return fields({n, kPerNode, d * kLocal, rate(d, s)});
       },
       true, "# GPT 1.3B"},
      {"a device beside its number", "GPU,# GPUs,gbs,samples/s",
       [](double, double d, double s) {
         return "h100_80gb," + fields({d, d * kLocal, rate(d, s)});
       },
       true},
      {"parts of thousands", "GPUs,gbs,samples/s",
       [](double, double d, double s) {
         const double value = rate(d, s);
         std::string text = fmt::format("{:.4f}", value);
         if (value >= 1000) text.insert(text.find('.') - 3, ",");
         return fmt::format("{},{},\"{}\"", d, d * kLocal, text);
       },
       true},
  };
}

TEST(TableSteps, EverySpellingGivesTheSameCurve) {
  for (const Spelling& spelling : spellings()) {
    SCOPED_TRACE(spelling.name);
    const MeasuredCurve curve = read(spelling);
    ASSERT_EQ(curve.points.size(), std::size(kSteps));
    EXPECT_EQ(curve.has_seconds, spelling.has_seconds);
    EXPECT_FALSE(curve.is_strong);
    for (size_t i = 0; i < curve.points.size(); ++i) {
      const Measured& measured = curve.points[i].measured;
      EXPECT_EQ(measured.size.work, 1);
      EXPECT_NEAR(measured.size.nodes, std::exp2(static_cast<double>(i)), 1e-9);
      EXPECT_NEAR(measured.step_s / curve.points[0].measured.step_s, kSteps[i], 1e-4);
      if (spelling.has_seconds) {
        EXPECT_NEAR(measured.step_s, kSteps[i], 1e-4);
      }
    }
    EXPECT_LT(validate_curve(curve, curve.points[2].size).mean_error_pct, 1);
  }
}

TEST(TableSteps, TimesWithoutAUnitThatWouldBeLongAreRefused) {
  const MeasuredCurve curve = read("# 8 GPUs a node\nGPUs,gbs,Step time\n8,256,1\n16,512,1.02\n");
  EXPECT_NE(core::join(curve.notes, " ").find("'Step time' names no unit: seconds were taken"), std::string::npos);
  try {
    read("GPUs,gbs,Step time\n8,256,512.5\n16,512,520\n");
    FAIL() << "milliseconds, by their look";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("mine.csv' line 2, column 'Step time': 512.5 names no unit"), std::string::npos)
        << error.text();
    EXPECT_NE(error.text().find("step_time_ms"), std::string::npos) << error.text();
  }
}

TEST(TableSteps, FractionsBesidePercentAreRefused) {
  try {
    read("GPUs,Scaling efficiency\n8,100\n16,98.5\n32,0.97\n");
    FAIL() << "0.97 is 97 %";
  } catch (const DataError& error) {
    for (const char* said : {"mine.csv' line 4, column 'Scaling efficiency': '0.97'", "'100' (line 2)", "percent"})
      EXPECT_NE(error.text().find(said), std::string::npos) << error.text();
  }
  EXPECT_THROW(read("GPUs,efficiency_pct\n8,1\n16,98.5\n"), DataError);
  EXPECT_THROW(read("GPUs,efficiency\n8,100%\n16,0.98\n"), DataError);
  EXPECT_NEAR(read("GPUs,efficiency\n8,100\n16,12\n32,0.9\n").points[2].measured.step_s, 1 / 0.9, 1e-9)
      << "a loss that is measured on the way";
}

/// Seconds of a batch that nothing tells are nobody's measurement.
TEST(TableSteps, PartsOfAnAssumedBatchAreCalledSo) {
  const auto doubt = [](const std::string& text) {
    const MeasuredCurve curve = read(text);
    const CurvePrediction prediction = predict_curve(curve, {}, {{64, size_of(curve, 64)}});
    const std::string said = parts_doubt(prediction);
    EXPECT_EQ(parts_table(prediction).notes, said.empty() ? std::vector<std::string>{} : std::vector{said});
    EXPECT_EQ(parts_chart(prediction).caption, said);
    EXPECT_EQ(prediction_json(prediction).value("parts_doubt", ""), said);
    EXPECT_EQ(parts_table(prediction).title.find("assumed") != std::string::npos, !said.empty());
    return said;
  };
  const std::string guessed = doubt("# GPT 1.3B, 8 GPUs a node\nGPUs,tokens/s\n8,100000\n16,199000\n");
  EXPECT_NE(guessed.find("assumed batch of 8 samples a device"), std::string::npos) << guessed;
  EXPECT_NE(doubt("GPUs,samples/s\n8,100\n16,199\n").find("so are the parts"), std::string::npos);
  EXPECT_NE(doubt("# GPT 1.3B\nGPUs,gbs,TFLOPs\n8,256,140\n16,512,138\n").find("parameters"), std::string::npos);
  EXPECT_EQ(doubt("# GPT 1.3B\nGPUs,gbs,samples/s\n8,256,140\n16,512,278\n"), "");
}

std::vector<MeasuredCurve> read_all(const std::string& text) {
  core::TempDir folder;
  core::write_file_atomic(folder.path() / "mine.csv", text);
  return read_table_curves(folder.path() / "mine.csv");
}

/// As spreadsheets print them: "1.910" beside "1", "138.125" beside "140".
TEST(TableCurves, DecimalsOfThreeDigitsAreNoThousands) {
  const MeasuredCurve curve =
      read("gpus\tstep_time_s\tglobal_batch\tspeedup\n8\t1.250\t64\t1\n16\t1.310\t128\t1.910\n32\t1.402\t256\t3.570\n");
  EXPECT_DOUBLE_EQ(curve.points.at(0).measured.step_s, 1.25);
  EXPECT_DOUBLE_EQ(curve.points.at(2).measured.step_s, 1.402);
}

/// A network, or a layout, is no model, though it changes with the size.
TEST(TableCurves, TextsThatNameNoModelPartNoCurve) {
  for (const char* column : {"network", "parameters", "architecture"}) {
    const MeasuredCurve curve = read(fmt::format(
        "# GPT 1.3B, weak scaling\nnodes,{},samples_per_s\n1,NVLink,200\n2,IB,390\n4,IB 2 rail,770\n", column));
    EXPECT_EQ(curve.points.size(), 3u) << column;
  }
  EXPECT_EQ(read("gpus,params,samples_per_s,local_batch\n8,1.3B,80,4\n16,1.30B,156,4\n32,1.3B,305,4\n").points.size(),
            3u);
}

/// Equal work: --samples-per-device is that of the smallest size, and scaling stays strong.
TEST(TableCurves, AGivenBatchOfStrongScalingIsThatOfTheSmallestSize) {
  const MeasuredCurve curve =
      read("gpus,step_time_s\n8,1.20\n16,0.62\n32,0.33\n64,0.19\n", {.local_batch = 64, .is_strong = true});
  for (const CurvePoint& point : curve.points)
    EXPECT_DOUBLE_EQ(point.measured.size.work * point.measured.size.devices,
                     curve.points.front().measured.size.work * 8)
        << point.size;
  for (const std::string& note : curve.notes) EXPECT_EQ(note.find("is not used"), std::string::npos) << note;
}

TEST(TableSteps, DevicesOfEachNodeThatDifferMakeAllDevices) {
  const MeasuredCurve curve = read(
      "node_num,gpu_num_per_node,batch_size_per_device,samples/s\n1,1,32,100\n1,4,32,390\n1,8,32,770\n2,8,32,1500\n");
  ASSERT_EQ(curve.points.size(), 4u);
  for (const auto& [i, devices] : {std::pair{0, 1.0}, {1, 4.0}, {2, 8.0}, {3, 16.0}})
    EXPECT_EQ(curve.points[static_cast<size_t>(i)].measured.size.devices, devices);
  EXPECT_EQ(curve.devices_per_node, 8);
}

TEST(TableSteps, PrefixesPeriodsAndOwnersOfARateAreRead) {
  const auto rate_at_first = [](const std::string& header, const char* values) {
    const MeasuredCurve curve = read("nodes,gpus,gbs," + header + "\n" + values);
    return curve.rate_per_device * curve.points.front().measured.size.devices / curve.points.front().measured.step_s;
  };
  const char* const kThousands = "1,8,1024,10.4\n2,16,2048,20.1\n4,32,4096,38\n";
  for (const char* header :
       {"Throughput (k img/s)", "throughput (10^3 samples/s)", "img/s (thousands)", "PyTorch (k img/s)"})
    EXPECT_NEAR(rate_at_first(header, kThousands), 10400, 1e-6) << header;
  EXPECT_NEAR(rate_at_first("throughput (samples/min)", kThousands), 10.4 / 60, 1e-3);
  EXPECT_NEAR(rate_at_first("throughput per device", kThousands), 8 * 10.4, 1e-6);
  EXPECT_NEAR(rate_at_first("throughput_per_node", kThousands), 10.4, 1e-6);
  EXPECT_NEAR(read("nodes,gpus,M tokens/s\n1,8,1.2\n2,16,2.3\n").points.at(1).measured.size.devices, 16, 1e-9);
  try {
    read("nodes,gpus,throughput [GB/s]\n1,8,10\n2,16,19\n");
    FAIL() << "a rate of bytes was taken for one of samples";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("column 'throughput [GB/s]': a rate in a unit that is not known"),
              std::string::npos)
        << error.what();
  }
}

TEST(TableSteps, AsManyDevicesOnMoreNodesStillCountNodes) {
  EXPECT_EQ(read("nodes,gpus,samples_per_s\n1,8,1000\n2,8,960\n2,16,1900\n4,32,3600\n").size_name, "nodes");
  EXPECT_EQ(read("nodes,gpus,samples_per_s\n1,4,500\n1,8,1000\n2,16,1900\n").size_name, "GPUs") << "parts of a node";
}

TEST(TableSteps, ABatchOfADeviceInTokensStaysWithIt) {
  for (const char* batch : {"batch per GPU (tokens)", "Tokens per batch and GPU", "local batch (tokens)"}) {
    const MeasuredCurve curve = read(fmt::format(
        "# GPT 1.3B, 8 GPUs a node\nGPUs,{},seq_len,tokens/s\n8,16384,2048,26000\n16,16384,2048,51000\n", batch));
    EXPECT_NEAR(curve.points[0].measured.step_s, 8 * 16384 / 26000.0, 1e-6) << batch;
    EXPECT_EQ(curve.points[1].measured.size.work, 1) << batch;
    EXPECT_FALSE(curve.is_strong) << batch;
  }
  const MeasuredCurve all = read("# GPT 1.3B\nGPUs,Global Bsz (tokens),tokens/s\n8,131072,26000\n16,131072,51000\n");
  EXPECT_NEAR(all.points[0].measured.step_s, 131072 / 26000.0, 1e-6);
  const MeasuredCurve word = read("# GPT 1.3B\nGPUs,tokens per batch and GPU,tokens/s\n8,16k,26000\n16,16k,51000\n");
  EXPECT_NEAR(word.points[1].measured.step_s, 16 * 16000 / 51000.0, 1e-6) << "a text says whose batch it is";
}

TEST(TableSteps, ShortWordsForABatchAreRead) {
  EXPECT_NEAR(read("nodes,gpus,bsz per device,images/s\n1,8,64,1000\n2,16,64,1900\n").points[0].measured.step_s,
              8 * 64 / 1000.0, 1e-9);
  const MeasuredCurve curve = read("# GPT 1.3B\nGPUs,Micro Bsz,Global Bsz,TGS\n8,8,0.125M,3300\n16,8,0.25M,3200\n");
  EXPECT_EQ(curve.work.micro_batch, 8);
  EXPECT_NEAR(curve.points[0].measured.step_s, 125000 / (8 * 3300.0), 1e-6);
  EXPECT_NE(core::join(curve.notes, " ").find("'0.125M' was read as 125000"), std::string::npos);
}

TEST(TableSteps, AccumulatedPassesMakeTheBatchOfAStep) {
  for (const char* steps : {"Gradient Accumulation", "accumulation steps", "grad acc", "GA", "GradAccum"}) {
    const MeasuredCurve curve = read(fmt::format(
        "# BERT-large, 8 GPUs a node\nNodes,Batch size / GPU,{},sequences/s\n1,64,128,2800\n4,64,32,11000\n", steps));
    EXPECT_NEAR(curve.points[0].measured.step_s, 8 * 64 * 128 / 2800.0, 1e-6) << steps;
    EXPECT_DOUBLE_EQ(curve.points[1].measured.size.work, 0.25) << steps << ": strong scaling";
    EXPECT_EQ(curve.work.micro_batch, 64) << steps;
    EXPECT_NE(core::join(curve.notes, " ").find("'Batch size / GPU' x '"), std::string::npos) << steps;
  }
  const MeasuredCurve told =
      read("Nodes,GPUs,batch per GPU,accumulation steps,gbs,samples/s\n1,8,64,4,2048,2800\n2,16,64,4,4096,5500\n");
  EXPECT_NEAR(told.points[0].measured.step_s, 2048 / 2800.0, 1e-9) << "the batch of all is told";
  const MeasuredCurve micro = read("# GPT 1.3B, 8 GPUs a node\nGPUs,mbs,GA,samples/s\n8,4,16,100\n16,4,16,198\n");
  EXPECT_NEAR(micro.points[0].measured.step_s, 8 * 4 * 16 / 100.0, 1e-9);
  const MeasuredCurve tokens =
      read("# GPT 1.3B, 8 GPUs a node\nGPUs,batch per GPU (tokens),GA,tokens/s\n8,4096,4,26000\n16,4096,2,51000\n");
  EXPECT_NEAR(tokens.points[0].measured.step_s, 8 * 4096 * 4 / 26000.0, 1e-6);
  const MeasuredCurve words = read("GPUs,batch per GPU,GA,samples/s\n8,64,\"64 , 128\",100\n16,64,\"64 , 128\",198\n");
  EXPECT_NE(core::join(words.notes, " ").find("Column 'GA' was not read"), std::string::npos);
}

TEST(TableSteps, CountsOfParametersWinOverTheirRowsTexts) {
  for (const char* name : {"NumParams", "Number of parameters", "# Params", "params"}) {
    const MeasuredCurve curve =
        read(fmt::format("model,gpus,{},samples/s,gbs\n1b,8,1315950592,100,64\n1b,16,1315950592,199,128\n", name));
    EXPECT_EQ(curve.work.parameters, 1315950592) << name;
    EXPECT_TRUE(curve.work.are_parameters_certain) << name;
  }
  const auto parameters = [](const std::string& text) { return read(text).work.parameters.value_or(0); };
  EXPECT_NEAR(parameters("model,gpus,Params (M),samples/s\n1b,8,350,100\n1b,16,350,199\n"), 350e6, 1);
  EXPECT_NEAR(parameters("model,gpus,parameters,samples/s\n7b,8,7,100\n7b,16,7,199\n"), 7e9, 1) << "no unit";
  for (const auto& [model, count] : {std::pair{"125m", 125e6}, {"opt-350m", 350e6}, {"760M", 760e6}, {"1b", 1e9}})
    EXPECT_NEAR(parameters(fmt::format("model,gpus,samples/s\n{0},8,100\n{0},16,199\n", model)), count, 1) << model;
  EXPECT_EQ(parameters("# ran for 30m on 2m cables, 125ms\ngpus,samples/s\n8,100\n16,199\n"), 0);
  const WorkFacts asked =
      read("model,gpus,NumParams,samples/s\n1b,8,1315950592,100\n1b,16,1315950592,199\n", {.model = "2B"}).work;
  EXPECT_EQ(asked.parameters, 2e9) << "what the user says wins";
}

TEST(TableSteps, BoardsAreToldApartByTheirMemory) {
  const auto device = [](const std::string& comment) {
    const MeasuredCurve curve = read("# " + comment + "\ngpus,gbs,samples/s\n8,64,100\n16,128,199\n");
    return curve.machine ? curve.machine->device : "";
  };
  for (const char* text : {"A100 40GB", "A100 SXM 40GB", "a100_40gb", "A100-SXM4-40GB", "4x 40 GB A100 a node",
                           "8x A100 40 GB", "A100 GPUs (40GB)"})
    EXPECT_EQ(device(text), "A100 SXM 40GB") << text;
  for (const char* text : {"A100", "A100 80GB", "A100, 40 GB of pictures", "A100-SXM4-80GB"})
    EXPECT_EQ(device(text), "A100 SXM 80GB") << text;
  for (const char* text :
       {"DGX A100 40GB", "DGX-A100-40GB", "NVIDIA DGX A100 (8x A100 40GB)", "DGX A100, A100-SXM4-40GB"})
    EXPECT_EQ(device(text), "A100 SXM 40GB") << text;
  for (const char* text : {"DGX A100", "DGX A100 80GB", "DGX A100 (8x A100 80GB)"})
    EXPECT_EQ(device(text), "A100 SXM 80GB") << text;
  EXPECT_EQ(device("A100-PCIE-40GB"), "A100 PCIe 40GB");
  EXPECT_EQ(device("8x V100-SXM2-16GB a node"), "V100 SXM2 16GB");
  for (const char* text : {"V100", "V100 32GB", "DGX-2", "NVIDIA DGX-2H", "DGX-1V"})
    EXPECT_EQ(device(text), "V100 SXM2 32GB") << text;
  EXPECT_EQ(device("DGX-1 (8x P100)"), "P100 SXM2 16GB");
  EXPECT_EQ(read("# A100 40GB\ngpus,samples/s\n8,100\n16,199\n").machine->memory_gbytes.value, 40);
}

TEST(TableSteps, LayoutsWithoutATermAreNoted) {
  const auto read_with = [](const std::string& words) {
    return read("# GPT 7B, A100, " + words + "\nnodes,gpus,gbs,step_time_s\n1,8,64,4\n2,16,128,4.05\n");
  };
  for (const char* words : {"ZeRO-1", "ZeRO-1 in groups of 8", "distributed optimizer", "SHARD_GRAD_OP"}) {
    const WorkFacts work = read_with(words).work;
    EXPECT_EQ(work.sharding, Sharding::kReplicated) << words;
    EXPECT_TRUE(work.holds_parameters) << words;
  }
  EXPECT_EQ(read_with("data parallel").work.sharding, Sharding::kFull) << "no device holds the model alone";
  for (const char* column : {"Zero1,8", "ZeRO stage,2"}) {
    const std::string name = std::string(column).substr(0, std::string(column).find(',')), value = column + name.size();
    const WorkFacts work = read(fmt::format("# GPT 7B, A100\nnodes,gpus,{0},gbs,step_time_s\n1,8{1},64,4\n"
                                            "2,16{1},128,4.05\n",
                                            name, value))
                               .work;
    EXPECT_TRUE(work.holds_parameters) << column;
  }
  const auto notes = [&](const std::string& words) { return core::join(read_with(words).notes, " "); };
  EXPECT_NE(notes("TP=4 PP=2 CP=2").find("2 context ranks share"), std::string::npos);
  EXPECT_EQ(notes("TP=4 PP=2 CP=1").find("context ranks"), std::string::npos);
  for (const char* words : {"TP=4 PP=2 EP=8", "TP=4 PP=2 MoE"})
    EXPECT_NE(notes(words).find("experts"), std::string::npos) << words;
  for (const char* words : {"FSDP + DP", "FSDP=128", "HSDP", "HSDP dp_shard=16"}) {
    const bool has_size = std::string(words).find('=') != std::string::npos;
    EXPECT_EQ(notes(words).find("sharded in groups whose size is not told") == std::string::npos, has_size) << words;
    EXPECT_EQ(read_with(words).work.sharding, Sharding::kFull) << words;
    EXPECT_TRUE(read_with(words).work.is_sharded_in_groups) << words;
  }
  EXPECT_EQ(read_with("FSDP=128").work.group_ranks, 128);
  EXPECT_EQ(read_with("HSDP dp_shard=16").work.group_ranks, 16);
  EXPECT_FALSE(read_with("FSDP").work.is_sharded_in_groups);
  const auto bubble = [&](const std::string& words) { return read_with(words).points[0].measured.size.bubble; };
  EXPECT_NEAR(bubble("TP=2 PP=2 CP=2 MBS=1") * 2, bubble("TP=2 PP=2 MBS=1"), 1e-12) << "twice the micro-batches";
}

// 56 billion parameters, of which eight experts have 48: two of them work on each token.
constexpr const char* kExpertTable =
    "# GPT 56B MoE on DGX H100, sequence length 4096\nnodes,gpus,tp,{},gbs,step_time_s\n2,16,2,{},64,4\n"
    "4,32,2,{},128,4.05\n";

TEST(TableSteps, ExpertsAndContextRanksHaveMessages) {
  const auto read_with = [](const std::string& columns, const std::string& first, const std::string& second) {
    return read(fmt::format(fmt::runtime(kExpertTable), columns, first, second));
  };
  const auto layers_s = [](const MeasuredCurve& curve, size_t row) {
    const Size& size = curve.points[row].measured.size;
    return size.layers_s + size.layers_wire_s;
  };
  const MeasuredCurve none = read_with("ep,cp,num_experts,top_k", "1,1,8,2", "1,1,8,2");
  EXPECT_EQ(layers_s(none, 0), 0);
  EXPECT_EQ(none.work.num_experts, 8);
  EXPECT_EQ(none.work.top_k, 2);
  EXPECT_NEAR(none.work.active(), 56e9 * (1 + 24 * 2.0 / 8) / 25, 1e6) << "a share of 1, and 3 for each expert";
  EXPECT_EQ(read_with("ep,active params (B)", "1,14", "1,14").work.active(), 14e9);
  EXPECT_EQ(read_with("ep,active params (B)", "1,14", "1,14").work.parameters, 56e9) << "not those of the column";

  const MeasuredCurve experts = read_with("ep,num_experts,top_k", "8,8,2", "8,8,2");
  const Size& size = experts.points[0].measured.size;
  EXPECT_EQ(size.expert_ranks, 8);
  EXPECT_GT(size.layers_s, 0);
  EXPECT_GT(size.layers_wire_s, 0) << "four of eight expert ranks share a node";
  EXPECT_EQ(layers_s(experts, 1), layers_s(experts, 0)) << "weak scaling";
  EXPECT_EQ(read_with("ep,num_experts", "4,8", "4,8").points[0].measured.size.layers_wire_s, 0);
  EXPECT_GT(layers_s(read_with("cp,seq_len", "8,4096", "8,4096"), 0), 0);

  const MeasuredCurve growing = read_with("ep,num_experts", "4,16", "16,16");
  EXPECT_EQ(growing.points[0].measured.size.expert_ranks, 4);
  EXPECT_EQ(growing.points[1].measured.size.expert_ranks, 16);
  EXPECT_GT(layers_s(growing, 1), layers_s(growing, 0)) << "more of them lie in other nodes";
}

TEST(TableSteps, WorkOfAModelWithExpertsIsThatOfItsActiveParameters) {
  const MeasuredCurve curve = read(
      "# Qwen3 235B-A22B, 8 GPUs a node, sequence length 4096\nGPUs,gbs,ep,TFLOP/s/GPU\n64,256,8,300\n"
      "128,512,8,295\n");
  EXPECT_NEAR(curve.points[0].measured.step_s * curve.clock_s, 4 * 6 * 22e9 * 4096 / 300e12, 1e-3);
}

TEST(TableSteps, LayoutsInNumbersPartTheCurves) {
  const auto curves = read_all(
      "# GPT 56B MoE\nnodes,gpus,ep,gbs,step_time_s\n2,16,4,64,4\n4,32,4,128,4.05\n2,16,8,64,5\n"
      "4,32,8,128,5.1\n");
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].work.ep, 4);
  EXPECT_EQ(curves[1].work.ep, 8);
}

TEST(TableSteps, OneExpertOrContextRankIsAsNone) {
  const std::string row = "\nnodes,gpus,gbs,step_time_s\n1,8,64,4\n2,16,128,4.05\n4,32,256,4.1\n";
  const MeasuredCurve plain = read("# GPT 7B, A100, TP=4" + row), one = read("# GPT 7B, A100, TP=4 EP=1 CP=1" + row);
  const auto forecast_of = [](const MeasuredCurve& curve) {
    return prediction_json(validate_curve(curve, 2).prediction);
  };
  EXPECT_EQ(forecast_of(plain).at("predicted"), forecast_of(one).at("predicted"));
}

TEST(TableSteps, ThroughputsAndSizesInOtherPlacesAreRead) {
  const auto sides = read_all(
      "GPUs,Mixed Precision Throughput,TF32 Throughput,Memory throughput,Throughput speedup\n1,100,50,9,2\n"
      "2,199,99,9,2\n");
  ASSERT_EQ(sides.size(), 2u);
  EXPECT_EQ(sides[1].name, "TF32 Throughput");
  const auto units = read_all(
      "GPUs;Throughput - FP32;Throughput - mixed;Throughput speedup\n1;432 img/s;1300 img/s;3.01x\n"
      "16;6500 img/s;17250 img/s;2.65x\n");
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].name, "Throughput - FP32");
  EXPECT_NEAR(units[0].points[1].measured.step_s / units[0].points[0].measured.step_s, 432 * 16 / 6500.0, 1e-9);
  const MeasuredCurve times = read("GPUs,gbs,Step time\n8,64,500 ms\n16,128,510 ms\n");
  EXPECT_NEAR(times.points[1].measured.step_s, 0.51, 1e-9);
  for (const char* size : {"Number of A100s", "# of H100s", "num V100s"})
    EXPECT_EQ(read(std::string(size) + ",images/s\n8,128\n16,254\n").points[1].measured.size.devices, 16) << size;
  const MeasuredCurve nodes = read("Hardware;TFLOP/sec/chip\n1x A3 (h100-80gb-8);492\n2x A3 (h100-80gb-8);422\n");
  EXPECT_EQ(nodes.size_name, "nodes");
  EXPECT_EQ(nodes.points[1].measured.size.nodes, 2);
  EXPECT_NE(core::join(nodes.notes, " ").find("Column 'Hardware' counts nodes: '1x A3 (h100-80gb-8)' was read as 1"),
            std::string::npos);
  EXPECT_EQ(read("Hardware,images/s\n8x A100,128\n16x A100,254\n").size_name, "GPUs");
  EXPECT_THROW(read_all("Hardware,images/s\n8x A100,128\n2x A3,254\n"), DataError);
}

TEST(TableSteps, CommasPartThousandsBesideDecimalPoints) {
  const MeasuredCurve curve = read("GPUs;img/s;Speed-up\n1;41,527;1.0\n2;77,625;1.87\n");
  EXPECT_NEAR(curve.rate_per_device / curve.points[0].measured.step_s, 41527, 1e-6);
  EXPECT_NE(core::join(curve.notes, " ").find("'41,527' was read as 41527"), std::string::npos);
  EXPECT_THROW(read("GPUs;img/s\n1;41,527\n2;77,625\n"), DataError) << "nothing says what a comma is";
  EXPECT_THROW(read("GPUs;img/s;Speed-up\n1;41,527;1,5\n2;77,625;1.87\n"), DataError);
}

TEST(TableSteps, SettingsInNumbersPartTheCurves) {
  const auto models = read_all(
      "Parameters (billion),gbs,GPUs,TFLOPs\n175,1536,384,153\n175,1536,768,149\n530,2240,560,171\n"
      "530,2240,1120,167\n");
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].points.size(), 2u);
  EXPECT_NEAR(models[1].work.parameters.value_or(0), 530e9, 1);
  EXPECT_NE(models[1].name.find("530"), std::string::npos) << models[1].name;
  const auto lengths = read_all(
      "nodes,Sequence Length,gbs,samples/s\n1,128,4096,3000\n4,128,4096,12000\n1,512,4096,580\n4,512,4096,2300\n");
  ASSERT_EQ(lengths.size(), 2u);
  EXPECT_EQ(lengths[0].points.size(), 2u);
}

// Programs or models side by side: no column is taken for all.
TEST(TableSteps, RatesSideBySideAreACurveEach) {
  const auto curves = read_all(
      "# V100, 8 GPUs a node\nnodes,gpus,ResNet-50 (img/s),BERT-base "
      "(seq/s),hours\n1,8,2970,1160,9\n2,16,5900,2260,5\n");
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].name, "ResNet-50 (img/s)");
  EXPECT_EQ(curves[0].work.model.substr(0, 9), "ResNet-50");
  EXPECT_NEAR(curves[1].work.parameters.value_or(0), 110e6, 1);
  EXPECT_NEAR(curves[0].points[1].measured.step_s / curves[0].points[0].measured.step_s, 2 * 2970.0 / 5900, 1e-9);
  EXPECT_NEAR(curves[1].points[1].measured.step_s / curves[1].points[0].measured.step_s, 2 * 1160.0 / 2260, 1e-9);
  const auto plain = read_all(
      "nodes,Throughput - FP16,Throughput - FP32,Throughput speedup (FP32 to FP16)\n1,300,100,3\n2,580,195,2.97\n");
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_EQ(plain[1].name, "Throughput - FP32");
  try {
    read_all("#GPUs,alexnet,vgg\n1,457,30\n2,870,59\n");
    FAIL() << "columns without a unit are no rates";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("side by side"), std::string::npos) << error.text();
  }
}

TEST(TableSteps, ASchemeThatRowsNameIsTheirsAlone) {
  const auto curves = read_all(
      "# ZeRO-3 against three-dimensional parallelism, GPT 175B\nScheme,model-parallel size,gbs,GPUs,TFLOPs\n"
      "ZeRO-3,1,1536,384,144\nZeRO-3,1,1536,768,88\nPTD,96,1536,384,153\nPTD,96,1536,768,149\n");
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].work.sharding, Sharding::kFull);
  EXPECT_EQ(curves[1].work.sharding, Sharding::kReplicated);
  EXPECT_EQ(curves[1].work.tp, 8);
  EXPECT_EQ(curves[1].work.pp, 12);
}

// TFLOP/s tell no seconds of themselves, but that says nothing of the batch.
TEST(TableSteps, NotesDoNotCallAToldBatchUnknown) {
  const auto notes = [](const std::string& text) { return core::join(read(text).notes, " "); };
  const std::string told = notes("# GPT 1.3B, 8 GPUs a node\nGPUs,gbs,TFLOPs\n8,256,140\n16,512,138\n");
  EXPECT_EQ(told.find("batch of a device is not known"), std::string::npos) << told;
  EXPECT_NE(notes("# GPT 1.3B, 8 GPUs a node\nGPUs,TFLOPs\n8,140\n16,138\n").find("batch of a device is not known"),
            std::string::npos);
}

TEST(TableSteps, TflopsOfAModelTellSecondsByItsFlops) {
  // 6 x 1.3e9 x 2048 FLOP a sample over 140 TFLOP/s, 32 samples a device.
  const MeasuredCurve curve = read("# GPT 1.3B, 8 GPUs a node\nGPUs,gbs,TFLOP/s/GPU\n8,256,140\n16,512,139\n");
  EXPECT_NEAR(curve.points[0].measured.step_s * curve.clock_s, 32 * 6 * 1.3e9 * 2048 / 140e12, 1e-3);
}

TEST(TableSteps, HeadersOfTimesAreNoRatesOfSteps) {
  struct Case {
    const char* header;
    double first_s;  // of a field of 500
  };
  for (const Case& one :
       {Case{"Iteration (s)", 500}, Case{"Iteration (ms)", 0.5}, Case{"iter_ms", 0.5}, Case{"avg step (s)", 500},
        Case{"Train step (ms)", 0.5}, Case{"Per iteration (s)", 500}, Case{"ms/iter", 0.5},
        Case{"Minutes per step", 30000}, Case{"steps/s", 1 / 500.0}, Case{"Training speed (it/s)", 1 / 500.0}}) {
    const MeasuredCurve curve =
        read(fmt::format("# weak scaling, 8 GPUs a node\nGPUs,{}\n8,500\n16,520\n", one.header));
    EXPECT_TRUE(curve.has_seconds) << one.header;
    EXPECT_NEAR(curve.points[0].measured.step_s, one.first_s, 1e-9 * one.first_s) << one.header;
  }
  for (const char* header : {"it_s", "Iterations (s)"}) {
    try {
      read(fmt::format("GPUs,{}\n8,1.5\n16,1.4\n", header));
      ADD_FAILURE() << header;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("column '{}': the time of a step or", header)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(TableSteps, TimesOfASampleAreThoseOfAllDevices) {
  const MeasuredCurve curve =
      read("# ResNet-50, 8 GPUs a node\nGPUs,Global batch,Image (ms)\n8,256,0.4\n16,512,0.21\n");
  EXPECT_TRUE(curve.has_seconds);
  EXPECT_NEAR(curve.points[0].measured.step_s, 256 * 0.4e-3, 1e-9);
  EXPECT_NEAR(curve.points[1].measured.step_s, 512 * 0.21e-3, 1e-9);
}

TEST(TableSteps, StepsThatFallOverruleABatchOfNobody) {
  for (const char* header : {"batch_size", "bs", "mini-batch", "train_batch_size"}) {
    const std::string text =
        fmt::format("nodes,gpus,{},step time (s)\n2,8,1024,3.1\n4,16,1024,1.6\n8,32,1024,0.85\n", header);
    const MeasuredCurve curve = read(text);
    EXPECT_TRUE(curve.is_strong) << header;
    EXPECT_DOUBLE_EQ(curve.points[2].measured.size.work, 0.25) << header;
    EXPECT_NE(core::join(curve.notes, " ").find("was taken for the batch of all devices (--scaling weak"),
              std::string::npos)
        << header;
    EXPECT_FALSE(read(text, {.is_strong = false}).is_strong) << header;
  }
  const MeasuredCurve proven = read("nodes,gpus,batch_size,step_time_s,img/s\n2,8,1024,3.1,330\n4,16,1024,2.9,353\n");
  EXPECT_TRUE(proven.is_strong) << "1024 samples a step of all devices";
  const MeasuredCurve whole = read("nodes,gpus,total batch size,time (s)\n1,8,512,90\n2,16,1024,46\n4,32,2048,24\n");
  EXPECT_NEAR(whole.points[2].measured.step_s / whole.points[0].measured.step_s, 24.0 * 4 / 90, 1e-9);
  EXPECT_NE(core::join(whole.notes, " ").find("time of work that stays"), std::string::npos);
  EXPECT_NE(
      core::join(read("GPUs,batch per GPU,step time (s)\n8,32,1\n16,32,0.5\n").notes, " ").find("--scaling strong"),
      std::string::npos);
}

TEST(TableSteps, BatchesInOtherUnitsAndOwnersAreRead) {
  const MeasuredCurve tokens =
      read("# 8 GPUs a node\nGPUs,Global batch size (M tokens),tokens/s/GPU\n64,0.5,3800\n128,1,3700\n");
  EXPECT_NEAR(tokens.points[0].measured.step_s, 0.5e6 / 64 / 3800, 1e-9);
  for (const char* header : {"Batch (global)", "global batch (sequences)", "samples/step"})
    EXPECT_TRUE(read(fmt::format("# 8 GPUs a node\nGPUs,{},images/s\n8,256,2485\n16,256,4923\n", header)).is_strong)
        << header;
  for (const char* header : {"per_device_train_batch_size", "batch size per worker", "samples/GPU"}) {
    const MeasuredCurve curve = read(fmt::format("# 8 GPUs a node\nGPUs,{},images/s\n8,32,2485\n16,32,4923\n", header));
    EXPECT_NEAR(curve.points[0].measured.step_s, 256 / 2485.0, 1e-9) << header;
  }
  const MeasuredCurve of_node = read("nodes,gpus,Batch per node,images/s\n1,8,256,2485\n2,16,256,4923\n");
  EXPECT_NEAR(of_node.points[1].measured.step_s, 512 / 4923.0, 1e-9);
  EXPECT_FALSE(of_node.is_strong);
}

TEST(TableSteps, ColumnsThatNobodyKnowsAreNamed) {
  const auto notes = [](const std::string& text) { return core::join(read(text).notes, " "); };
  EXPECT_NE(notes("nodes,foo,total batch of GPUs,it_s,step_time_s\n1,3,64,1,1\n2,4,128,1,1.02\n")
                .find("columns 'foo', 'total batch of GPUs', 'it_s'"),
            std::string::npos);
  EXPECT_EQ(notes("nodes,gpus,global_batch,step_time_s,efficiency,mfu\n1,8,64,1,1,0.4\n2,16,128,1.02,0.98,0.39\n")
                .find("Not read"),
            std::string::npos);
}

TEST(TableSteps, RatesThatDoNotGrowAreThoseOfADevice) {
  const MeasuredCurve curve = read("# GPT 13B, 8 GPUs a node\nGPUs,tokens/s\n8,9100\n16,9020\n32,8930\n64,8850\n");
  EXPECT_NEAR(curve.points[3].measured.step_s / curve.points[0].measured.step_s, 9100.0 / 8850, 1e-9);
  EXPECT_NE(core::join(curve.notes, " ")
                .find("'tokens/s' hardly changes (9100 to 8850) while the devices grow from 8 "
                      "to 64: it was read as the rate of one device"),
            std::string::npos);
  const MeasuredCurve total = read("# 8 GPUs a node\nGPUs,total tokens/s\n8,9100\n16,9020\n");
  EXPECT_NEAR(total.points[1].measured.step_s / total.points[0].measured.step_s, 2 * 9100.0 / 9020, 1e-9);
  EXPECT_NE(core::join(total.notes, " ").find("is it the rate of one device"), std::string::npos);
  const MeasuredCurve saturating = read("nodes,images/s\n1,2400\n2,4700\n4,8000\n8,9000\n16,9100\n");
  EXPECT_EQ(core::join(saturating.notes, " ").find("hardly changes"), std::string::npos);
  TableRequest request;
  request.largest_known = 8;  // the rows above decide nothing
  EXPECT_EQ(core::join(read("# 8 GPUs a node\nGPUs,tokens/s\n8,9100\n16,9020\n", request).notes, " ").find("hardly"),
            std::string::npos);
}

TEST(TableSteps, SizesThatContradictAreNoted) {
  const auto notes = [](const std::string& text) { return core::join(read(text).notes, " "); };
  EXPECT_NE(notes("nodes,gpus,samples_per_s\n1,8,640\n2,16,1250\n4,64,2438\n")
                .find("The nodes differ: 8 devices each at nodes 1 (line 2), 16 at 4 (line 4)"),
            std::string::npos);
  EXPECT_EQ(notes("nodes,gpus,samples_per_s\n1,1,90\n1,4,330\n1,8,640\n2,16,1250\n").find("differ"), std::string::npos);
  const MeasuredCurve of_node = read("nodes,gpus,samples_per_s\n1,8,640\n2,8,1250\n4,8,2438\n");
  EXPECT_DOUBLE_EQ(of_node.points[2].measured.size.devices, 32);
  EXPECT_NE(core::join(of_node.notes, " ").find("'gpus' is 8 at every number of nodes"), std::string::npos);
  const MeasuredCurve placed = read("nodes,gpus,samples_per_s\n1,8,640\n2,8,630\n4,8,600\n");
  EXPECT_DOUBLE_EQ(placed.points[2].measured.size.devices, 8) << "as many devices on more nodes";
}

TEST(TableSteps, SizesAndUtilisationInOtherWordsAreRead) {
  for (const char* text :
       {"DP,TP,PP,step_time_s\n2,2,2,1\n4,2,2,1.02\n", "H100s,images/s\n8,100\n16,196\n",
        "images/s,# A100\n100,8\n196,16\n", "# A100,images/s\n8,100\n16,196\n",
        "# a title\n# A100;images/s\n8;100\n16;196\n", "GPUs used,FPS\n8,100\n16,196\n", "Workers,wps\n8,100\n16,196\n",
        "GPUs,TPS/GPU\n8,100\n16,98\n", "GPUs,HFU\n8,50\n16,49\n", "GPUs,Model FLOPS utilization\n8,50\n16,49\n",
        "GPUs,time/epoch\n8,500\n16,255\n", "GPUs,days\n8,50\n16,25.5\n"}) {
    const MeasuredCurve curve = read(text);
    EXPECT_DOUBLE_EQ(curve.points[0].measured.size.devices, 8) << text;
    const Measured &first = curve.points[0].measured, &last = curve.points[1].measured;
    EXPECT_NEAR(last.step_s / last.size.work / (first.step_s / first.size.work), 1.02, 0.001) << text;
  }
  const MeasuredCurve units = read("nodes,step_time_ms\n1,1010\n2,1020 ms\n4,1040\n");
  EXPECT_NEAR(units.points[1].measured.step_s, 1.02, 1e-9);
  try {
    read("nodes,step time\n1,1.01\n2,1020 ms\n");
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("line 3, column 'step time': '1020 ms'"), std::string::npos)
        << error.what();
  }
}

TEST(TableSteps, NamesOfSystemsWithTheirSizeAreOneCurve) {
  const MeasuredCurve curve =
      read("ID,Nodes,System,samples/s\n2.0-1,1,dgxa100_n1,100\n2.0-2,2,dgxa100_n2,190\n2.0-3,4,dgxa100_n4,370\n");
  EXPECT_EQ(curve.points.size(), 3u);
  EXPECT_NE(core::join(curve.notes, " ").find("do not come back at other sizes"), std::string::npos);
}

TEST(TableSteps, StepsThatFallAreStrongScaling) {
  const std::string text = "# 8 GPUs a node\nGPUs,step time (s)\n8,1\n16,0.52\n32,0.28\n";
  const MeasuredCurve curve = read(text);
  EXPECT_TRUE(curve.is_strong);
  EXPECT_DOUBLE_EQ(curve.points[2].measured.size.work, 0.25);
  EXPECT_NE(curve.notes.front().find("strong scaling is taken"), std::string::npos);
  EXPECT_FALSE(read(text, {.is_strong = false}).is_strong);
}

TEST(TableSteps, WholeTimesThatFallAreStrongScalingAndOthersWeak) {
  const auto source = [](const MeasuredCurve& curve) {
    const auto fact = std::find_if(curve.work.facts.begin(), curve.work.facts.end(),
                                   [](const KnownFact& one) { return one.name == "scaling"; });
    return fact == curve.work.facts.end() ? std::string() : fact->value + ", " + fact->source;
  };
  for (const char* header : {"nodes,walltime_s", "nodes,time", "Nodes,Seconds", "nodes,LAMMPS (s)", "cores,time (s)"}) {
    const std::string falling = header + std::string("\n1,3600\n2,1840\n4,960\n");
    const MeasuredCurve strong = read(falling);
    EXPECT_TRUE(strong.is_strong) << header;
    EXPECT_DOUBLE_EQ(strong.points[2].measured.size.work, 0.25) << header;
    EXPECT_NEAR(strong.points[2].measured.step_s / strong.points[0].measured.step_s, 960.0 / 3600, 1e-9) << header;
    EXPECT_NE(core::join(strong.notes, " ").find("strong scaling is taken"), std::string::npos) << header;
    EXPECT_EQ(source(strong), "strong, assumed: the times fall as the devices grow");
    EXPECT_EQ(source(read(falling, {.is_strong = false})), "weak, --scaling");
    const MeasuredCurve weak = read(header + std::string("\n1,100\n2,101\n4,104\n"));
    EXPECT_FALSE(weak.is_strong) << header;
    EXPECT_DOUBLE_EQ(weak.points[2].measured.size.work, 1) << header;
    EXPECT_NEAR(weak.points[2].measured.step_s / weak.points[0].measured.step_s, 1.04, 1e-9) << header;
    EXPECT_EQ(source(weak), "weak, assumed: the times do not fall as the devices grow");
  }
  EXPECT_EQ(source(read("# strong scaling\nnodes,walltime_s\n1,3600\n2,1840\n")), "strong, words of the table");
  EXPECT_FALSE(read("nodes,time per epoch (s)\n1,3600\n2,1840\n").is_strong) << "the batch of a device may stay";
}

TEST(TableSteps, WholeTimesArePredictedAsTimesInTheirUnit) {
  const auto times_at_16 = [](const std::string& text) {
    const MeasuredCurve curve = read(text);
    const CurvePrediction prediction = predict_curve(curve, {}, {{16, size_of(curve, 16)}});
    const core::Json json = prediction_json(prediction);
    EXPECT_TRUE(json.contains("scaling") && json.contains("scaling_source"));
    return json.at("predicted").at(0).at("time").at("p50").get<double>();
  };
  const double strong = times_at_16("nodes,walltime_s\n1,3600\n2,1840\n4,960\n8,520\n"),
               weak = times_at_16("nodes,walltime_s\n1,100\n2,101\n4,102\n8,103\n");
  EXPECT_GT(strong, 3600.0 / 16);
  EXPECT_LT(strong, 420);
  EXPECT_NEAR(weak, 104, 2);
}

TEST(TableSteps, TokensOfABatchThatStaysAreStrongScaling) {
  const MeasuredCurve curve = read("# GPT 1.3B, 8 GPUs a node\nGPUs,gbs,tokens/s\n8,512,100000\n16,512,195000\n");
  EXPECT_TRUE(curve.is_strong);
  EXPECT_DOUBLE_EQ(curve.points[1].measured.size.work, 0.5);
}

TEST(TableSteps, ABatchWithoutAnOwnerIsToldByItsValues) {
  const auto work = [](const std::string& first, const std::string& rows) {
    return read(first + "\nGPUs,batch size,TFLOPs\n" + rows).points.at(1).measured.size.work;
  };
  EXPECT_DOUBLE_EQ(work("# ResNet-50", "8,256,10\n16,256,9.8\n"), 1);      // of a device
  EXPECT_DOUBLE_EQ(work("# GPT 175B", "8,1536,140\n16,1536,138\n"), 0.5);  // of all: no device has so many sequences
  EXPECT_DOUBLE_EQ(work("# GPT 175B", "8,512,140\n32,1024,138\n"), 0.5);   // of all: it differs
}

TEST(TableSteps, AModelThatNoDeviceHoldsHasALayout) {
  const WorkFacts large = read("# GPT 175B, 8 GPUs a node\nGPUs,gbs,TFLOPs\n128,1536,140\n256,1536,137\n").work;
  EXPECT_EQ(large.tp, 8);
  EXPECT_EQ(large.pp, 16);
  EXPECT_EQ(large.sharding, Sharding::kReplicated);
  const WorkFacts few = read("# GPT 175B, 8 GPUs a node\nGPUs,gbs,TFLOPs\n64,1536,140\n256,1536,137\n").work;
  EXPECT_EQ(few.tp * few.pp, 64);  // no more than the smallest size has
  const WorkFacts middling = read("# GPT 7B, 8 GPUs a node\nGPUs,gbs,TFLOPs\n16,256,140\n32,512,137\n").work;
  EXPECT_EQ(middling.sharding, Sharding::kFull);
  const WorkFacts small = read("# GPT 1.3B, 8 GPUs a node\nGPUs,gbs,TFLOPs\n16,256,140\n32,512,137\n").work;
  EXPECT_EQ(small.sharding, Sharding::kReplicated);
  EXPECT_EQ(small.tp * small.pp, 1);
}

TEST(TableSteps, ClocksThatAreNoStepsSayWhatTheyCount) {
  EXPECT_EQ(clock_name(read("nodes,samples/s\n1,100\n2,190\n")), "device seconds per sample");
  EXPECT_EQ(clock_name(read("gpus,tokens/s/GPU\n8,900\n16,890\n")), "device seconds per token");
  EXPECT_EQ(clock_name(read("nodes,speedup\n1,1\n2,1.9\n")), "relative time");
  EXPECT_EQ(clock_name(read("nodes,step_time_s\n1,0.5\n2,0.51\n")), "step (s)");
}

// The flag wins, and a note tells both.
TEST(TableSteps, FlagsThatTheTableContradictsAreNoted) {
  const auto notes = [](const char* text, const TableRequest& request) {
    return core::join(read(text, request).notes, " ");
  };
  const char* table = "# JUPITER, weak scaling, 4 GPUs a node, batch 64/GPU\nnodes,samples/s\n1,100\n2,195\n";
  const MeasuredCurve plain = read(table);
  EXPECT_EQ(core::join(plain.notes, " ").find(" wins over "), std::string::npos);
  EXPECT_NE(notes(table, {.devices_per_node = 8})
                .find("--devices-per-node 8 wins over the table (comments of the table), "
                      "which has 4"),
            std::string::npos);
  EXPECT_EQ(notes(table, {.devices_per_node = 4}).find("--devices-per-node"), std::string::npos);
  EXPECT_NE(notes(table, {.machine = find_machine("alps")})
                .find("--system 'Alps' wins over the table, which names "
                      "'JUPITER Booster'"),
            std::string::npos);
  EXPECT_EQ(notes(table, {.machine = find_machine("jupiter")}).find("--system"), std::string::npos);
  EXPECT_NE(notes(table, {.local_batch = 128}).find("--samples-per-device 128 wins over the table, which tells 64"),
            std::string::npos)
      << notes(table, {.local_batch = 128});
  EXPECT_EQ(notes(table, {.local_batch = 64}).find("--samples-per-device"), std::string::npos);
  EXPECT_NE(notes("# weak scaling\nnodes,walltime_s\n1,800\n2,410\n", {.is_strong = true})
                .find("--scaling strong wins over the words of the table, which say weak"),
            std::string::npos);
  EXPECT_NE(notes("nodes,gpus,global_batch,step_time_s\n1,8,64,1\n2,16,128,1.01\n", {.is_strong = true})
                .find("--scaling strong is not used"),
            std::string::npos);
}

TEST(TableSteps, ColumnsThatContradictEachOtherAreNoted) {
  const std::string notes = core::join(
      read("nodes,gpus,global_batch,img/s,step_time_s\n1,8,1024,2000,0.512\n2,16,2048,3900,0.7\n").notes, " ");
  EXPECT_NE(notes.find("'global_batch' 2048 and 'img/s' 3900 give 0.5251 s"), std::string::npos) << notes;
  EXPECT_NE(notes.find("Steps were taken from column 'step_time_s'"), std::string::npos) << notes;
}

// Table 1 of the Megatron-LM paper: a model grows with the devices, and what one row lost says nothing of the next.
TEST(TableSteps, RowsOfDifferentModelsAreCurvesOfTheirOwn) {
  for (const char* text : {"Params (billion),GPUs,gbs,TFLOPs\n2,32,512,140\n4,64,512,138\n16,128,512,136\n",
                           "Hidden size,GPUs,gbs,TFLOPs\n2304,32,512,140\n3072,64,512,138\n4096,128,512,136\n",
                           "Model size,GPUs,gbs,TFLOPs\n2B,32,512,140\n4B,64,512,138\n16B,128,512,136\n"}) {
    const auto curves = read_all(text);
    ASSERT_EQ(curves.size(), 3u) << text;
    EXPECT_EQ(curves[1].points.size(), 1u) << text;
    EXPECT_NE(core::join(curves[0].notes, " ").find("rows of different models are no curve"), std::string::npos)
        << text;
  }
  const auto padded = read("NumParams,GPUs,gbs,TFLOPs\n1315950592,8,512,140\n1316212736,16,512,138\n");
  EXPECT_EQ(padded.points.size(), 2u) << "a vocabulary that is padded for the layout";
  EXPECT_EQ(read("params per GPU (B),GPUs,gbs,TFLOPs\n2,8,512,140\n1,16,512,138\n").points.size(), 2u);
}

TEST(TableSteps, ParametersInBillionsAreRead) {
  const MeasuredCurve curve =
      read("Parameters (billion),GPUs,GlobalBatchSize,Throughput (T/s)\n7,8,48,29000\n7,16,96,57000\n");
  EXPECT_EQ(curve.work.parameters, 7e9);
  EXPECT_EQ(curve.points[1].measured.size.work, 1);
  WorkFacts facts;
  ASSERT_TRUE(take_model("llama-7b, 8 GPUs", "here", facts));
  EXPECT_EQ(facts.parameters, 7e9);
}

// A rate that no device reaches with sequences of usual length: nothing is assumed of its batch.
TEST(TableSteps, AssumptionsThatCannotBeAreNotMade) {
  EXPECT_GT(read("# GPT 1.3B\nnodes,gpus,samples/s\n1,8,80\n2,16,159\n").clock_s, 0);
  EXPECT_EQ(read("# GPT 1.3B\nnodes,gpus,samples/s\n1,8,80000\n2,16,159000\n").clock_s, 0);
  EXPECT_EQ(read("nodes,gpus,samples/s\n1,8,80\n2,16,159\n").clock_s, 0);
}

TEST(TableSteps, RatesAreCountedAsTheirColumnCountsThem) {
  const MeasuredCurve tokens =
      read("# GPT 1.3B\nnodes,tokens_per_s,global_batch,sequence_length\n1,11200,4,8192\n2,22050,8,8192\n");
  ASSERT_TRUE(tokens.has_seconds);
  for (const CurvePoint& point : tokens.points)
    EXPECT_NEAR(tokens.rate_per_device * point.measured.size.devices / point.measured.step_s,
                point.size == 1 ? 11200 : 22050, 1e-6);
  EXPECT_EQ(tokens.rate_unit, "tokens/s");
  EXPECT_EQ(read("nodes,gpus,step_time_s,global_batch\n1,4,3.6,64\n2,8,3.7,128\n").rate_unit, "samples/s");
  EXPECT_EQ(read("nodes,gpus,step_time_s\n1,4,3.6\n2,8,3.7\n").rate_unit, "") << "no batch is told";
}

TEST(TableSteps, TokensOfABatchAreNoModel) {
  const MeasuredCurve curve =
      read("# Llama 3 405B, H100\nGPUs,TP,PP,Tokens/Batch,TFLOPs/GPU\n8192,8,16,16M,430\n16384,8,16,16M,400\n");
  EXPECT_NEAR(curve.work.parameters.value_or(0), 405e9, 5e9);
  EXPECT_NEAR(curve.points[1].measured.size.work, 0.5, 1e-9) << "a batch of 16 M tokens stays";
}

TEST(TableSteps, RowsOfSeveralBatchesKeepTheirOwn) {
  const MeasuredCurve curve = read("gpus,step_time_s,global_batch\n8,3.08,128\n16,3.09,256\n32,3.14,512\n64,0.8,256\n");
  EXPECT_FALSE(curve.is_strong);
  ASSERT_FALSE(curve.notes.empty());
  EXPECT_NE(curve.notes.back().find("neither weak nor strong"), std::string::npos);
  EXPECT_DOUBLE_EQ(size_of(curve, 32).work, 1);
  EXPECT_DOUBLE_EQ(size_of(curve, 64).work, 0.25);
  EXPECT_DOUBLE_EQ(size_of(curve, 128).work, 0.25);
}

TEST(TableSteps, ShardedParametersTravelWithEveryMicroBatch) {
  const MeasuredCurve curve =
      read("# gpt3-1.3b, FSDP, MBS=4\nnodes,gpus,global_batch,step_time_s\n1,8,256,4\n2,16,256,2.1\n4,32,256,1.1\n");
  EXPECT_EQ(curve.points[0].measured.size.traffic, 8);
  EXPECT_EQ(curve.points[2].measured.size.traffic, 2);
}

// The same curve with its batch in a column and in the words above it.
TEST(TableSteps, BatchesInWordsCountLikeColumns) {
  const std::string rows[] = {"384,153\n768,149\n1536,141\n", "384,1536,153\n768,1536,149\n1536,1536,141\n"};
  const std::string model = "# GPT-3 175B, TP=8 PP=12, A100 80GB, 8 GPUs a node, sequence length 2048";
  const MeasuredCurve told = read(model + ", global batch size 1536, micro-batch 1\ngpus,tflops_per_gpu\n" + rows[0]);
  const MeasuredCurve column = read(model + " MBS=1\ngpus,global_batch,tflops_per_gpu\n" + rows[1]);
  ASSERT_EQ(told.points.size(), column.points.size());
  EXPECT_EQ(told.is_strong, column.is_strong);
  EXPECT_DOUBLE_EQ(told.clock_s, column.clock_s);
  for (size_t i = 0; i < told.points.size(); ++i) {
    EXPECT_DOUBLE_EQ(told.points[i].measured.step_s, column.points[i].measured.step_s) << i;
    EXPECT_DOUBLE_EQ(told.points[i].measured.size.work, column.points[i].measured.size.work) << i;
    EXPECT_DOUBLE_EQ(told.points[i].measured.size.bubble, column.points[i].measured.size.bubble) << i;
  }
  EXPECT_DOUBLE_EQ(told.points[2].measured.size.bubble, 11.0 / 96);
}

TEST(TableSteps, ColumnsWinOverWords) {
  const MeasuredCurve curve =
      read("# gpt3-1.3b, global batch size 64\nnodes,gpus,global_batch,step_time_s\n1,8,256,4\n2,16,512,4.1\n");
  EXPECT_FALSE(curve.is_strong);
  EXPECT_EQ(curve.work.local_batch, 32);
}

TEST(TableSteps, ABatchOfAllDevicesIsNotThatOfWeakScaling) {
  const MeasuredCurve curve =
      read("# gpt3-1.3b, weak scaling from global batch 64 on\nnodes,gpus,samples/s\n1,8,80\n2,16,159\n");
  EXPECT_FALSE(curve.is_strong);
  EXPECT_FALSE(curve.has_seconds);
}

TEST(TableSteps, ABatchThatCannotBeOfAllDevicesIsNotShared) {
  const auto local = [](const std::string& words) {
    const MeasuredCurve curve = read("# ResNet-50, " + words + "\nnodes,gpus,images/s\n8,64,80000\n16,128,150000\n");
    return curve.has_seconds ? curve.work.local_batch : std::nullopt;
  };
  EXPECT_EQ(local("batch size 256"), 256);
  EXPECT_EQ(local("batch size 8192"), 128);  // no device holds so many
  EXPECT_EQ(local("strong scaling, batch size 8192"), 128);
  EXPECT_EQ(local("strong scaling, batch size 32"), std::nullopt);
}

TEST(TableSteps, TheShareOfThePeakTellsSeconds) {
  const MeasuredCurve curve =
      read("# gpt3-1.3b, H100, global batch 256, sequence length 2048\nnodes,gpus,mfu_pct\n1,8,40\n2,16,39\n");
  const double flops = 32 * 6 * *curve.work.parameters * 2048, rate = 0.4 * 989.4e12;
  const CurvePoint& first = curve.points.front();
  EXPECT_NEAR(first.measured.step_s * curve.clock_s, flops / rate, 1e-3 * flops / rate);
}

// A training of hours tells nothing of the step; how much gradients weigh follows from model, device and batch.
TEST(TableSteps, TimesOfATrainingTakeTheUsualRateOfTheModel) {
  const MeasuredCurve curve =
      read("# BERT-large, V100, global batch 65536, sequence length 128\ngpus,time (hours)\n64,8.7\n256,2.4\n");
  const double step = curve.points.front().measured.step_s * curve.clock_s;
  EXPECT_NEAR(step, 1024 * 6 * 336e6 * 128 / (0.4 * 125e12), 0.01 * step);
  EXPECT_FALSE(curve.has_seconds);
}

TEST(TableSteps, DevicesAndNetworksAreReadFromWords) {
  const MeasuredCurve known = read("# gpt3-1.3b, A100-80GB\nnodes,gpus,samples/s\n1,4,80\n2,8,159\n");
  ASSERT_TRUE(known.machine);
  EXPECT_EQ(known.machine->node_gbytes_per_s.value, 100);  // 25 GB/s of each device
  const MeasuredCurve told = read("# gpt3-1.3b, A100-80GB, 2x HDR\nnodes,gpus,samples/s\n1,4,80\n2,8,159\n");
  EXPECT_EQ(told.machine->node_gbytes_per_s.value, 50);
  const MeasuredCurve system = read("# gpt3-1.3b, H100, MareNostrum 5\nnodes,gpus,samples/s\n1,4,80\n2,8,159\n");
  EXPECT_EQ(system.machine->name, "MareNostrum 5 ACC");
  EXPECT_FALSE(read("# gpt3-1.3b\nnodes,gpus,samples/s\n1,4,80\n2,8,159\n").machine);
}

// "GPT 340B" is no gpt3-40b.
TEST(WorkFacts, NumbersAreNotCutOutOfOthers) {
  WorkFacts facts;
  ASSERT_TRUE(take_model("GPT 340B TP=8", "here", facts));
  EXPECT_EQ(facts.parameters, 340e9);
}

TEST(WorkFacts, AFamilysNameDoesNotHideTheSize) {
  const auto parameters = [](const char* text) {
    WorkFacts facts;
    EXPECT_TRUE(take_model(text, "here", facts)) << text;
    return facts.parameters.value_or(0);
  };
  EXPECT_DOUBLE_EQ(parameters("GPT-2 8.3B"), 8.3e9);
  EXPECT_DOUBLE_EQ(parameters("BERT 3.9B"), 3.9e9);
  EXPECT_NEAR(parameters("GPT-2, 300B tokens"), 124e6, 1e6);
  EXPECT_EQ(parameters("ResNet-101"), 44.549e6);
}

// Networks of pictures are no language models: their usual batch is that of pictures.
TEST(TableSteps, NetworksOfPicturesAreNoLanguageModels) {
  for (const char* model : {"VGG-16", "Inception v3", "AlexNet", "ResNet-50"}) {
    const MeasuredCurve curve = read(fmt::format("# {}, P100, 4 GPUs a node\ngpus,images/s\n4,500\n8,980\n", model));
    EXPECT_EQ(curve.assumed_samples, 128) << model;
  }
}

}  // namespace
}  // namespace lockstep::predict
