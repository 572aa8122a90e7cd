#include "config/param_list.h"

namespace lockstep::config {

bool decays_in_openclip(const std::string& name, const std::vector<int64_t>& shape) {
  if (shape.size() < 2) return false;
  for (const char* part : {"bn", "ln", "bias", "logit_scale"})
    if (name.find(part) != std::string::npos) return false;
  return true;
}

void ParamList::add(const std::string& name, std::vector<int64_t> shape, InitLaw init, bool low_precision) {
  const bool decay = !carried_ && decays_in_openclip(name, shape);
  specs_.push_back({.name = name,
                    .shape = std::move(shape),
                    .init = init,
                    .weight_decay = decay,
                    .keeps_fp32 = carried_ || !low_precision,
                    .is_buffer = carried_,
                    .is_carried = carried_});
}

void ParamList::add_buffer(const std::string& name, std::vector<int64_t> shape, InitLaw init) {
  specs_.push_back({.name = name, .shape = std::move(shape), .init = init, .keeps_fp32 = true, .is_buffer = true});
}

void ParamList::add_linear(const std::string& name, int64_t in, int64_t out, InitLaw weight, InitLaw bias) {
  add(name + ".weight", {out, in}, weight, true);
  add(name + ".bias", {out}, bias, true);
}

void ParamList::add_layer_norm(const std::string& name, int64_t width) {
  add(name + ".weight", {width}, ones(), false);
  add(name + ".bias", {width}, zeros(), false);
}

void ParamList::add_conv(const std::string& name, int64_t in, int64_t out, int64_t kernel) {
  add(name + ".weight", {out, in, kernel, kernel}, fan_in(in * kernel * kernel), true);
}

void ParamList::add_batch_norm(const std::string& name, int64_t channels, InitLaw weight) {
  add(name + ".weight", {channels}, weight, false);
  add(name + ".bias", {channels}, zeros(), false);
  add_buffer(name + ".running_mean", {channels}, zeros());
  add_buffer(name + ".running_var", {channels}, ones());
  add_buffer(name + ".num_batches_tracked", {}, zeros());
}

}  // namespace lockstep::config
