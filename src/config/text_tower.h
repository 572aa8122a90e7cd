#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/activation_bytes.h"
#include "config/name_group.h"
#include "config/param_list.h"

namespace lockstep::models {
class TextTower;
struct ClipModelOptions;
}  // namespace lockstep::models

namespace lockstep::config {

struct ClipShape;
struct TextShape;

/// What a kind of text tower must tell; a struct of static functions, listed in text_towers.h.
template <class T>
concept TextTower = requires(const TextShape& text, const ClipShape& shape, ParamList& list, int64_t count,
                             const std::string& prefix, const models::ClipModelOptions& options) {
  { T::kName } -> std::convertible_to<std::string_view>;
  { T::kPacksTexts } -> std::convertible_to<bool>;  // it computes no padding
  {T::check(shape)};                                // UsageError for sizes that do not fit together
  { T::vocab_size(text) } -> std::same_as<int64_t>;
  { T::feature_width(text) } -> std::same_as<int64_t>;  // of its tokens
  { T::has_dropout(text) } -> std::same_as<bool>;
  {T::add_params(list, text, count, prefix)};                        // in forward order; E, names begin with `prefix`
  { T::forward_flops(text, count, count) } -> std::same_as<double>;  // one text; E, token ids
  { T::blocks(text) } -> std::same_as<BlockDims>;                    // with the tokens of a text of nominal length
  { T::lock_groups(text, prefix) } -> std::same_as<std::vector<NameGroup>>;  // from the input on; all else stays free
  { T::build(shape, options) } -> std::same_as<std::unique_ptr<models::TextTower>>;  // in models/clip: engine only
};

}  // namespace lockstep::config
