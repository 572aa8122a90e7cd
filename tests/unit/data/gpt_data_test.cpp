#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/files.h"
#include "data/order/numpy_random.h"
#include "data/tokens/gpt_stream.h"
#include "data/tokens/token_prefetch.h"
#include "gpt_golden.h"

namespace lockstep::data {
namespace {

using nlohmann::json;
using tests::expect_kept;
using tests::golden_gpt;

TEST(NumpyRandom, ShufflesAsNumpyDoes) {
  size_t num_cases = 0;
  for (const json& one : read_golden_lines(golden_gpt("shuffles.jsonl.gz"))) {
    std::vector<int64_t> values(one.at("count").get<size_t>());
    std::iota(values.begin(), values.end(), 0);
    NumpyRandomState(one.at("seed")).shuffle(std::span(values));
    expect_kept(values, one.at("shuffled"), one.at("seed").dump());
    ++num_cases;
  }
  EXPECT_EQ(num_cases, 5u);
}

TEST(GptIndex, WorkedExamples) {
  const auto lengths_of = [](const std::vector<int32_t>& lengths) {
    return [lengths](int64_t i) { return lengths[static_cast<size_t>(i)]; };
  };
  const GptIndex two =
      build_gpt_index({.last = 4, .sequence_length = 4, .num_samples = 8, .seed = 1234}, lengths_of({5, 3, 4, 7}));
  EXPECT_EQ(two.num_epochs, 2);
  EXPECT_TRUE(std::ranges::equal(two.sequences, std::vector<int32_t>{2, 1, 2, 0, 0, 1, 3, 3}));
  EXPECT_TRUE(std::ranges::equal(two.shuffle, std::vector<uint32_t>{6, 4, 0, 5, 3, 2, 8, 7, 1}));
  EXPECT_EQ(two.starts[5], (SampleStart{4, 4}));
  EXPECT_EQ(two.starts[9], (SampleStart{7, 5}));
}

TEST(GptIndex, EqualsMegatronsArrays) {
  size_t num_cases = 0, num_many_epochs = 0, num_partial = 0;
  for (const json& one : read_golden_lines(golden_gpt("indices.jsonl.gz"))) {
    const auto lengths = one.at("lengths").get<std::vector<int32_t>>();
    const GptIndex index = build_gpt_index({.last = static_cast<int64_t>(lengths.size()),
                                            .sequence_length = one.at("sequence_length"),
                                            .num_samples = one.at("num_samples"),
                                            .seed = one.at("seed"),
                                            .keeps_partial = one.at("keeps_partial")},
                                           [&](int64_t i) { return lengths[static_cast<size_t>(i)]; });
    const std::string name =
        fmt::format("case {}: {} lengths, T={}, samples={}, seed={}", num_cases, lengths.size(),
                    one.at("sequence_length").dump(), one.at("num_samples").dump(), one.at("seed").dump());
    std::vector<int64_t> starts;
    for (const SampleStart& start : index.starts) starts.insert(starts.end(), {start.position, start.offset});
    expect_kept({index.sequences.begin(), index.sequences.end()}, one.at("document_index"), name + " sequences");
    expect_kept(starts, one.at("sample_index"), name + " starts");
    expect_kept({index.shuffle.begin(), index.shuffle.end()}, one.at("shuffle_index"), name + " shuffle");
    ++num_cases;
    num_many_epochs += index.num_epochs > 1;
    num_partial += one.at("keeps_partial").get<bool>();
    if (HasFailure()) break;
  }
  EXPECT_GT(num_cases, 120u);
  EXPECT_GT(num_many_epochs, 40u);
  EXPECT_GT(num_partial, 15u);
}

TEST(GptIndex, RefusesTooFewTokens) {
  const auto three = [](int64_t) { return 3; };
  EXPECT_THROW(build_gpt_index({.last = 1, .sequence_length = 3}, three), DataError);
  EXPECT_EQ(build_gpt_index({.last = 1, .sequence_length = 2}, three).num_samples(), 1);
  EXPECT_THROW(build_gpt_index({.last = 0, .sequence_length = 2, .num_samples = 5}, three), DataError);
  EXPECT_THROW(build_gpt_index({.last = 1, .sequence_length = 2, .num_samples = int64_t{1} << 33}, three), DataError);
}

TEST(BlendIndex, EqualsMegatronsBlends) {
  size_t num_cases = 0;
  for (const json& one : read_golden_lines(golden_gpt("blends.jsonl.gz"))) {
    if (one.contains("raw")) continue;
    const BlendIndex blend = one.contains("sizes") ? BlendIndex::exhaustive(one.at("sizes").get<std::vector<int64_t>>())
                                                   : BlendIndex::weighted(one.at("weights").get<std::vector<double>>(),
                                                                          one.at("sets").at("size"));
    std::vector<int64_t> sets, samples;
    for (int64_t i = 0; i < blend.num_samples(); ++i) {
      sets.push_back(blend[i].set);
      samples.push_back(blend[i].sample);
    }
    expect_kept(sets, one.at("sets"), fmt::format("sets of case {}", num_cases));
    expect_kept(samples, one.at("samples"), fmt::format("samples of case {}", num_cases));
    ++num_cases;
  }
  EXPECT_EQ(num_cases, 30u);
}

TEST(GptData, NormalisesAsNumpyDoes) {
  size_t num_cases = 0;
  for (const json& one : read_golden_lines(golden_gpt("blends.jsonl.gz"))) {
    if (!one.contains("raw")) continue;
    const std::vector<double> once = normalised_weights(one.at("raw").get<std::vector<double>>());
    EXPECT_EQ(once, one.at("normalised").get<std::vector<double>>()) << once.size();
    EXPECT_EQ(normalised_weights(once), one.at("twice").get<std::vector<double>>()) << once.size();
    ++num_cases;
  }
  EXPECT_EQ(num_cases, 7u);
}

TEST(GptData, RefusesSplitsAndBlendsThatAreNone) {
  for (const char* text : {"", "a", "1,,2", "1,2,3,4", "0,0", "-1,2", "nan", "1;2", "inf"})
    EXPECT_THROW(parse_splits(text), UsageError) << text;
  const std::vector<SplitBounds> bounds = parse_splits("969, 30, 1");
  EXPECT_DOUBLE_EQ(bounds[1].begin, 0.969);
  EXPECT_EQ(parse_blend(std::vector<std::string>{"a", "b"}).prefixes.size(), 2u);
  EXPECT_EQ(parse_blend(std::vector<std::string>{"0.5", "a", "2", "b"}).weights, (std::vector<double>{0.5, 2}));
  EXPECT_TRUE(parse_blend(std::vector<std::string>{"0.5", "a", "2"}).weights.empty());
  EXPECT_THROW(parse_blend(std::vector<std::string>{"0.5", "a", "b", "c"}), UsageError);
  EXPECT_THROW(parse_blend(std::vector<std::string>{"-1", "a", "2", "b"}), UsageError);
}

TEST(GptData, MeasuresWhatASplitHolds) {
  const core::TempDir folder;
  const auto write = [&](const std::string& name, int num_documents, size_t length) {
    const std::string prefix = (folder.path() / name).string();
    IndexedDatasetWriter writer(prefix, TokenType::kU16);
    const std::vector<int32_t> ids(length, 3);
    for (int i = 0; i < num_documents; ++i) {
      writer.add_sequence(ids);
      writer.end_document();
    }
    writer.finish();
    return prefix;
  };
  GptDataConfig config{.split = "9,1", .sequence_length = 8, .vocab_size = 10};
  config.data_path = {write("a", 10, 5), write("b", 20, 15)};
  const std::vector<SplitSize> train = measure_split(config, Split::kTrain),
                               valid = measure_split(config, Split::kValid);
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0].num_documents, 9);
  EXPECT_EQ(train[0].num_tokens, 45);
  EXPECT_EQ(train[1].num_tokens, 270);
  EXPECT_DOUBLE_EQ(train[0].share, 45.0 / 315);
  ASSERT_EQ(valid.size(), 2u);
  EXPECT_EQ(valid[1].num_documents, 2);
  EXPECT_TRUE(measure_split(config, Split::kTest).empty());
  config.data_path = {"3", config.data_path[0], "1", config.data_path[1]};
  EXPECT_DOUBLE_EQ(measure_split(config, Split::kTrain)[0].share, 0.75);
  config.data_path = {};
  EXPECT_TRUE(measure_split(config, Split::kTrain).empty()) << "made-up data";
}

/// A run of the golden files as a configuration; corpora lie beside them.
GptDataConfig config_of(const json& run) {
  GptDataConfig config{
      .sequence_length = run.at("sequence_length"), .seed = run.at("seed"), .vocab_size = 200, .eod = 7};
  const auto paths_of = [](const json& blend) {
    std::vector<std::string> paths;
    for (size_t i = 0; !blend.is_null() && i < blend.at(0).size(); ++i) {
      if (!blend.at(1).is_null()) paths.push_back(fmt::format("{}", blend.at(1).at(i).get<double>()));
      paths.push_back(golden_gpt(blend.at(0).at(i)));
    }
    return paths;
  };
  config.data_path = paths_of(run.at("blend"));
  for (size_t split = 0; split < kNumSplits; ++split) {
    if (!run.at("blend_per_split").is_null())
      config.path_of_split[split] = paths_of(run.at("blend_per_split").at(split));
    if (!run.at("sizes").at(split).is_null()) config.num_samples[split] = run.at("sizes").at(split);
  }
  if (!run.at("split").is_null()) config.split = run.at("split");
  config.keeps_partial_validation = run.at("keeps_partial");
  return config;
}

DocumentRules rules_of(const json& run) {
  return {.eod = 7,
          .reset_position_ids = run.at("rules").at(0),
          .reset_attention_mask = run.at("rules").at(1),
          .eod_mask_loss = run.at("rules").at(2)};
}

void expect_sample(const json& want, const GptSamples& samples, int64_t length, const DocumentRules& rules,
                   const std::string& name) {
  std::vector<int32_t> tokens(static_cast<size_t>(length) + 1), begins;
  samples.read(want.at("k"), tokens, begins);
  TokenBatch batch;
  batch.clear(length);
  batch.add(tokens, begins, rules, 0);
  EXPECT_EQ(batch.tokens_BT, want.at("tokens").get<std::vector<int32_t>>()) << name;
  EXPECT_EQ(batch.labels_BT, want.at("labels").get<std::vector<int32_t>>()) << name;
  EXPECT_EQ(batch.loss_mask_BT, want.at("loss_mask").get<std::vector<uint8_t>>()) << name;
  EXPECT_EQ(batch.position_ids_BT, want.at("position_ids").get<std::vector<int32_t>>()) << name;
  if (!want.contains("attention_begins")) return;
  std::vector<int32_t> begins_of_rows;
  for (size_t piece = 0; piece + 1 < batch.piece_bounds.size(); ++piece)
    begins_of_rows.insert(begins_of_rows.end(),
                          static_cast<size_t>(batch.piece_bounds[piece + 1] - batch.piece_bounds[piece]),
                          batch.piece_bounds[piece]);
  EXPECT_EQ(begins_of_rows, want.at("attention_begins").get<std::vector<int32_t>>()) << name;
}

TEST(GptData, RunsEqualMegatrons) {
  size_t num_runs = 0, num_samples = 0, num_masked = 0;
  for (const json& run : read_golden_lines(golden_gpt("runs.jsonl.gz"))) {
    const GptDataConfig config = config_of(run);
    for (size_t split = 0; split < kNumSplits; ++split) {
      const std::string name = fmt::format("run {} split {}", num_runs, split);
      const json& want = run.at("splits").at(split);
      const auto samples = open_gpt_samples(config, static_cast<Split>(split));
      ASSERT_EQ(samples == nullptr, want.is_null()) << name;
      if (want.is_null()) continue;
      ASSERT_EQ(samples->num_samples(), want.at("num_samples").get<int64_t>()) << name;
      std::vector<int64_t> every;
      std::vector<int32_t> tokens(static_cast<size_t>(config.sequence_length) + 1), begins;
      for (int64_t k = 0; k < samples->num_samples(); ++k) {
        samples->read(k, tokens, begins);
        for (size_t i = 0; i + 1 < tokens.size(); ++i) every.push_back(std::max(tokens[i], 0));
      }
      EXPECT_EQ(tests::crc_of(every), want.at("tokens_crc").get<uint32_t>()) << name;
      for (const json& sample : want.at("samples")) {
        expect_sample(sample, *samples, config.sequence_length, rules_of(run), name);
        num_masked += sample.contains("attention_begins");
        ++num_samples;
      }
    }
    ++num_runs;
  }
  EXPECT_EQ(num_runs, 16u);
  EXPECT_GT(num_samples, 100u);
  EXPECT_GT(num_masked, 50u);
}

TEST(GptData, MockDataEqualsMegatrons) {
  const json want = read_golden_lines(golden_gpt("mock.jsonl.gz")).at(0);
  const std::vector<int32_t> lengths = numpy_default_integers(1, 4096, 100000);
  expect_kept({lengths.begin(), lengths.end()}, want.at("lengths"), "lengths");
  GptDataConfig config{
      .sequence_length = 256, .num_samples = {700, 30, 10}, .seed = 1234, .vocab_size = 1000, .eod = 999};
  for (size_t split = 0; split < kNumSplits; ++split) {
    const auto samples = open_gpt_samples(config, static_cast<Split>(split));
    ASSERT_EQ(samples->num_samples(), want.at("splits").at(split).at("num_samples").get<int64_t>());
    for (const json& sample : want.at("splits").at(split).at("samples"))
      expect_sample(sample, *samples, 256, {}, fmt::format("split {}", split));
  }
}

GptDataConfig two_corpora() {
  return {.data_path = {"3", golden_gpt("one"), "1", golden_gpt("two")},
          .split = "1",
          .sequence_length = 8,
          .num_samples = {60, 0, 0},
          .vocab_size = 200};
}

std::vector<TokenBatch> batches_of(GptStream& stream) {
  std::vector<TokenBatch> batches(1);
  for (stream.next(batches.back()); batches.back().num_samples > 0; stream.next(batches.back())) batches.emplace_back();
  batches.pop_back();
  return batches;
}

TEST(GptStream, StepsHoldTheSameSamplesOnEveryMesh) {
  const std::shared_ptr<const GptSamples> samples = open_gpt_samples(two_corpora(), Split::kTrain);
  constexpr int64_t kGlobalBatch = 12;
  const auto steps_of = [&](int64_t micro_batch_size, int64_t data_size) {
    std::vector<std::vector<int64_t>> steps;
    const int64_t num_micro_batches = kGlobalBatch / (micro_batch_size * data_size);
    for (int64_t rank = 0; rank < data_size; ++rank) {
      GptStream stream(samples, {.sequence_length = 8,
                                 .micro_batch_size = micro_batch_size,
                                 .data_rank = rank,
                                 .data_size = data_size,
                                 .rules = {}});
      const std::vector<TokenBatch> batches = batches_of(stream);
      steps.resize(batches.size() / static_cast<size_t>(num_micro_batches));
      for (size_t i = 0; i < batches.size(); ++i) {
        std::vector<int64_t>& step = steps[i / static_cast<size_t>(num_micro_batches)];
        step.insert(step.end(), batches[i].sample_ids.begin(), batches[i].sample_ids.end());
      }
    }
    for (std::vector<int64_t>& step : steps) std::sort(step.begin(), step.end());
    return steps;
  };
  const auto whole = steps_of(12, 1);
  ASSERT_EQ(whole.size(), 5u);
  EXPECT_EQ(whole[4].back(), 59);
  for (const auto& [micro_batch_size, data_size] : {std::pair<int64_t, int64_t>{1, 1}, {1, 4}, {3, 2}, {2, 6}, {1, 12}})
    EXPECT_EQ(steps_of(micro_batch_size, data_size), whole) << micro_batch_size << " x " << data_size;
}

/// Read ahead by a thread: the same micro-batches, each position behind what was handed out, and errors in their turn.
TEST(TokenPrefetch, IsTheStreamBehindWhatWasTaken) {
  const std::shared_ptr<const GptSamples> samples = open_gpt_samples(two_corpora(), Split::kTrain);
  const GptStreamConfig config{
      .sequence_length = 8, .micro_batch_size = 3, .data_rank = 1, .data_size = 2, .rules = {}};
  GptStream stream(samples, config);
  TokenPrefetch prefetch(GptStream(samples, config), 3);
  EXPECT_EQ(prefetch.position(), stream.position());
  TokenBatch want, got;
  int64_t num_batches = 0;
  for (stream.next(want); want.num_samples > 0; stream.next(want), ++num_batches) {
    prefetch.next(got);
    EXPECT_EQ(got.tokens_BT, want.tokens_BT);
    EXPECT_EQ(got.sample_ids, want.sample_ids);
    EXPECT_EQ(prefetch.position(), stream.position());
  }
  EXPECT_EQ(num_batches, 10);
  for (int i = 0; i < 2; ++i) {
    prefetch.next(got);
    EXPECT_EQ(got.num_samples, 0) << "the end stays the end";
  }
}

TEST(TokenPrefetch, ErrorsComeWithTheirMicroBatch) {
  GptDataConfig narrow = two_corpora();
  const std::shared_ptr<const GptSamples> all = open_gpt_samples(narrow, Split::kTrain);
  const GptStreamConfig config{.sequence_length = 8, .micro_batch_size = 1, .rules = {}};
  GptStream whole(all, config);
  int32_t largest_of_first = 0;
  TokenBatch batch;
  whole.next(batch);
  for (const int32_t id : batch.tokens_BT) largest_of_first = std::max(largest_of_first, id);
  for (const int32_t id : batch.labels_BT) largest_of_first = std::max(largest_of_first, id);
  narrow.vocab_size = largest_of_first + 1;
  narrow.is_first_rank = false;  // who reads no files ahead of the samples
  const std::shared_ptr<const GptSamples> some = open_gpt_samples(narrow, Split::kTrain);
  GptStream plain(some, config);
  TokenPrefetch prefetch(GptStream(some, config), 2);
  int64_t num_read = 0;
  EXPECT_THROW(for (;; ++num_read) plain.next(batch), DataError);
  ASSERT_GE(num_read, 1) << "the first is legal";
  for (int64_t i = 0; i < num_read; ++i) prefetch.next(batch);
  EXPECT_THROW(prefetch.next(batch), DataError);
  EXPECT_EQ(prefetch.position().at("consumed_samples"), num_read);
}

TEST(GptStream, GoesOnExactlyWhereItStopped) {
  const std::shared_ptr<const GptSamples> samples = open_gpt_samples(two_corpora(), Split::kTrain);
  GptStream whole(samples, {.sequence_length = 8, .micro_batch_size = 3, .data_rank = 1, .data_size = 2, .rules = {}});
  GptStream first(samples, {.sequence_length = 8, .micro_batch_size = 2, .data_rank = 0, .data_size = 3, .rules = {}});
  TokenBatch batch;
  for (int i = 0; i < 4; ++i) first.next(batch);
  GptStream second(open_gpt_samples(two_corpora(), Split::kTrain),
                   {.sequence_length = 8, .micro_batch_size = 3, .data_rank = 1, .data_size = 2, .rules = {}});
  second.seek(core::Json::parse(first.position().dump()));
  const std::vector<TokenBatch> all = batches_of(whole), rest = batches_of(second);
  ASSERT_EQ(all.size(), 10u);
  ASSERT_EQ(rest.size(), 6u);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].tokens_BT, all[i + 4].tokens_BT);
  GptDataConfig other = two_corpora();
  other.seed = 5;
  GptStream elsewhere(open_gpt_samples(other, Split::kTrain),
                      {.sequence_length = 8, .micro_batch_size = 1, .rules = {}});
  EXPECT_THROW(elsewhere.seek(first.position()), DataError);
  GptDataConfig longer = two_corpora();
  longer.num_samples[0] *= 3;
  GptStream more(open_gpt_samples(longer, Split::kTrain), {.sequence_length = 8, .micro_batch_size = 1, .rules = {}});
  more.seek(first.position());  // of the same data, in the order of the longer run
  EXPECT_EQ(more.consumed_samples(), first.consumed_samples());
  more.next(batch);
  EXPECT_EQ(batch.num_samples, 1);
  core::Json beyond = first.position();
  beyond["consumed_samples"] = 61;
  EXPECT_THROW(first.seek(beyond), DataError);
}

TEST(GptStream, ARefusedPositionNamesWhatChanged) {
  const auto stream_of = [](const GptDataConfig& config) {
    return GptStream(open_gpt_samples(config, Split::kTrain),
                     {.sequence_length = config.sequence_length, .micro_batch_size = 1, .rules = {}});
  };
  core::Json saved = stream_of(two_corpora()).position();
  const auto refusal = [&](const GptDataConfig& config) -> std::string {
    try {
      stream_of(config).seek(saved);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  const std::string begin = "data: cannot continue this stream: the samples are other ones: ";
  GptDataConfig config = two_corpora();
  config.split = "2";
  EXPECT_EQ(refusal(config), "") << "all of the data, too";
  config.split = "9, 1";
  EXPECT_EQ(refusal(config), begin + "--split was 1 and is 9,1");
  config.seed = 5;
  EXPECT_EQ(refusal(config), begin + "--split was 1 and is 9,1; --seed was 1234 and is 5");
  config = two_corpora();
  config.sequence_length = 16;
  config.data_path = {"1", golden_gpt("two"), "3", golden_gpt("one")};
  EXPECT_EQ(refusal(config), begin + "--seq-length was 8 and is 16") << "the order of the data is the smaller change";
  config = two_corpora();
  config.data_path = {golden_gpt("two")};
  const std::string other_data = refusal(config);
  EXPECT_NE(other_data.find("the number of documents was "), std::string::npos) << other_data;
  EXPECT_NE(other_data.find("the data were '" + golden_gpt("one") + " and 1 more' and are '" + golden_gpt("two") + "'"),
            std::string::npos)
      << other_data;

  saved["made_of"]["seed"] = "of a damaged file";
  EXPECT_EQ(refusal(two_corpora()), "") << "words decide nothing";
  saved["source"] = "0";
  EXPECT_EQ(refusal(two_corpora()), begin + "--seed was of a damaged file and is 1234");
  saved["made_of"] = 7;
  EXPECT_EQ(refusal(two_corpora()), begin + "data, split, seed or sequence length have changed");
  saved["made_of"] = stream_of(two_corpora()).position()["made_of"];
  EXPECT_EQ(refusal(two_corpora()), begin + "the documents of '" + golden_gpt("one") +
                                        " and 1 more' have other lengths than when the checkpoint was saved");
}

TEST(TokenBatch, PiecesOfTheCorpusBoundAttention) {
  TokenBatch batch;
  batch.clear(6);
  const DocumentRules rules{.eod = 9, .inter_document_masking = true};
  batch.add(std::vector<int32_t>{1, 9, 3, 4, 5, 6, 7}, std::vector<int32_t>{0, 3, 6}, rules, 0);
  batch.add(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7}, std::vector<int32_t>{0}, rules, 1);
  EXPECT_EQ(batch.piece_bounds, (std::vector<int32_t>{0, 3, 6, 12}));
  EXPECT_EQ(batch.position_ids_BT, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace lockstep::data
