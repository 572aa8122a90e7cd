#include "config/gpt_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/gpt_names.h"
#include "config/gpt_params.h"
#include "core/json.h"
#include "support/error_text.h"
#include "unit/config/gpt_unpadded.h"

namespace lockstep::config {
namespace {

using tests::holds;
using tests::message_of;

TEST(GptShape, ParameterCountsArePublished) {
  const auto padded = [](const char* name, int64_t tp = 1) { return gpt_cost(resolve_gpt_shape(name), tp).parameters; };
  const auto card = [](const char* name) { return unpadded_parameters(resolve_gpt_shape(name)); };
  EXPECT_EQ(card("gpt2"), 124'439'808);  // the four sizes of GPT-2 on model cards
  EXPECT_EQ(card("gpt2-medium"), 354'823'168);
  EXPECT_EQ(card("gpt2-large"), 774'030'080);
  EXPECT_EQ(card("gpt2-xl"), 1'557'611'200);
  EXPECT_EQ(padded("gpt2-medium"), 354'871'296);
  EXPECT_EQ(padded("345m"), 64'109'568);
  EXPECT_EQ(padded("857m"), 355'919'872);
  EXPECT_EQ(padded("gpt-854m"), 854'110'720);
  for (const int64_t tp : {1, 2, 8}) EXPECT_EQ(padded("175b", tp), 174'615'846'912) << "pinned vocabulary";
  EXPECT_EQ(card("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(card("llama3-70b"), 70'553'706'496);
  EXPECT_EQ(card("llama3.1-405b"), 405'853'388'800);
  EXPECT_NEAR(static_cast<double>(padded("nemotron4-340b", 8)) / 1e9, 341.03, 0.01);
  EXPECT_NEAR(static_cast<double>(gpt_cost(resolve_gpt_shape("nemotron4-340b")).embedding_parameters) / 1e9, 9.44,
              0.005);
  EXPECT_NEAR(static_cast<double>(padded("nemotron4-15b", 4)) / 1e9, 15.63, 0.01);
}

TEST(GptShape, StrangersAreRefusedWithWhatIsNear) {
  const auto text = [](const char* name) { return message_of<UsageError>([&] { resolve_gpt_shape(name); }); };
  for (const auto& [name, part] : {std::pair("mistral", "llama3-8b with --vocab-size 32000"),
                                   {"Mistral-7B-v0.1", "llama3-8b"},
                                   {"mixtral-8x7b", "mixtures of experts"},
                                   {"llama2-7b", "llama3-8b and llama3-70b"},
                                   {"Llama-2-70b", "--num-query-groups"},
                                   {"qwen2.5-7b", "--add-qkv-bias"},
                                   {"opt-125m", "gpt3-125m"},
                                   {"llama-3-8b", "did you mean 'llama3-8b'?"},
                                   {"gpt9000", "unknown model 'gpt9000'"}})
    EXPECT_TRUE(holds(text(name), part)) << text(name);
  EXPECT_TRUE(
      holds(text("mistral"), "a config.json of Hugging Face is taken, too, if it is of GPT-2, Llama or Nemotron"));
}

TEST(GptShape, EveryNamedSizeIsWhatItsNameSays) {
  const std::map<std::string, double> billions = {
      {"gpt3-126m", 0.126}, {"gpt3-350m", 0.356}, {"gpt3-760m", 0.76}, {"gpt3-1.3b", 1.3}, {"gpt3-2.7b", 2.7},
      {"gpt3-5b", 5},       {"gpt3-6.7b", 6.7},   {"gpt3-13b", 13},    {"gpt3-20b", 20},   {"gpt3-40b", 40}};
  size_t num_compared = 0;
  for (const std::string& name : gpt_model_names()) {
    const GptShape shape = resolve_gpt_shape(name);
    EXPECT_EQ(shape.name, name);
    if (!billions.contains(name)) continue;
    EXPECT_NEAR(static_cast<double>(gpt_cost(shape).parameters) / 1e9 / billions.at(name), 1, 0.04) << name;
    ++num_compared;
  }
  EXPECT_EQ(num_compared, billions.size());
}

TEST(GptShape, ClosedFormOfTheCountHoldsForEveryModel) {
  for (const std::string& name : gpt_model_names()) {
    const GptShape s = resolve_gpt_shape(name);
    const int64_t h = s.hidden, q = s.query_width(), kv = s.query_groups * s.head_width, f = s.ffn,
                  rows = s.padded_vocab(1);
    const int64_t matrices = h * q + 2 * h * kv + q * h + (s.is_gated() ? 3 : 2) * h * f;
    const int64_t biases = s.has_bias ? q + 2 * kv + h + f + h : 0;
    const int64_t norm = s.has_norm_bias() ? 2 * h : h;
    const int64_t expected = s.layers * (matrices + biases + 2 * norm) + norm + rows * h * (s.is_head_tied ? 1 : 2) +
                             (s.positions == GptPositions::kLearned ? s.max_positions * h : 0);
    EXPECT_EQ(gpt_cost(s).parameters, expected) << name;
  }
}

TEST(GptShape, VocabularyIsPaddedByTensorRanks) {
  GptShape shape = resolve_gpt_shape("gpt2");
  EXPECT_EQ(shape.padded_vocab(1), 50304);
  EXPECT_EQ(shape.padded_vocab(2), 50432);
  EXPECT_EQ(shape.padded_vocab(4), 50688);
  EXPECT_EQ(shape.padded_vocab(8), 51200);
  shape.vocab_multiple = 1;
  EXPECT_EQ(shape.padded_vocab(1), 50257);
  EXPECT_EQ(resolve_gpt_shape("nemotron4-340b").padded_vocab(8), 256000) << "a multiple of 1024 already";
}

TEST(GptShape, NotesNameTheOddOnes) {
  EXPECT_TRUE(holds(gpt_model_note("857M"), "355.9 M"));
  EXPECT_TRUE(holds(gpt_model_note("857M"), "gpt-854m"));
  EXPECT_EQ(gpt_model_note("gpt2"), "");
  EXPECT_EQ(gpt_model_note("llama3-8b"), "");
}

TEST(GptShape, WrongNamesAndSizesAreRefused) {
  EXPECT_TRUE(holds(message_of([] { resolve_gpt_shape("nemotron4-340"); }), "did you mean 'nemotron4-340b'?"));
  EXPECT_TRUE(holds(message_of([] { resolve_gpt_shape("mystery-model"); }), "known: gpt2, "));
  GptShape shape = resolve_gpt_shape("nemotron4-15b");
  shape.query_groups = 7;
  EXPECT_TRUE(holds(message_of([&] { check_gpt_shape(shape); }),
                    "7 query groups do not divide 48 heads\n  hint: use --num-query-groups 6 or 8"));
  shape = resolve_gpt_shape("nemotron4-15b");
  shape.rotary_fraction = 0.3;
  EXPECT_TRUE(holds(message_of([&] { check_gpt_shape(shape); }), "even number"));
  shape.rotary_fraction = 0;
  EXPECT_TRUE(holds(message_of([&] { check_gpt_shape(shape); }), "out of range"));
  shape = resolve_gpt_shape("gpt2");
  shape.sequence = 2048;
  EXPECT_TRUE(holds(message_of([&] { check_gpt_shape(shape); }), "--max-position-embeddings 2048"));
  shape = resolve_gpt_shape("gpt2");
  shape.fixed_vocab = 50000;
  EXPECT_TRUE(holds(message_of([&] { check_gpt_shape(shape); }), "below the vocabulary of 50257"));
  shape = resolve_gpt_shape("gpt2");
  shape.hidden_dropout = 1;
  EXPECT_TRUE(holds(message_of([&] { check_gpt_shape(shape); }), "dropout 1 is out of range"));
}

TEST(GptShape, ReadsConfigurationsOfHuggingFace) {
  const GptShape gpt2 = parse_gpt_shape(
      R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
    "vocab_size": 50257, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "summary_type": "cls_index", "bos_token_id": 50256})",
      "config.json");
  EXPECT_EQ(gpt_cost(gpt2).parameters, 124'439'808) << "no padding: the softmax runs over the file's rows";
  const GptShape llama = parse_gpt_shape(
      R"({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128,
    "num_hidden_layers": 126, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "tie_word_embeddings": false, "hidden_act": "silu", "mlp_bias": false})",
      "config.json");
  const GptShape named = resolve_gpt_shape("llama3-405b");
  EXPECT_EQ(gpt_cost(llama).parameters, gpt_cost(named).parameters);
  ASSERT_TRUE(llama.rotary_scaling.has_value());
  EXPECT_EQ(llama.rotary_scaling->factor, 8);
  EXPECT_EQ(llama.rotary_base, named.rotary_base);
  EXPECT_TRUE(holds(message_of([] { parse_gpt_shape(R"({"model_type": "bert"})", "c.json"); }),
                    "'c.json': 'model_type' must be gpt2, llama or nemotron, found \"bert\""));
  EXPECT_TRUE(holds(message_of([] { parse_gpt_shape(R"({"model_type": "gpt2", "n_heads": 12})", "c.json"); }),
                    "did you mean 'n_head'?"));
  EXPECT_TRUE(holds(message_of([] {
                      parse_gpt_shape(R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}})", "c.json");
                    }),
                    "yarn"));
  EXPECT_TRUE(holds(message_of([] { parse_gpt_shape(R"({"model_type": "gpt2", "n_head": 0})", "c.json"); }),
                    "heads=0 is out of range"));
  EXPECT_TRUE(holds(message_of([] { parse_gpt_shape(R"({"model_type": "gpt2", )", "c.json"); }), "c.json"));
  EXPECT_TRUE(
      holds(message_of([] { parse_gpt_shape(R"({"model_type": "gpt2", "n_embd": 9223372036854775807})", "c.json"); }),
            "'n_embd' must be an integer of at most 10^12"));
}

TEST(GptParams, SplitLawsAndGroups) {
  const GptShape shape = resolve_gpt_shape("nemotron4-15b");
  std::map<std::string, ParamSpec> by_name;
  for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape), 4))
    EXPECT_TRUE(by_name.emplace(spec.name, spec).second) << spec.name;
  const auto& qkv = by_name.at("layers.31.attention.qkv.weight");
  EXPECT_EQ(local_shape(qkv, 4), (std::vector<int64_t>{(48 + 16) * 128 / 4, 6144}));
  EXPECT_DOUBLE_EQ(qkv.init.deviation, 0.0134);
  const auto& fc2 = by_name.at("layers.0.mlp.fc2.weight");
  EXPECT_EQ(local_shape(fc2, 4), (std::vector<int64_t>{6144, 24576 / 4}));
  EXPECT_DOUBLE_EQ(fc2.init.deviation, 0.0134 / 8) << "sqrt(2 x 32 layers)";
  const auto& gain = by_name.at("layers.0.norm_1.weight");
  EXPECT_EQ(gain.init.kind, InitLaw::Kind::kZeros) << "LayerNorm1p stores the gain minus 1";
  EXPECT_TRUE(gain.is_partial_over_tokens);
  EXPECT_FALSE(gain.weight_decay);
  EXPECT_FALSE(by_name.contains("layers.0.mlp.fc2.bias"));
  EXPECT_FALSE(by_name.contains("embedding.position.weight"));
  EXPECT_EQ(by_name.at("head.weight").split_dim, 0);
  EXPECT_TRUE(by_name.at("head.weight").weight_decay);
}

TEST(GptParams, SequencePartialOnesAreExactlyTheReplicatedOnes) {
  for (const char* name : {"gpt2", "llama3-8b", "nemotron4-15b"}) {
    const GptShape shape = resolve_gpt_shape(name);
    int64_t num_replicated = 0;
    for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape))) {
      EXPECT_EQ(spec.is_partial_over_tokens, !spec.split_dim.has_value()) << spec.name;
      num_replicated += !spec.split_dim;
      EXPECT_EQ(spec.weight_decay, spec.shape.size() > 1 && !spec.name.ends_with(".bias")) << spec.name;
    }
    EXPECT_GT(num_replicated, 2 * shape.layers);
  }
  GptShape shape = resolve_gpt_shape("gpt2");
  shape.embedding_init_std = 1.0;
  const auto specs = gpt_param_specs(shape, whole_gpt(shape));
  EXPECT_FALSE(specs[0].weight_decay);
  EXPECT_EQ(specs[0].init.deviation, 1.0);
  EXPECT_FALSE(specs[1].weight_decay);
}

/// Megatron's --embedding-init-method-std, of which 1 is the usual value, is of the embeddings alone: logits of a head
/// that begins so large are far from even.
TEST(GptParams, AHeadOfItsOwnBeginsAndDecaysAsOtherMatricesDo) {
  GptShape shape = resolve_gpt_shape("llama3-8b");
  shape.embedding_init_std = 1.0;
  for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape))) {
    if (spec.name == kGptWordEmbedding) {
      EXPECT_EQ(spec.init.deviation, 1.0);
      EXPECT_FALSE(spec.weight_decay);
    } else if (spec.name == kGptHead) {
      EXPECT_EQ(spec.init.deviation, shape.init_std);
      EXPECT_TRUE(spec.weight_decay);
    }
  }
}

TEST(GptParams, PartsTogetherAreTheModel) {
  for (const char* name : {"gpt2", "llama3-8b"}) {
    const GptShape shape = resolve_gpt_shape(name);
    const int64_t half = shape.layers / 2;
    const auto first = gpt_param_specs(shape, {.num_layers = half, .has_embedding = true});
    const auto last =
        gpt_param_specs(shape, {.first_layer = half, .num_layers = shape.layers - half, .has_head = true});
    std::vector<std::string> joined, whole;
    for (const auto* part : {&first, &last})
      for (const ParamSpec& spec : *part)
        if (!spec.is_tied_copy) joined.push_back(spec.name);
    for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape))) whole.push_back(spec.name);
    EXPECT_EQ(joined, whole);
    EXPECT_EQ(last.back().is_tied_copy, shape.is_head_tied);
    EXPECT_EQ(last.back().name, shape.is_head_tied ? "embedding.word.weight" : "head.weight");
    if (shape.is_head_tied) {
      EXPECT_EQ(last.back().init.deviation, first.front().init.deviation);
    }
  }
}

/// Every foreign tensor's elements once, and together as many as our parameters have (padding rows aside).
void check_names(const GptShape& shape, GptDialect dialect) {
  std::set<std::string> names;
  int64_t foreign = 0;
  for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape))) {
    std::vector<int64_t> rows;
    for (const ForeignTensor& tensor : foreign_tensors(shape, spec, dialect)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      int64_t numel = 1;
      for (const int64_t size : tensor.shape) numel *= size;
      foreign += numel;
      for (const int64_t row : own_rows(shape, spec, tensor.rows)) rows.push_back(row);
    }
    std::sort(rows.begin(), rows.end());
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], static_cast<int64_t>(i)) << spec.name;
  }
  EXPECT_EQ(foreign, dialect == GptDialect::kMegatron ? gpt_cost(shape).parameters : unpadded_parameters(shape));
}

TEST(GptNames, EveryElementHasOnePlace) {
  check_names(resolve_gpt_shape("gpt2"), GptDialect::kHfGpt2);
  check_names(resolve_gpt_shape("llama3-8b"), GptDialect::kHfLlama);
  check_names(resolve_gpt_shape("nemotron4-15b"), GptDialect::kHfNemotron);
  for (const char* name : {"gpt2", "llama3-8b", "nemotron4-15b"})
    check_names(resolve_gpt_shape(name), GptDialect::kMegatron);
}

TEST(GptNames, AsTheFilesHaveThem) {
  const GptShape gpt2 = resolve_gpt_shape("gpt2"), llama = resolve_gpt_shape("llama3-8b"),
                 nemotron = resolve_gpt_shape("nemotron4-15b");
  const auto names = [](const GptShape& shape, const std::string& own, GptDialect dialect) {
    for (const ParamSpec& spec : gpt_param_specs(shape, whole_gpt(shape)))
      if (spec.name == own) return foreign_tensors(shape, spec, dialect);
    return std::vector<ForeignTensor>{};
  };
  using Tensors = std::vector<ForeignTensor>;
  EXPECT_EQ(names(gpt2, "layers.3.attention.qkv.weight", GptDialect::kHfGpt2),
            (Tensors{{"transformer.h.3.attn.c_attn.weight", {768, 2304}, GptRows::kQueryKeyValue, true}}));
  EXPECT_EQ(names(gpt2, "layers.3.mlp.fc1.bias", GptDialect::kHfGpt2),
            (Tensors{{"transformer.h.3.mlp.c_fc.bias", {3072}, GptRows::kAll, false}}));
  EXPECT_EQ(names(gpt2, "embedding.word.weight", GptDialect::kHfGpt2),
            (Tensors{{"transformer.wte.weight", {50257, 768}, GptRows::kTokens, false}}));
  EXPECT_EQ(names(llama, "layers.0.attention.qkv.weight", GptDialect::kHfLlama),
            (Tensors{{"model.layers.0.self_attn.q_proj.weight", {4096, 4096}, GptRows::kQuery, false},
                     {"model.layers.0.self_attn.k_proj.weight", {1024, 4096}, GptRows::kKey, false},
                     {"model.layers.0.self_attn.v_proj.weight", {1024, 4096}, GptRows::kValue, false}}));
  EXPECT_EQ(names(llama, "layers.0.mlp.fc1.weight", GptDialect::kHfLlama),
            (Tensors{{"model.layers.0.mlp.gate_proj.weight", {14336, 4096}, GptRows::kGate, false},
                     {"model.layers.0.mlp.up_proj.weight", {14336, 4096}, GptRows::kUp, false}}));
  EXPECT_EQ(names(llama, "head.weight", GptDialect::kHfLlama),
            (Tensors{{"lm_head.weight", {128256, 4096}, GptRows::kTokens, false}}));
  EXPECT_EQ(names(nemotron, "final_norm.bias", GptDialect::kMegatron),
            (Tensors{{"decoder.final_layernorm.bias", {6144}, GptRows::kAll, false}}));
  EXPECT_EQ(hugging_face_dialect(gpt2), GptDialect::kHfGpt2);
  EXPECT_EQ(hugging_face_dialect(llama), GptDialect::kHfLlama);
  EXPECT_EQ(hugging_face_dialect(nemotron), GptDialect::kHfNemotron);
  EXPECT_EQ(names(nemotron, "layers.0.mlp.fc1.weight", GptDialect::kHfNemotron),
            (Tensors{{"model.layers.0.mlp.up_proj.weight", {24576, 6144}, GptRows::kAll, false}}));
  GptShape with_biases = nemotron;
  with_biases.has_bias = true;
  EXPECT_TRUE(holds(message_of([&] { hugging_face_dialect(with_biases); }),
                    "not GPT-2 (its positions are rope), Llama (its positions are not"));
  EXPECT_TRUE(holds(message_of([&] { hugging_face_dialect(with_biases); }), "Nemotron (it has biases)"));
  EXPECT_TRUE(holds(message_of([&] { names(llama, "head.weight", GptDialect::kHfGpt2); }), "is no GPT-2 model"));
}

TEST(GptNames, QueriesKeysAndValuesComeGroupByGroup) {
  GptShape shape{.heads = 4, .query_groups = 2, .head_width = 2};  // rows: q0 q1 k0 v0 | q2 q3 k1 v1, two rows each
  const ParamSpec qkv{.name = "layers.0.attention.qkv.weight", .shape = {16, 8}, .init = {}, .split_dim = 0};
  EXPECT_EQ(own_rows(shape, qkv, GptRows::kQuery), (std::vector<int64_t>{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(own_rows(shape, qkv, GptRows::kKey), (std::vector<int64_t>{4, 5, 12, 13}));
  EXPECT_EQ(own_rows(shape, qkv, GptRows::kValue), (std::vector<int64_t>{6, 7, 14, 15}));
  EXPECT_EQ(own_rows(shape, qkv, GptRows::kQueryKeyValue),
            (std::vector<int64_t>{0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}));
}

}  // namespace
}  // namespace lockstep::config
