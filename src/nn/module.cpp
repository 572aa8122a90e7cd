#include "nn/module.h"

#include <utility>

#include "core/error.h"

namespace lockstep::nn {

std::vector<NamedTensor> Module::named_parameters() {
  std::vector<NamedTensor> found;
  collect("", Entry::Kind::kParameter, found);
  return found;
}

std::vector<NamedTensor> Module::named_buffers() {
  std::vector<NamedTensor> found;
  collect("", Entry::Kind::kBuffer, found);
  return found;
}

void Module::set_training(bool training) {
  training_ = training;
  for (Entry& entry : entries_)
    if (entry.kind == Entry::Kind::kChild) entry.child->set_training(training);
}

void Module::prepare_inference(std::optional<at::ScalarType> type) {
  for (Entry& entry : entries_)
    if (entry.kind == Entry::Kind::kChild) entry.child->prepare_inference(type);
}

std::vector<Module*> Module::units() {
  std::vector<Module*> found;
  collect_units(found);
  return found;
}

void Module::collect_units(std::vector<Module*>& out) {
  if (is_unit_) {
    out.push_back(this);
    return;
  }
  for (Entry& entry : entries_)
    if (entry.kind == Entry::Kind::kChild) entry.child->collect_units(out);
}

void Module::register_parameter(std::string name, at::Tensor& handle) {
  entries_.push_back({Entry::Kind::kParameter, std::move(name), &handle, nullptr});
}

void Module::register_buffer(std::string name, at::Tensor& handle) {
  entries_.push_back({Entry::Kind::kBuffer, std::move(name), &handle, nullptr});
}

void Module::register_child(std::string name, Module& child) {
  LOCKSTEP_CHECK(&child != this, "name={}", name);
  entries_.push_back({Entry::Kind::kChild, std::move(name), nullptr, &child});
}

void Module::collect(const std::string& prefix, Entry::Kind kind, std::vector<NamedTensor>& out) {
  for (Entry& entry : entries_) {
    if (entry.kind == Entry::Kind::kChild) {
      entry.child->collect(entry.name.empty() ? prefix : prefix + entry.name + ".", kind, out);
    } else if (entry.kind == kind && entry.tensor->defined()) {
      out.push_back({prefix + entry.name, entry.tensor});
    }
  }
}

}  // namespace lockstep::nn
