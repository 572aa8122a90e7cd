#include "models/openclip_order.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "core/strings.h"

namespace lockstep::models {
namespace {

using NamedValue = NamedValues::value_type;

/// What stands at the top of a CLIP model, where OpenCLIP's order is not that of a forward pass; and of a CoCa model.
constexpr std::array kTop{"positional_embedding", "text_projection",  "logit_scale", "logit_bias", "visual.", "text.",
                          "transformer.",         "token_embedding.", "ln_final."};
constexpr std::array kCaptionTop{"logit_scale", "logit_bias", "text.", "visual.", "text_decoder."};

size_t top_place(const std::string& name, std::span<const char* const> tops) {
  const auto found =
      std::find_if(tops.begin(), tops.end(), [&](const char* top) { return core::starts_with(name, top); });
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
