#include "models/openclip_order.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/strings.h"

namespace lockstep::models {
namespace {

using NamedValue = NamedValues::value_type;

/// What stands at the top of a CLIP model, where OpenCLIP's order is not that of a forward pass.
constexpr std::array kTop{"positional_embedding", "text_projection",  "logit_scale", "logit_bias", "visual.",
                          "transformer.",         "token_embedding.", "ln_final."};

size_t top_place(const std::string& name) {
  const auto found =
      std::find_if(kTop.begin(), kTop.end(), [&](const char* top) { return core::starts_with(name, top); });
  return static_cast<size_t>(found - kTop.begin());
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
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return top_place(a.first) < top_place(b.first); });
  std::vector<const NamedValue*> all, ordered;
  for (const auto& value : tensors) all.push_back(&value);
  list_module(all, 0, ordered);
  NamedValues out;
  for (const NamedValue* value : ordered) out.push_back(*value);
  return out;
}

}  // namespace lockstep::models
