// Other global batches beside the layouts of the given one.
#include "predict/advise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/strings.h"
#include "predict/machine_file.h"

namespace lockstep::predict {
namespace {

std::vector<std::string> clip_words(std::vector<std::string> more) {
  const std::filesystem::path recipes = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "recipes";
  std::vector<std::string> words = {"train", "clip", "--config", (recipes / "clip_vitg14_dgx.toml").string()};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// So little work that most of a step is its fixed time.
std::vector<std::string> small_steps(int64_t samples_per_device) {
  return {"train",
          "imagenet",
          "--dummy",
          "-a",
          "resnet18",
          "--amp",
          "--micro-batch-size=" + std::to_string(samples_per_device)};
}

AdviceList with_batches(const std::vector<std::string>& words, const Machine& machine, int64_t nodes,
                        const std::vector<MeasuredStep>& measured = {}) {
  return advise({.words = words,
                 .nodes = nodes,
                 .steps = {plan_one(words, nodes, machine.devices_per_node)},
                 .measured = measured,
                 .with_other_batches = true},
                machine);
}

std::set<int64_t> batches_of(const AdviceList& list) {
  std::set<int64_t> batches;
  for (const BatchAdvice& other : list.other_batches) batches.insert(other.best.plan.global_batch);
  return batches;
}

// A batch of any size pays the fixed time once.
TEST(Advise, TheLargerBatchWinsWhereFixedTimeDominates) {
  const Machine machine = find_machine("leonardo");
  for (const std::vector<MeasuredStep>& measured : {std::vector<MeasuredStep>{}, {{2, 0.012}}}) {
    const AdviceList list = with_batches(small_steps(8), machine, 2, measured);
    EXPECT_EQ(batches_of(list), (std::set<int64_t>{16, 32, 128, 256}));
    ASSERT_FALSE(list.ranked.empty());
    for (const Advice& one : list.ranked) EXPECT_EQ(one.plan.global_batch, 64) << "another batch is no layout";
    double previous = 0;
    for (auto other = list.other_batches.rbegin(); other != list.other_batches.rend(); ++other) {
      EXPECT_TRUE(other->best.fits);
      EXPECT_GT(other->samples_per_s_per_node, previous) << other->best.plan.global_batch;
      previous = other->samples_per_s_per_node;
      EXPECT_DOUBLE_EQ(other->samples_per_device, static_cast<double>(other->best.plan.global_batch) / 8);
      EXPECT_DOUBLE_EQ(other->samples_per_s_per_node,
                       static_cast<double>(other->best.plan.global_batch) / other->best.step_s / 2);
    }
    const BatchAdvice& largest = list.other_batches.front();
    EXPECT_EQ(largest.best.plan.global_batch, 256);
    EXPECT_GT(largest.best.samples_per_s, 1.5 * list.ranked.front().samples_per_s);
  }
}

// A gain has an interval of its own, by draws that both layouts share: what they have in common is not in it.
TEST(Advise, GainsHaveIntervals) {
  const Machine machine = find_machine("leonardo");
  for (const std::vector<MeasuredStep>& measured : {std::vector<MeasuredStep>{}, {{2, 0.06}}}) {
    const std::vector<std::string> words = small_steps(32);
    const AdviceList list = advise(
        {.words = words, .nodes = 2, .steps = {plan_one(words, 2, machine.devices_per_node)}, .measured = measured},
        machine);
    ASSERT_GT(list.ranked.size(), 2u);
    double widest = 0;
    for (const Advice& one : list.ranked) {
      ASSERT_TRUE(one.least_gain_pct && one.most_gain_pct);
      const double gain_pct = 100 * (one.samples_per_s / list.as_given.samples_per_s - 1);
      EXPECT_LE(*one.least_gain_pct, gain_pct + 2);
      EXPECT_GE(*one.most_gain_pct, gain_pct - 2);
      widest = std::max(widest, *one.most_gain_pct - *one.least_gain_pct);
      if (one.plan == list.as_given.plan) {
        EXPECT_NEAR(*one.least_gain_pct, 0, 1e-9);
        EXPECT_NEAR(*one.most_gain_pct, 0, 1e-9);
      }
    }
    EXPECT_GT(widest, 1) << "micro-batches and precisions are not known that well";
    const draw::Table table = advice_table(list, machine);
    EXPECT_EQ(table.columns.at(2).title, "90 % interval");
    EXPECT_EQ(table.rows.at(0).at(2).text, "");
    EXPECT_NE(table.rows.at(1).at(2).text.find(" to "), std::string::npos);
    EXPECT_TRUE(advice_json(list).at("ranked").at(0).at("gain_pct").contains("p95"));
    EXPECT_FALSE(advice_json(list).at("as_given").contains("gain_pct"));
  }
}

// The flags of a batch are all that it takes to run it, and its step is that of a search with the batch as given.
TEST(Advise, ABatchIsTheBestOfAllItsLayouts) {
  const Machine machine = find_machine("leonardo");
  const std::vector<std::string> gpt = {"train",
                                        "gpt",
                                        "--num-layers=4",
                                        "--hidden-size=256",
                                        "--num-attention-heads=4",
                                        "--seq-length=128",
                                        "--max-position-embeddings=128",
                                        "--vocab-size=512",
                                        "--mock-data",
                                        "--bf16",
                                        "--micro-batch-size=1",
                                        "--train-iters=10",
                                        "--global-batch-size=8"};
  Machine small = machine;
  small.devices_per_node = 2;
  small.memory_gbytes.value /= 50;  // so that some layouts do not fit
  const std::pair<std::vector<std::string>, const Machine*> cases[] = {{small_steps(8), &machine}, {gpt, &small}};
  for (const auto& [words, on] : cases) {
    const AdviceList list = with_batches(words, *on, 1);
    EXPECT_EQ(list.other_batches.size(), 4u);
    for (const BatchAdvice& other : {list.other_batches.front(), list.other_batches.back()}) {
      std::vector<std::string> with_flags = words;
      with_flags.insert(with_flags.end(), other.best.flags.begin(), other.best.flags.end());
      EXPECT_EQ(plan_one(with_flags, 1, on->devices_per_node), other.best.plan);
      const AdviceList own = with_batches(with_flags, *on, 1);
      ASSERT_FALSE(own.ranked.empty());
      EXPECT_NEAR(other.best.step_s / own.ranked.front().step_s, 1, 1e-9) << other.best.plan.global_batch;
    }
  }
}

// At the least memory that the given batch can do with, in its smallest micro-batches, larger ones have none to do
// with.
TEST(Advise, ABatchThatNoLayoutFitsIsMarked) {
  Machine machine = find_machine("dgx-h100");
  machine.memory_gbytes.value *= 1e9 / usable_memory_bytes(machine);
  const AdviceList none = with_batches(clip_words({}), machine, 1);
  ASSERT_TRUE(none.least);
  machine.memory_gbytes.value *= 1.0001 * none.least->plan.memory_bytes / usable_memory_bytes(machine);
  const AdviceList list = with_batches(clip_words({}), machine, 1);
  ASSERT_FALSE(list.ranked.empty());
  const int64_t given = list.as_given.plan.global_batch;
  ASSERT_EQ(batches_of(list), (std::set<int64_t>{given / 4, given / 2, 2 * given, 4 * given}));
  const draw::Table table = batch_table(list, machine);
  ASSERT_EQ(table.rows.size(), list.other_batches.size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const BatchAdvice& other = list.other_batches[i];
    const bool is_larger = other.best.plan.global_batch > given;
    EXPECT_EQ(other.best.fits, !is_larger);
    EXPECT_EQ(i >= 2, is_larger) << "what does not fit stands last";
    EXPECT_EQ(other.best.step_s == 0, is_larger);
    EXPECT_EQ(table.rows[i][5].text.find("too much") != std::string::npos, is_larger);
    EXPECT_EQ(advice_json(list).at("other_batches").at(i).at("fits"), !is_larger);
  }
  EXPECT_NE(core::join(table.notes, " ").find("learning rate, warm-up and number of steps or epochs anew"),
            std::string::npos);
}

TEST(Advise, ABatchThatDoesNotDivideIsNotOffered) {
  const Machine machine = find_machine("dgx-h100");
  EXPECT_EQ(batches_of(with_batches(clip_words({"--batch-size=1"}), machine, 2)), (std::set<int64_t>{32, 64}));
  EXPECT_EQ(batches_of(with_batches(clip_words({"--batch-size=6"}), machine, 2)), (std::set<int64_t>{48, 192, 384}));
  Machine leonardo = find_machine("leonardo");
  leonardo.devices_per_node = 1;
  EXPECT_EQ(batches_of(with_batches(small_steps(1), leonardo, 1)), (std::set<int64_t>{2, 4})) << "half a sample";
}

// A command that names its global batch has others all the same.
TEST(Advise, AGivenGlobalBatchGivesWay) {
  const Machine machine = find_machine("dgx-h100");
  const AdviceList list = with_batches(clip_words({"--batch-size=80", "--global-batch-size=1280"}), machine, 2);
  EXPECT_EQ(batches_of(list), (std::set<int64_t>{320, 640, 2560, 5120}));
}

}  // namespace
}  // namespace lockstep::predict
