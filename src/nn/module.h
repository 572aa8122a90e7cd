#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/named_tensor.h"

namespace lockstep::nn {

using comm::NamedTensor;

/// Base of all layers and networks: a tree of children, parameters and buffers in registration order =
/// forward-execution order. Children are members of the derived class; they are registered by reference and never move.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  /// With dotted names from this module down, in registration order.
  std::vector<NamedTensor> named_parameters();
  std::vector<NamedTensor> named_buffers();

  void set_training(bool training);
  bool is_training() const { return training_; }

  /// Products of layers on the CPU with weights packed for them (nn/packed_linear.h) in `type`, wherever no gradient is
  /// asked for; nothing: as before. Parameters must not change meanwhile. Takes as much memory as the weights again.
  virtual void prepare_inference(std::optional<at::ScalarType> type);

  /// A unit is a module whose parameters, its children's included, are read by nobody before about_to_run() was called.
  /// So they may arrive late.
  void declare_unit() { is_unit_ = true; }
  /// From this module down, in registration order. Units lie side by side, not within each other.
  std::vector<Module*> units();
  void set_before_run(std::function<void()> before_run) { before_run_ = std::move(before_run); }
  void about_to_run() const {
    if (before_run_) before_run_();
  }

 protected:
  void register_parameter(std::string name, at::Tensor& handle);  ///< `handle` is an undefined or defined member.
  void register_buffer(std::string name, at::Tensor& handle);
  void register_child(std::string name, Module& child);

 private:
  struct Entry {
    enum class Kind { kParameter, kBuffer, kChild } kind;
    std::string name;
    at::Tensor* tensor;
    Module* child;
  };
  void collect(const std::string& prefix, Entry::Kind kind, std::vector<NamedTensor>& out);
  void collect_units(std::vector<Module*>& out);

  std::vector<Entry> entries_;
  std::function<void()> before_run_;
  bool training_ = true, is_unit_ = false;
};

}  // namespace lockstep::nn
