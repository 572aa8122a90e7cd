#include "plan/pipe_split.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::plan {
namespace {

constexpr const char* kLayoutFlag = "--pipeline-model-parallel-layout";
constexpr int64_t kMostParts = 100'000;

/// The divisors of `whole` on both sides of `value`, from `least` on, that divide `ranks`, too (0: any): "6 or 8"; "":
/// there is none.
std::string near_divisors(int64_t whole, int64_t value, int64_t ranks = 0, int64_t least = 1) {
  const auto is_legal = [&](int64_t number) { return whole % number == 0 && (ranks == 0 || ranks % number == 0); };
  std::vector<std::string> legal;
  int64_t below = std::min(value, whole), above = value;
  while (below >= least && !is_legal(below)) --below;
  while (above <= whole && (above < least || !is_legal(above))) ++above;
  if (below >= least) legal.push_back(fmt::format("{}", below));
  if (above <= whole && above != below) legal.push_back(fmt::format("{}", above));
  return core::join_or(legal);
}

/// Reads the text of a layout: E embedding, t a layer, L the head, | a border, (...)*n a repetition, xN as well as x*N.
class LayoutReader {
 public:
  explicit LayoutReader(const std::string& text) : text_(text) {}

  /// The items of every part, without borders.
  std::vector<std::string> read() {
    const std::string items = read_items(0);
    if (at_ < text_.size()) fail("a ')' that nothing opened");
    return core::split(items, "|");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(fmt::format("plan: {} '{}': {} at character {}", kLayoutFlag, text_, what, at_ + 1),
                     "for example 'Et|(tt|)*3L': E embedding, t layer, L head, | between stages, (...)*N repeats");
  }

  std::string read_items(int depth) {
    std::string items;
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_];
      if (c == ',' || c == ' ') {
        ++at_;
        continue;
      }
      if (c == 'm') fail("m, multi-token prediction, which is not supported,");
      std::string unit;
      if (c == '(') {
        if (depth > 8) fail("too many nested '('");
        ++at_;
        unit = read_items(depth + 1);
        if (at_ >= text_.size()) fail("a '(' that is not closed");
        ++at_;
      } else if (c == 'E' || c == 't' || c == 'L' || c == '|') {
        unit = std::string(1, c);
        ++at_;
      } else {
        fail(fmt::format("'{}'", c));
      }
      for (int64_t i = read_count(); i > 0; --i) {
        items += unit;
        if (static_cast<int64_t>(items.size()) > kMostParts) fail("more than 100000 items");
      }
    }
    return items;
  }

  int64_t read_count() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const auto count = core::parse_int(text_.substr(begin, at_ - begin));
    if (!count || *count < 1 || *count > kMostParts) fail("no number from 1 on behind '*'");
    return *count;
  }

  const std::string& text_;
  size_t at_ = 0;
};

std::vector<config::GptPart> parts_of_text(const config::GptShape& shape, const SplitRequest& request) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw UsageError(fmt::format("plan: {} '{}' {}", kLayoutFlag, request.text, what), hint);
  };
  const std::vector<std::string> items = LayoutReader(request.text).read();
  std::vector<config::GptPart> parts;
  int64_t layer = 0, num_embeddings = 0, num_heads = 0;
  for (const std::string& part : items) {
    const int64_t num_layers = std::count(part.begin(), part.end(), 't');
    parts.push_back({layer, num_layers, part.find('E') != std::string::npos, part.find('L') != std::string::npos});
    layer += num_layers;
    num_embeddings += std::count(part.begin(), part.end(), 'E');
    num_heads += std::count(part.begin(), part.end(), 'L');
  }
  if (layer != shape.layers)
    refuse(fmt::format("has {} layers, expected {} as the model", layer, shape.layers), "write one t for each layer");
  if (num_embeddings != 1 || items.front().find('E') != 0)
    refuse("must begin with its only E", "the embedding belongs to the first stage");
  if (num_heads != 1 || !core::ends_with(items.back(), "L"))
    refuse("must end with its only L", "the head belongs to the last stage");
  if (std::ssize(parts) % request.num_stages != 0)
    refuse(fmt::format("has {} stages, expected a multiple of --pipeline-model-parallel-size {}", parts.size(),
                       request.num_stages),
           fmt::format("use --pipeline-model-parallel-size {}",
                       near_divisors(std::ssize(parts), request.num_stages, request.num_ranks)));
  return parts;
}

void check_one_request(const SplitRequest& request) {
  const int num_requests =
      request.layers_per_chunk.has_value() + request.num_chunks.has_value() + !request.text.empty();
  if (num_requests > 1)
    throw UsageError(fmt::format("plan: at most one of --num-layers-per-virtual-pipeline-stage, "
                                 "--num-virtual-stages-per-pipeline-rank and {} can be given",
                                 kLayoutFlag),
                     "each of them says how many virtual stages there are");
  const bool is_uneven = request.first_layers || request.last_layers,
             counts = request.counts_embedding || request.counts_head;
  if ((is_uneven && counts) || (!request.text.empty() && (is_uneven || counts)))
    throw UsageError(
        "plan: contradictory flags say how many layers the ends of the pipeline have",
        "use one of --decoder-first/last-pipeline-num-layers, --account-for-embedding/loss-in-pipeline-split and " +
            std::string(kLayoutFlag));
}

/// Layers of the first and the last stage given, the others share the rest.
std::vector<int64_t> uneven_layers(const config::GptShape& shape, const SplitRequest& request) {
  const int64_t given = request.first_layers.value_or(0) + request.last_layers.value_or(0);
  const int64_t num_given = request.first_layers.has_value() + request.last_layers.has_value(),
                num_others = request.num_stages - num_given;
  const int64_t rest = shape.layers - given;
  if (num_others < 0 || rest < 0 || (num_others == 0 ? rest != 0 : rest % num_others != 0))
    throw UsageError(
        fmt::format("plan: {} layers without the {} of the ends do not divide among the other {} of {} pipeline stages",
                    shape.layers, given, std::max<int64_t>(num_others, 0), request.num_stages),
        "change --decoder-first-pipeline-num-layers or --decoder-last-pipeline-num-layers");
  std::vector<int64_t> layers(static_cast<size_t>(request.num_stages), num_others > 0 ? rest / num_others : 0);
  if (request.first_layers) layers.front() = *request.first_layers;
  if (request.last_layers) layers.back() = *request.last_layers;
  return layers;
}

/// Chunk by chunk, stage by stage: each stage's layers shared out evenly among its chunks.
std::vector<config::GptPart> parts_of_stages(const std::vector<int64_t>& layers_of_stage, int64_t num_chunks) {
  for (const int64_t layers : layers_of_stage)
    if (layers % num_chunks != 0)
      throw UsageError(
          fmt::format("plan: a pipeline stage of {} layers does not divide into {} virtual stages", layers, num_chunks),
          "choose numbers of layers at the ends that are multiples of the virtual stages");
  std::vector<config::GptPart> parts;
  int64_t layer = 0;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk)
    for (const int64_t layers : layers_of_stage) {
      parts.push_back({.first_layer = layer, .num_layers = layers / num_chunks});
      layer += layers / num_chunks;
    }
  return parts;
}

std::vector<config::GptPart> even_parts(const config::GptShape& shape, const SplitRequest& request,
                                        int64_t num_chunks) {
  const int64_t num_parts = request.num_stages * num_chunks, extra = request.counts_embedding + request.counts_head,
                places = shape.layers + extra;
  if (places % num_parts != 0) {
    const std::string what = extra > 0 ? fmt::format("{} layers and {} for the ends", shape.layers, extra)
                                       : fmt::format("{} layers", shape.layers);
    const std::string how = num_chunks > 1 ? fmt::format(" x {} virtual stages", num_chunks) : "";
    // Both numbers that the user may change, each for the other one as it is.
    std::vector<std::string> hints;
    const auto add = [&](const char* flag, const std::string& numbers) {
      if (!numbers.empty()) hints.push_back(fmt::format("{} {}", flag, numbers));
    };
    if (places % num_chunks == 0)
      add("--pipeline-model-parallel-size",
          near_divisors(places / num_chunks, request.num_stages, request.num_ranks, num_chunks > 1 ? 2 : 1));
    if (num_chunks > 1 && places % request.num_stages == 0)
      add("--num-virtual-stages-per-pipeline-rank", near_divisors(places / request.num_stages, num_chunks));
    if (num_chunks > 1 && hints.empty())
      add("no virtual stages and --pipeline-model-parallel-size",
          near_divisors(places, request.num_stages, request.num_ranks));
    if (num_chunks == 1)
      hints.emplace_back("set --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers");
    const std::string hint = "use " + core::join(hints, ", or ");
    throw UsageError(fmt::format("plan: {} do not divide among {} pipeline stages{}", what, request.num_stages, how),
                     hint);
  }
  std::vector<config::GptPart> parts;
  int64_t layer = 0;
  for (int64_t i = 0; i < num_parts; ++i) {
    const int64_t taken = (i == 0 && request.counts_embedding) + (i == num_parts - 1 && request.counts_head);
    const int64_t num_layers = std::max<int64_t>(0, places / num_parts - taken);
    parts.push_back({.first_layer = layer, .num_layers = num_layers});
    layer += num_layers;
  }
  return parts;
}

}  // namespace

int64_t num_chunks_of(const config::GptShape& shape, const SplitRequest& request) {
  check_one_request(request);
  if (!request.text.empty()) return std::ssize(parts_of_text(shape, request)) / request.num_stages;
  if (request.num_chunks) return *request.num_chunks;
  if (!request.layers_per_chunk) return 1;
  const int64_t per_stage = shape.layers / request.num_stages;
  if (shape.layers % request.num_stages != 0 || per_stage % *request.layers_per_chunk != 0)
    throw UsageError(
        fmt::format("plan: {} layers do not divide among {} pipeline stages with virtual stages of {} layers",
                    shape.layers, request.num_stages, *request.layers_per_chunk),
        shape.layers % request.num_stages != 0
            ? fmt::format("use --pipeline-model-parallel-size {}",
                          near_divisors(shape.layers, request.num_stages, request.num_ranks))
            : fmt::format("use --num-layers-per-virtual-pipeline-stage {}",
                          near_divisors(per_stage, *request.layers_per_chunk)));
  return per_stage / *request.layers_per_chunk;
}

std::vector<config::GptPart> split_layers(const config::GptShape& shape, const SplitRequest& request) {
  LOCKSTEP_CHECK(request.num_stages >= 1, "num_stages={}", request.num_stages);
  const int64_t num_chunks = num_chunks_of(shape, request);
  if (!request.text.empty()) return parts_of_text(shape, request);
  const bool is_uneven = request.first_layers || request.last_layers;
  auto parts =
      is_uneven ? parts_of_stages(uneven_layers(shape, request), num_chunks) : even_parts(shape, request, num_chunks);
  parts.front().has_embedding = true;
  parts.back().has_head = true;
  return parts;
}

}  // namespace lockstep::plan
