#include "nn/captured_call.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/log.h"

namespace lockstep::nn {
namespace {

constexpr size_t kMostCountedForms = 256;  // those that are not recorded yet included

/// Whether a buffer can have the form of the tensor: no two numbers share memory, and none is left out.
bool has_own_memory(const at::Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

std::vector<int64_t> form_of(const std::vector<at::Tensor>& inputs) {
  std::vector<int64_t> form;
  for (const at::Tensor& input : inputs) {
    form.push_back(static_cast<int64_t>(input.scalar_type()));
    form.push_back(input.dim());
    form.insert(form.end(), input.sizes().begin(), input.sizes().end());
    form.insert(form.end(), input.strides().begin(), input.strides().end());
  }
  return form;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

CallRecorder call_recorder(std::string_view cuda_graphs, const at::Device& device) {
  return cuda_graphs == "off" || !device.is_cuda() ? CallRecorder() : cuda_graph_recorder(device);
}

CapturedCall::CapturedCall(TensorCall call, CallRecorder recorder, const CaptureLimits& limits)
    : call_(std::move(call)), recorder_(std::move(recorder)), limits_(limits) {}

int64_t CapturedCall::num_recorded() const {
  return std::count_if(forms_.begin(), forms_.end(), [](const auto& entry) { return entry.second.replay != nullptr; });
}

/// The entry of these inputs, with this call counted.
CapturedCall::Form& CapturedCall::find_form(const std::vector<at::Tensor>& inputs) {
  std::vector<int64_t> key = form_of(inputs);
  if (forms_.size() >= kMostCountedForms && !forms_.contains(key)) {
    const auto oldest = std::min_element(forms_.begin(), forms_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.replay != nullptr, a.second.last_call) <
             std::pair(b.second.replay != nullptr, b.second.last_call);
    });
    forms_.erase(oldest);
  }
  Form& form = forms_[std::move(key)];
  ++form.num_calls;
  form.last_call = num_calls_;
  return form;
}

/// Whether one more may be recorded, for which the least recently used recording may go.
bool CapturedCall::make_room() {
  if (num_recorded() < limits_.most_forms) return true;
  auto oldest = forms_.end();
  for (auto entry = forms_.begin(); entry != forms_.end(); ++entry)
    if (entry->second.replay && (oldest == forms_.end() || entry->second.last_call < oldest->second.last_call))
      oldest = entry;
  if (oldest == forms_.end() || num_calls_ - oldest->second.last_call <= limits_.idle_calls) return false;
  forms_.erase(oldest);
  return true;
}

at::Tensor CapturedCall::operator()(const std::vector<at::Tensor>& inputs) {
  const bool is_small = !inputs.empty() && inputs.front().dim() > 0 && inputs.front().numel() > 0 &&
                        inputs.front().size(0) <= limits_.most_samples;
  if (!recorder_ || !is_small || !std::all_of(inputs.begin(), inputs.end(), has_own_memory)) return call_(inputs);
  ++num_calls_;
  Form& form = find_form(inputs);
  if (form.replay) return form.replay(inputs);
  if (form.num_calls < limits_.least_calls || !make_room()) return call_(inputs);
  try {
    form.replay = recorder_(call_, inputs);
    return form.replay(inputs);
  } catch (const std::exception& error) {
    core::log_warning("nn: a call cannot be recorded and goes on kernel by kernel ({}); --cuda-graphs off does not try",
                      first_line(error.what()));
    forms_.clear();
    recorder_ = nullptr;
    return call_(inputs);
  }
}

}  // namespace lockstep::nn
