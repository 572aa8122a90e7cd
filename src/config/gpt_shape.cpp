#include "config/gpt_shape.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "config/hub_names.h"
#include "config/shape_check.h"
#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

struct GptRow {
  std::string_view name;
  std::string_view aliases;  ///< Separated by spaces.
  int64_t layers, hidden, heads, sequence;
  std::string_view note = "";
};

constexpr std::string_view kLabelNote =
    "the EPICURE language study calls its small model 857M; the example it was added to lists this shape under that "
    "name, which has 355.9 M parameters. "
    "gpt-854m is a model of the size that the name says";

// GPT-2: Radford et al. 2019. gpt3-*: Brown et al. 2020, table 2.1, but for 16 heads of 128 at 1.3b, where the printed
// 24 do not fit the width, and 5120 instead of 5140 at 13b. 126m, 5b, 20b, 40b, the labels and 854m: see the facts of
// issue 6.
constexpr std::array kPlain{
    GptRow{"gpt2", "gpt2-small 124m", 12, 768, 12, 1024},
    GptRow{"gpt2-medium", "", 24, 1024, 16, 1024},
    GptRow{"gpt2-large", "", 36, 1280, 20, 1024},
    GptRow{"gpt2-xl", "", 48, 1600, 25, 1024},
    GptRow{"gpt3-126m", "126m 125m gpt3-125m", 12, 768, 12, 2048},
    GptRow{"gpt-345m-label", "345m", 12, 512, 8, 1024,
           "the label of an example's shape that has 64.1 M parameters; gpt2-medium is the usual model of that size"},
    GptRow{"gpt-857m-label", "857m gpt-857m", 24, 1024, 16, 2048, kLabelNote},
    GptRow{"gpt-854m", "854m", 40, 1280, 20, 2048},
    GptRow{"gpt3-350m", "350m", 24, 1024, 16, 2048},
    GptRow{"gpt3-760m", "760m", 24, 1536, 16, 2048},
    GptRow{"gpt3-1.3b", "1.3b", 24, 2048, 16, 2048},
    GptRow{"gpt3-2.7b", "2.7b", 32, 2560, 32, 2048},
    GptRow{"gpt3-5b", "5b", 24, 4096, 32, 2048},
    GptRow{"gpt3-6.7b", "6.7b", 32, 4096, 32, 2048},
    GptRow{"gpt3-13b", "13b", 40, 5120, 40, 2048},
    GptRow{"gpt3-20b", "20b", 44, 6144, 48, 2048},
    GptRow{"gpt3-40b", "40b", 48, 8192, 64, 2048},
    GptRow{"gpt3-175b", "175b", 96, 12288, 96, 2048},
};

struct NemotronRow {
  std::string_view name, aliases;
  int64_t layers, hidden, heads, groups, ffn;
  double init_std;
};
constexpr std::array kNemotrons{
    NemotronRow{"nemotron4-15b", "nemotron-15b", 32, 6144, 48, 8, 24576, 0.0134},
    NemotronRow{"nemotron4-340b", "nemotron-340b", 96, 18432, 96, 8, 73728, 0.0063},
};

struct LlamaRow {
  std::string_view name, aliases;
  int64_t layers, hidden, heads, ffn;
  bool is_stretched;  ///< Rotary frequencies of release 3.1.
};
constexpr std::array kLlamas{
    LlamaRow{"llama3-8b", "", 32, 4096, 32, 14336, false},
    LlamaRow{"llama3-70b", "", 80, 8192, 64, 28672, false},
    LlamaRow{"llama3-405b", "llama3.1-405b", 126, 16384, 128, 53248, true},
};

GptShape plain_shape(const GptRow& row) {
  GptShape shape{.name = std::string(row.name),
                 .layers = row.layers,
                 .hidden = row.hidden,
                 .heads = row.heads,
                 .query_groups = row.heads,
                 .head_width = row.hidden / row.heads,
                 .ffn = 4 * row.hidden,
                 .sequence = row.sequence,
                 .max_positions = row.sequence};
  if (row.name == "gpt3-175b") {
    shape.fixed_vocab = 51200;  // as published with 8 tensor ranks; so every layout trains the same model
    shape.init_std = 0.006;
  }
  return shape;
}

GptShape nemotron_shape(const NemotronRow& row) {
  return {.name = std::string(row.name),
          .layers = row.layers,
          .hidden = row.hidden,
          .heads = row.heads,
          .query_groups = row.groups,
          .head_width = row.hidden / row.heads,
          .ffn = row.ffn,
          .vocab = 256000,
          .sequence = 4096,
          .max_positions = 4096,
          .positions = GptPositions::kRotary,
          .rotary_fraction = 0.5,
          .activation = GptActivation::kSquaredRelu,
          .norm = GptNorm::kLayerNorm1p,
          .has_bias = false,
          .is_head_tied = false,
          .init_std = row.init_std,
          .hidden_dropout = 0.0,
          .attention_dropout = 0.0};
}

GptShape llama_shape(const LlamaRow& row) {
  GptShape shape{.name = std::string(row.name),
                 .layers = row.layers,
                 .hidden = row.hidden,
                 .heads = row.heads,
                 .query_groups = 8,
                 .head_width = row.hidden / row.heads,
                 .ffn = row.ffn,
                 .vocab = 128256,
                 .sequence = 8192,
                 .max_positions = row.is_stretched ? 131072 : 8192,
                 .positions = GptPositions::kRotary,
                 .rotary_base = 500000.0,
                 .activation = GptActivation::kSwiglu,
                 .norm = GptNorm::kRmsNorm,
                 .has_bias = false,
                 .is_head_tied = false,
                 .hidden_dropout = 0.0,
                 .attention_dropout = 0.0};
  if (row.is_stretched) shape.rotary_scaling = RotaryScaling{};
  return shape;
}

/// Calls visit(row, make) for every named model until it returns true.
template <typename Visit> bool visit_rows(Visit&& visit) {
  for (const GptRow& row : kPlain)
    if (visit(row, plain_shape)) return true;
  for (const NemotronRow& row : kNemotrons)
    if (visit(row, nemotron_shape)) return true;
  for (const LlamaRow& row : kLlamas)
    if (visit(row, llama_shape)) return true;
  return false;
}

template <typename AnyRow> bool goes_by(const AnyRow& row, const std::string& lower) {
  const auto aliases = core::split(row.aliases, " ");
  return row.name == lower || (!lower.empty() && std::count(aliases.begin(), aliases.end(), lower) > 0);
}

std::optional<GptShape> find_named_gpt(std::string_view name) {
  const std::string lower = core::to_lower_ascii(name);
  std::optional<GptShape> found;
  visit_rows([&](const auto& row, auto make) {
    if (goes_by(row, lower)) found = make(row);
    return found.has_value();
  });
  return found;
}

struct Stranger {
  std::string_view begin, near;
};

constexpr std::string_view kLlama2 =
    "llama3-8b and llama3-70b are the models of about that size; flags change their shapes (--num-layers, "
    "--ffn-hidden-size, --num-query-groups)";

// Common names that stand for no model here, by how they begin, with what is near.
constexpr std::array kStrangers{
    Stranger{"mixtral",
             "mixtures of experts are not in this version; llama3-8b is a dense model of the size of one expert"},
    Stranger{
        "mistral",
        "llama3-8b with --vocab-size 32000 --rotary-base 10000 has the shape of Mistral 7B, but attends to all tokens"},
    Stranger{"deepseek", "mixtures of experts are not in this version; llama3-70b is a dense model of such widths"},
    Stranger{"llama2", kLlama2},
    Stranger{"llama-2", kLlama2},
    Stranger{"qwen", "llama3-8b with --add-qkv-bias and --vocab-size 151936 is of that kind"},
    Stranger{"gemma", "llama3-8b is of that kind, but with SiLU instead of GELU in its gates"},
    Stranger{"phi",
             "llama3-8b is of that kind; flags change its shape (--num-layers, --hidden-size, --num-attention-heads)"},
    Stranger{"falcon", "gpt3-6.7b and gpt3-40b with --position-embedding-type rope are of about that kind and size"},
    Stranger{"opt", "gpt3-125m to gpt3-175b have the shapes of OPT, but GELU instead of ReLU"},
    Stranger{"bloom", "gpt3-175b is of that size, with learned positions instead of ALiBi"},
    Stranger{"pythia",
             "gpt3-1.3b, gpt3-2.7b and gpt3-6.7b with --position-embedding-type rope --rotary-percent 0.25 are of "
             "about that kind and size"},
    Stranger{"gpt-neo", "gpt3-2.7b and gpt3-20b are of about that kind and size"},
    Stranger{"gpt-j", "gpt3-6.7b with --position-embedding-type rope is of about that kind and size"},
    Stranger{"megatron",
             "gpt2-medium is the usual model of 345 M parameters; give other shapes with --num-layers, --hidden-size "
             "and --num-attention-heads"},
};

[[noreturn]] void throw_unknown_gpt(std::string_view model) {
  const std::string lower = core::to_lower_ascii(model);
  for (const Stranger& stranger : kStrangers)
    if (core::starts_with(lower, stranger.begin))
      throw UsageError(
          fmt::format("gpt: '{}' is no model here", model),
          fmt::format("{}; a config.json of Hugging Face is taken, too, if it is of GPT-2, Llama or Nemotron",
                      stranger.near));
  std::vector<std::string> names = gpt_model_names();
  const std::string known = core::join(names, ", ");
  visit_rows([&](const auto& row, auto) {
    for (const std::string& alias : core::split(row.aliases, " "))
      if (!alias.empty()) names.push_back(alias);
    return false;
  });
  const auto nearest = core::nearest_name(model, names);
  throw UsageError(fmt::format("gpt: unknown model '{}'", model),
                   hint_for_name(model, "give its config.json with --model, and its folder with --load",
                                 nearest ? fmt::format("did you mean '{}'?", *nearest)
                                         : fmt::format("known: {}; or a config.json of Hugging Face", known)));
}

/// "--num-query-groups 4 or 8": the divisors of `whole` next to `value`.
std::string near_divisors(int64_t whole, int64_t value) {
  int64_t below = std::clamp<int64_t>(value, 1, whole), above = below;
  while (whole % below != 0) --below;
  while (whole % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

void check_heads(const GptShape& shape) {
  require_between(shape, "heads", shape.heads, 1, 65536);
  require_between(shape, "query groups", shape.query_groups, 1, shape.heads);
  require(shape.heads % shape.query_groups == 0, shape,
          fmt::format("{} query groups do not divide {} heads", shape.query_groups, shape.heads),
          fmt::format("use --num-query-groups {}", near_divisors(shape.heads, shape.query_groups)));
  require_between(shape, "head width", shape.head_width, 1, 65536);
}

void check_positions(const GptShape& shape) {
  require_between(shape, "sequence", shape.sequence, 1, int64_t{1} << 24);
  require_between(shape, "positions", shape.max_positions, 1, int64_t{1} << 24);
  require(shape.positions == GptPositions::kNone || shape.sequence <= shape.max_positions, shape,
          fmt::format("sequences of {} tokens are longer than its {} positions", shape.sequence, shape.max_positions),
          fmt::format("lower --seq-length, or set --max-position-embeddings {}", shape.sequence));
  if (shape.positions != GptPositions::kRotary) return;
  require(shape.rotary_fraction > 0 && shape.rotary_fraction <= 1, shape,
          fmt::format("rotary part {} of a head is out of range, expected above 0, at most 1", shape.rotary_fraction),
          "set --rotary-percent");
  require(std::isfinite(shape.rotary_base) && shape.rotary_base > 1, shape,
          fmt::format("rotary base {} must be above 1", shape.rotary_base));
  const double turned = shape.rotary_fraction * static_cast<double>(shape.head_width);
  require(shape.rotary_width() > 0 && turned == static_cast<double>(shape.rotary_width()), shape,
          fmt::format("{} of the head width {} is no even number of elements, which rotary positions turn in pairs",
                      shape.rotary_fraction, shape.head_width),
          "set --rotary-percent or --kv-channels so that their product is even");
}

}  // namespace

std::string_view gpt_positions_name(GptPositions positions) {
  return positions == GptPositions::kLearned  ? "learned_absolute"
         : positions == GptPositions::kRotary ? "rope"
                                              : "none";
}

std::string_view gpt_activation_name(GptActivation activation) {
  constexpr std::array<std::string_view, 4> kNames{"gelu", "gelu-tanh", "squared-relu", "swiglu"};
  return kNames.at(static_cast<size_t>(activation));
}

std::string_view gpt_norm_name(GptNorm norm) {
  constexpr std::array<std::string_view, 3> kNames{"LayerNorm", "LayerNorm1p", "RMSNorm"};
  return kNames.at(static_cast<size_t>(norm));
}

int64_t GptShape::rotary_width() const {
  if (positions != GptPositions::kRotary) return 0;
  return static_cast<int64_t>(rotary_fraction * static_cast<double>(head_width)) / 2 * 2;
}

int64_t GptShape::padded_vocab(int64_t tp) const {
  if (fixed_vocab) return *fixed_vocab;
  const int64_t step = vocab_multiple * tp;
  return (vocab + step - 1) / step * step;
}

int64_t swiglu_ffn(int64_t hidden) { return 8 * hidden / 3 / 64 * 64; }

std::vector<std::string> gpt_model_names() {
  std::vector<std::string> names;
  visit_rows([&](const auto& row, auto) {
    names.emplace_back(row.name);
    return false;
  });
  return names;
}

std::string gpt_model_note(std::string_view name) {
  const std::string lower = core::to_lower_ascii(name);
  for (const GptRow& row : kPlain)
    if (goes_by(row, lower)) return std::string(row.note);
  return "";
}

void check_gpt_shape(const GptShape& shape) {
  require_between(shape, "layers", shape.layers, 1, 10000);
  require_between(shape, "hidden", shape.hidden, 1, 1 << 20);
  require_between(shape, "feed-forward width", shape.ffn, 1, 1 << 22);
  check_heads(shape);
  require_between(shape, "vocabulary", shape.vocab, 2, 1 << 24);
  require_between(shape, "vocabulary multiple", shape.vocab_multiple, 1, 1 << 20);
  require(!shape.fixed_vocab || *shape.fixed_vocab >= shape.vocab, shape,
          fmt::format("a padded vocabulary of {} is below the vocabulary of {}", shape.fixed_vocab.value_or(0),
                      shape.vocab),
          "raise --padded-vocab-size");
  check_positions(shape);
  require(std::isfinite(shape.norm_eps) && shape.norm_eps > 0, shape,
          fmt::format("norm epsilon {} must be above 0", shape.norm_eps));
  require(std::isfinite(shape.init_std) && shape.init_std > 0, shape,
          fmt::format("initial deviation {} must be above 0", shape.init_std));
  for (const double rate : {shape.hidden_dropout, shape.attention_dropout})
    require(rate >= 0 && rate < 1, shape, fmt::format("dropout {} is out of range, expected 0 <= rate < 1", rate));
}

GptShape resolve_gpt_shape(std::string_view model) {
  GptShape shape;
  if (core::ends_with(model, ".json")) {
    shape = parse_gpt_shape(core::read_named_file(std::filesystem::path(model), "model configuration"), model);
  } else if (auto found = find_named_gpt(model)) {
    shape = std::move(*found);
  } else {
    throw_unknown_gpt(model);
  }
  check_gpt_shape(shape);
  return shape;
}

}  // namespace lockstep::config
