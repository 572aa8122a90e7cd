#include "models/weights.h"

#include <ATen/ops/zeros.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "core/env.h"
#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "models/weights_pt.h"
#include "support/error_text.h"
#include "support/file_size_limit.h"
#include "support/ranks/run_ranks.h"
#include "support/tensor_golden.h"
#include "support/tiny_towers.h"

namespace lockstep::models {
namespace {

using tests::load_golden;
using tests::message_of;
using tests::TinyTowers;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "pt" / name;
}

void expect_golden(TinyTowers& towers) {
  const auto expected = load_golden("pt/expected.safetensors");
  const auto values = named_values(towers);
  ASSERT_EQ(values.size(), expected.size());
  for (const auto& [name, tensor] : values) EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
}

TEST(Weights, EveryFileOfPythonGivesTheSameModel) {
  for (const char* name :
       {"expected.safetensors", "state_dict.pt", "openclip_ddp.pt", "custom_text.pt", "torchvision_training.pt"}) {
    SCOPED_TRACE(name);
    TinyTowers towers;
    load_weights(towers, read_weights(golden(name)));
    expect_golden(towers);
  }
}

TEST(Weights, NamesWhatItLeftOut) {
  EXPECT_EQ(read_weights(golden("openclip_ddp.pt")).epoch, 3);
  EXPECT_EQ(read_weights(golden("custom_text.pt")).ignored,
            (std::vector<std::string>{"note", "transformer.embeddings.position_ids"}));
}

TEST(Weights, TypesAndViewsOfPyTorch) {
  std::map<std::string, at::Tensor> got;
  for (const auto& [name, tensor] : read_pt_state_dict(golden("types.pt")).tensors) got.emplace(name, tensor);
  const auto base = at::arange(24, at::kFloat);
  EXPECT_TRUE(got.at("f32").equal(base.narrow(0, 0, 6).reshape({2, 3})));
  EXPECT_TRUE(got.at("view").equal(base.reshape({4, 6}).narrow(1, 1, 2)));
  EXPECT_TRUE(got.at("transposed").equal(base.narrow(0, 0, 12).reshape({3, 4}).t()));
  EXPECT_TRUE(got.at("bf16").equal(at::tensor({1.5, -2.0}, at::kFloat).to(at::kBFloat16)));
  EXPECT_TRUE(got.at("f16").equal(at::full({1}, 0.25, at::kHalf)));
  EXPECT_EQ(got.at("f64").item<double>(), 1e300);
  EXPECT_EQ(got.at("i64")[0].item<int64_t>(), -(int64_t{1} << 62));
  EXPECT_EQ(got.at("i32")[0].item<int>(), -5);
  EXPECT_EQ(got.at("u8")[0].item<int>(), 200);
  EXPECT_TRUE(got.at("bool")[0].item<bool>());
  EXPECT_EQ(got.at("empty").sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(got.at("parameter").equal(base.narrow(0, 0, 2)));
}

TEST(Weights, RoundTripsThroughBothFormats) {
  const core::TempDir dir;
  TinyTowers source;
  load_weights(source, read_weights(golden("state_dict.pt")));
  write_weights_pt(dir.path() / "a.pt", named_values(source));
  write_weights_safetensors(dir.path() / "a.safetensors", named_values(source), {{"format", "pt"}});
  for (const char* name : {"a.pt", "a.safetensors"}) {
    TinyTowers target;
    load_weights(target, read_weights(dir.path() / name));
    expect_golden(target);
  }
}

TEST(Weights, PtFileHasTheBytesThatPythonChecked) {
  const core::TempDir dir;
  TinyTowers towers;
  load_weights(towers, read_weights(golden("state_dict.pt")));
  write_weights_pt(
      dir.path() / "ours.pt", named_values(towers),
      CheckpointHead{.epoch = 7, .name = "exported", .scaler = PtScaler{.scale = 512, .growth_tracker = 9}});
  // After a change of the writer: run once with LOCKSTEP_UPDATE_GOLDEN=1, then ref/make_pt_goldens.py --check.
  if (core::env("LOCKSTEP_UPDATE_GOLDEN"))
    core::write_file_atomic(golden("ours.pt"), core::read_file(dir.path() / "ours.pt"));
  EXPECT_TRUE(core::read_file(dir.path() / "ours.pt") == core::read_file(golden("ours.pt")));
}

TEST(Weights, AdamWsNumbersAreReadAlone) {
  const auto tuning = read_pt_tuning(golden("openclip_ddp.pt"));
  ASSERT_TRUE(tuning);
  EXPECT_EQ(std::tuple(tuning->lr, tuning->beta1, tuning->beta2, tuning->epsilon, tuning->weight_decay),
            std::tuple(1e-3, 0.9, 0.999, 1e-8, 0.01));
  EXPECT_FALSE(read_pt_tuning(golden("state_dict.pt")));
}

TEST(Weights, AViewWritesOnlyItsOwnElements) {
  const core::TempDir dir;
  const auto bucket = at::arange(1 << 20, at::kFloat);
  write_weights_pt(dir.path() / "a.pt",
                   {{"small", bucket.narrow(0, 5, 4)}, {"turned", bucket.narrow(0, 0, 6).reshape({2, 3}).t()}});
  EXPECT_LT(std::filesystem::file_size(dir.path() / "a.pt"), 4096u);
  const auto back = read_weights(dir.path() / "a.pt");
  EXPECT_TRUE(back.tensors[0].second.equal(bucket.narrow(0, 5, 4)));
  EXPECT_TRUE(back.tensors[1].second.equal(bucket.narrow(0, 0, 6).reshape({2, 3}).t()));
}

TEST(Weights, MisfitListsNamesAndChangesNothing) {
  TinyTowers towers;
  const auto before = towers.logit_scale().clone();
  auto weights = read_weights(golden("state_dict.pt"));
  for (auto& [name, tensor] : weights.tensors)
    if (name == "text_projection") tensor = at::ones({3, 6});
  std::erase_if(weights.tensors, [](const auto& entry) { return entry.first == "visual.weight"; });
  for (int i = 0; i < 12; ++i) weights.tensors.emplace_back(fmt::format("extra.{}", i), at::ones({1}));
  const auto message = message_of<DataError>([&] { load_weights(towers, weights); });
  EXPECT_NE(message.find("missing 1: visual.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("unexpected 12: extra.0, extra.1"), std::string::npos) << message;
  EXPECT_EQ(message.find("extra.10"), std::string::npos) << message;  // ten names, then the count must do
  EXPECT_NE(message.find("text_projection (file [3, 6], model [6, 6])"), std::string::npos) << message;
  EXPECT_TRUE(towers.logit_scale().equal(before));
}

TEST(Weights, OneRankReadsAndAllHave) {
  tests::run_ranks(3, [](comm::Comm& world) {
    TinyTowers towers;
    if (world.rank() == 0) load_weights(towers, read_weights(golden("state_dict.pt")));
    broadcast_weights(towers, world);
    expect_golden(towers);
  });
}

TEST(Weights, ForeignFilesAreRefusedByName) {
  const core::TempDir dir;
  const auto write = [&](const std::string& content) {
    std::ofstream(dir.path() / "x", std::ios::binary | std::ios::trunc) << content;
    return message_of<DataError>([&] { read_weights(dir.path() / "x"); });
  };
  EXPECT_NE(write("PK\x03\x04 but no archive").find("can be read"), std::string::npos);
  EXPECT_NE(write("").find("it is empty"), std::string::npos);
  EXPECT_NE(write("\x80\x02}q.").find("/x'"), std::string::npos);
  EXPECT_THROW(read_weights(dir.path() / "absent.pt"), EnvironmentError);
}

TEST(Weights, APtFileThatUnpacksToMoreThanItIsIsRefused) {
  const core::TempDir dir;
  const std::string plain = (dir.path() / "plain.pt").string(), packed = (dir.path() / "packed.pt").string();
  write_weights_pt(plain, {{"w", at::zeros({1 << 20})}}, std::nullopt);
  EXPECT_EQ(read_pt_state_dict(plain).tensors.size(), 1u);
  {
    caffe2::serialize::PyTorchStreamReader reader(plain);
    caffe2::serialize::PyTorchStreamWriter writer(packed);
    for (const char* name : {"data.pkl", "byteorder", "data/0"}) {
      const auto [data, size] = reader.getRecord(name);
      writer.writeRecord(name, data.get(), size, /*compress=*/true);
    }
    writer.writeEndOfFile();
  }
  ASSERT_LT(std::filesystem::file_size(packed), 100'000u);
  EXPECT_NE(message_of<DataError>([&] { read_pt_state_dict(packed); }).find("its records are compressed: 'data/0'"),
            std::string::npos);
}

/// A .pt file of one tensor whose data.pkl is what `change` makes of the plain one's opcodes, those of a dictionary.
std::filesystem::path with_pickle(const std::filesystem::path& folder,
                                  const std::function<std::string(const std::string&)>& change) {
  const std::string plain = (folder / "plain.pt").string(), changed = (folder / "changed.pt").string();
  write_weights_pt(plain, {{"w", at::zeros({4})}}, std::nullopt);
  caffe2::serialize::PyTorchStreamReader reader(plain);
  caffe2::serialize::PyTorchStreamWriter writer(changed);
  for (const char* name : {"data.pkl", "byteorder", "data/0"}) {
    const auto [data, size] = reader.getRecord(name);
    std::string bytes(static_cast<const char*>(data.get()), size);
    if (name == std::string("data.pkl")) bytes = bytes.substr(0, 2) + change(bytes.substr(2, size - 3)) + ".";
    writer.writeRecord(name, bytes.data(), bytes.size());
  }
  writer.writeEndOfFile();
  return changed;
}

std::string pickled(const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  return "X" + std::string(reinterpret_cast<const char*>(&size), 4) + text;
}
std::string repeated(const std::string& opcodes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += opcodes;
  return all;
}

TEST(Weights, AValueThatManyPlacesNameFillsNoMemory) {
  const core::TempDir dir;
  const auto message = [&](const std::string& state, const std::string& groups) {
    return message_of<DataError>([&] {
      read_pt_checkpoint(with_pickle(dir.path(), [&](const std::string& tensors) {
        return "}(" + pickled("state_dict") + tensors + pickled("optimizer") + "}(" + pickled("state") + state +
               pickled("param_groups") + groups + "uu";
      }));
    });
  };
  EXPECT_EQ(message("}", "]"), "no error");
  const std::string refused = "names the same values in more places";
  const std::string group = "}(" + pickled("params") + "](" + repeated("K\1", 20'000) + "euq\x07";
  EXPECT_TRUE(tests::holds(message("}", "](" + group + repeated("h\x07", 5'000) + "e"), refused));
  std::string values = "}(", state;
  for (int i = 0; i < 2'000; ++i) values += pickled(std::to_string(i)) + "K\1";
  for (int i = 0; i < 1'000; ++i)
    state += "J" + std::string(reinterpret_cast<const char*>(&i), 4) + (i == 0 ? values + "uq\x07" : "h\x07");
  EXPECT_TRUE(tests::holds(message("}(" + state + "u", "]"), refused));
  const auto named = with_pickle(dir.path(), [](const std::string&) {
    return "}(" + pickled(std::string(100'000, 'x')) + "q\x07N" + repeated("h\x07N", 5'000) + "u";
  });
  EXPECT_TRUE(tests::holds(message_of<DataError>([&] { read_pt_state_dict(named); }), refused));
}

std::string called(const std::string& module, const std::string& name, const std::string& argument) {
  return "c" + module + "\n" + name + "\n(" + pickled(argument) + "tR";
}

TEST(Weights, AFileThatWouldCallFunctionsIsRefusedAndCallsNothing) {
  const core::TempDir dir;
  const std::filesystem::path made = dir.path() / "made";
  const auto refusal = [&](const std::string& call) {
    const auto file = with_pickle(dir.path(), [&](const std::string& tensors) {
      return "}(" + pickled("state_dict") + tensors + pickled("epoch") + "K\1" + pickled("x") + call + "u";
    });
    const std::string first = message_of<DataError>([&] { read_weights(file); });
    EXPECT_EQ(message_of<DataError>([&] { read_pt_checkpoint(file); }), first);
    EXPECT_EQ(message_of<DataError>([&] { read_pt_tuning(file); }), first);
    return first;
  };
  const std::string command = "touch " + made.string();
  for (const auto& [module, name] : {std::pair<std::string, std::string>{"posix", "system"},
                                     {"os", "system"},
                                     {"builtins", "eval"},
                                     {"__builtin__", "getattr"},
                                     {"torch", "load"},
                                     {"torch.cuda", "x.Storage"},
                                     {"torch._utils", "_rebuild_.x"},
                                     {"subprocess", "Popen"},
                                     {"runpy", "run_path"}}) {
    EXPECT_TRUE(tests::holds(refusal(called(module, name, command)),
                             fmt::format("names '{}.{}', which Python would import", module, name)));
    // The other opcode of protocol 4, and a name that nothing calls.
    EXPECT_TRUE(tests::holds(refusal(pickled(module) + pickled(name) + "\x93"), "may be made to execute code"));
  }
  EXPECT_FALSE(std::filesystem::exists(made));
  for (const auto& [module, name] : {std::pair<std::string, std::string>{"argparse", "Namespace"},
                                     {"numpy._core.multiarray", "scalar"},
                                     {"torch", "float32"},
                                     {"torch", "Size"},
                                     {"torch.cuda", "FloatStorage"},
                                     {"builtins", "set"},
                                     {"pathlib", "PosixPath"},
                                     {"collections", "defaultdict"}})
    EXPECT_EQ(refusal(called(module, name, "x")), "no error") << module << "." << name;
}

/// Mutants of a whole file: every one is read or refused.
void mutate_file(const std::filesystem::path& source, int rounds, uint64_t key) {
  const core::TempDir dir;
  const std::string whole = core::read_file(source);
  core::CounterRng rng(key);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = whole;
    if (round % 4 == 0) bytes.resize(rng.below(bytes.size()));
    for (int flips = 0; flips < 3 && !bytes.empty(); ++flips)
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    std::ofstream(dir.path() / "m", std::ios::binary | std::ios::trunc) << bytes;
    try {
      read_weights(dir.path() / "m");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 4);
}

TEST(Weights, MutatedFilesAreReadOrRefused) {
  mutate_file(golden("openclip_ddp.pt"), 400, 1);
  mutate_file(golden("types.pt"), 400, 2);
}

TEST(Weights, AFewNamesOfManyThatDoNotFitAreListed) {
  NamedValues targets;
  for (int i = 0; i < 9; ++i) targets.emplace_back(fmt::format("layer{}", i), at::ones({2}));
  const std::string refused = message_of<DataError>([&] { require_fit(targets, read_weights(golden("types.pt"))); });
  EXPECT_TRUE(tests::holds(refused, "missing 9: layer0, layer1, layer2 and 6 more; unexpected ")) << refused;
}

TEST(Weights, ACheckpointOfAnOldPyTorchIsToldAsSuch) {
  const core::TempDir dir;
  core::write_file_atomic(dir.path() / "old.pt", std::string("\x80\x02\x8a\x0a", 4) + std::string(100, 'x'));
  const std::string refused = message_of<DataError>([&] { read_pt_checkpoint(dir.path() / "old.pt"); });
  EXPECT_TRUE(tests::holds(refused, "before release 1.6")) << refused;
}

TEST(Weights, ADamagedRecordIsNamed) {
  const core::TempDir dir;
  const auto file = dir.path() / "a.pt";
  write_weights_pt(file, {{"first", at::ones({1000})}, {"second", at::arange(1000, at::kFloat)}});
  EXPECT_EQ(read_weights(file).tensors.size(), 2u);
  std::string bytes = core::read_file(file);
  const float number = 777;  // in the middle of `second` alone
  const size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(&number), sizeof number));
  ASSERT_NE(at, std::string::npos);
  for (size_t i = 0; i < 64; ++i) bytes[at + i] ^= 0x10;
  core::write_file_atomic(file, bytes);
  const std::string refused = message_of<CheckpointError>([&] { read_weights(file); });
  EXPECT_TRUE(tests::holds(refused, "a.pt' is damaged: its record 'data/1' has the CRC-32")) << refused;
  EXPECT_THROW(read_pt_checkpoint(file), CheckpointError);
}

TEST(Weights, AFullDiskLeavesTheOldFile) {
  const core::TempDir dir;
  write_weights_pt(dir.path() / "a.pt", {{"x", at::ones({4})}});
  const auto old = core::read_file(dir.path() / "a.pt");
  {
    const tests::FileSizeLimit limit(1 << 16);
    EXPECT_THROW(write_weights_pt(dir.path() / "a.pt", {{"x", at::ones({1 << 20})}}), EnvironmentError);
    EXPECT_THROW(write_weights_safetensors(dir.path() / "a.pt", {{"x", at::ones({1 << 20})}}), EnvironmentError);
  }
  EXPECT_EQ(core::read_file(dir.path() / "a.pt"), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

}  // namespace
}  // namespace lockstep::models
