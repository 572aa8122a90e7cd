#include "models/openclip_order.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>

#include "core/strings.h"

namespace lockstep::models {
namespace {

using NamedValue = NamedValues::value_type;

/// What stands at the top of a CLIP model, where OpenCLIP's order is not that of a forward pass; and of a CoCa model.
/// Position embeddings of pictures that do not learn are a buffer here, and OpenCLIP's parameter.
constexpr std::array kTop{"positional_embedding",
                          "text_projection",
                          "logit_scale",
                          "logit_bias",
                          "visual.class_embedding",
                          "visual.positional_embedding",
                          "visual.",
                          "text.",
                          "transformer.",
                          "token_embedding.",
                          "ln_final.",
                          "text_projection."};
constexpr std::array kCaptionTop{
    "logit_scale", "logit_bias",   "text.", "visual.class_embedding", "visual.positional_embedding",
    "visual.",     "text_decoder."};

/// Of the first that is the name, or the module that the name is in.
size_t top_place(std::string_view name, std::span<const char* const> tops) {
  const auto found = std::find_if(tops.begin(), tops.end(), [&](std::string_view top) {
    return top.back() == '.' ? core::starts_with(name, top) : name == top;
  });
  return static_cast<size_t>(found - tops.begin());
}

/// Tensors that a module has itself keep their order, and so do its children by the first of each.
void list_module(const std::vector<const NamedValue*>& of_module, size_t prefix, std::vector<const NamedValue*>& out) {
  std::vector<std::string> children;
  std::map<std::string, std::vector<const NamedValue*>> of_child;
  for (const NamedValue* value : of_module) {
    const size_t dot = value->first.find('.', prefix);
    if (dot == std::string::npos) {
      out.push_back(value);
      continue;
    }
    const std::string child = value->first.substr(0, dot + 1);
    if (!of_child.contains(child)) children.push_back(child);
    of_child[child].push_back(value);
  }
  for (const std::string& child : children) list_module(of_child.at(child), child.size(), out);
}

}  // namespace

NamedValues in_openclip_order(NamedValues tensors) {
  const bool has_captions = std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) {
    return core::starts_with(entry.first, "text_decoder.");
  });
  const auto tops = has_captions ? std::span<const char* const>(kCaptionTop) : std::span<const char* const>(kTop);
  std::stable_sort(tensors.begin(), tensors.end(), [tops](const auto& a, const auto& b) {
    return top_place(a.first, tops) < top_place(b.first, tops);
  });
  std::vector<const NamedValue*> all, ordered;
  for (const auto& value : tensors) all.push_back(&value);
  list_module(all, 0, ordered);
  NamedValues out;
  for (const NamedValue* value : ordered) out.push_back(*value);
  return out;
}

}  // namespace lockstep::models
