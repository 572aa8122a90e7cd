#include "train/checkpointer_optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "models/weights_tensors.h"

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kParts = "parts";  // key of a part's metadata

/// A tensor's memory as one row.
at::Tensor flat_memory(const at::Tensor& tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

/// One segment's tensors by their prefix in files.
std::vector<std::pair<std::string, at::Tensor>> kinds_of(const optim::Segment& segment, const optim::AdamWState& state, const at::Tensor& parameter) {
  std::vector<std::pair<std::string, at::Tensor>> kinds = {{"exp_avg.", state.exp_avg}, {"exp_avg_sq.", state.exp_avg_sq}};
  if (segment.parameter.scalar_type() != parameter.scalar_type()) kinds.emplace_back("master.", segment.parameter.detach());
  return kinds;
}

std::map<std::string, at::Tensor> parameters_of(const CheckpointState& state) {
  std::map<std::string, at::Tensor> out;
  for (const auto& [name, tensor] : state.tensors) out.emplace(name, tensor->detach());
  return out;
}

std::string first_names(const std::set<std::string>& names) {
  constexpr size_t kMost = 10;
  std::vector<std::string> shown(names.begin(), std::next(names.begin(), static_cast<std::ptrdiff_t>(std::min(kMost, names.size()))));
  return fmt::format("{} ({}{})", names.size(), core::join(shown, ", "), names.size() > kMost ? ", ..." : "");
}

/// Everything that the optimiser files of one checkpoint hold, mapped.
class OptimizerFiles {
 public:
  OptimizerFiles(const fs::path& folder, const std::vector<std::string>& names, const std::map<std::string, at::Tensor>& parameters)
      : folder_(folder), parameters_(parameters) {
    for (const auto& name : names) {
      files_.push_back(std::make_unique<core::SafetensorsFile>(folder / name));
      add(*files_.back(), folder / name);
    }
  }
  /// What is wrong with the files for a run that wants `wanted`; else nothing happens.
  void check(const std::set<std::string>& wanted, bool holds_all) const;
  /// Elements [offset, offset + target.numel()) of tensor `entry` in the order of parameter `name`'s memory.
  void copy(const std::string& entry, const std::string& name, int64_t offset, const at::Tensor& target) const;
  const at::Tensor& step(const std::string& name) const { return pieces_.at("step." + name).front().flat; }

 private:
  struct Piece {
    at::Tensor flat;
    int64_t offset = 0;
    std::vector<int64_t> strides{};  // of the parameter whose memory it is a piece of
  };
  void add(const core::SafetensorsFile& file, const fs::path& path);
  Piece piece_of(const at::Tensor& tensor, const at::Tensor& parameter, const core::Json& part) const;
  static int64_t copy_overlaps(const std::vector<const Piece*>& pieces, int64_t offset, const at::Tensor& target);

  fs::path folder_;
  const std::map<std::string, at::Tensor>& parameters_;
  std::vector<std::unique_ptr<core::SafetensorsFile>> files_;
  std::map<std::string, std::vector<Piece>> pieces_;
  std::set<std::string> unknown_, misshaped_;
};

void OptimizerFiles::add(const core::SafetensorsFile& file, const fs::path& path) {
  const auto found = file.metadata().find(kParts);
  const core::Json parts = found == file.metadata().end() ? core::Json() : core::parse_json(found->second, path.string());
  for (const auto& entry : file.entries()) {
    const auto dot = entry.name.find('.');
    const std::string kind = entry.name.substr(0, dot), name = dot == std::string::npos ? "" : entry.name.substr(dot + 1);
    const auto parameter = parameters_.find(name);
    if (parameter == parameters_.end()) {
      unknown_.insert(entry.name);
      continue;
    }
    const auto tensor = models::borrow_tensor(entry, path.string());
    const bool is_step = kind == "step";
    try {
      auto piece = is_step ? Piece{.flat = tensor} : piece_of(tensor, parameter->second, parts.is_null() ? parts : parts.at(name));
      const int64_t end = piece.offset + piece.flat.numel();
      const bool fits = is_step ? tensor.numel() == 1 : piece.offset >= 0 && end <= parameter->second.numel() && piece.strides.size() == static_cast<size_t>(parameter->second.dim());
      if (fits) pieces_[entry.name].push_back(std::move(piece));
      else misshaped_.insert(entry.name);
    } catch (const core::Json::exception& error) {
      throw CheckpointError(fmt::format("train: checkpoint file '{}' does not say where the piece '{}' belongs: {}", path.string(), entry.name, error.what()));
    }
  }
}

OptimizerFiles::Piece OptimizerFiles::piece_of(const at::Tensor& tensor, const at::Tensor& parameter, const core::Json& part) const {
  if (!part.is_null()) return {.flat = tensor.reshape({-1}), .offset = part.at("offset"), .strides = part.at("strides")};
  if (tensor.sizes() != parameter.sizes()) return {.flat = tensor.reshape({-1}), .offset = -1};
  return {.flat = tensor.reshape({-1}), .strides = tensor.strides().vec()};
}

void OptimizerFiles::check(const std::set<std::string>& wanted, bool holds_all) const {
  std::set<std::string> missing, unwanted = unknown_;
  for (const auto& name : wanted)
    if (!pieces_.contains(name) && !misshaped_.contains(name)) missing.insert(name);
  for (const auto& [name, pieces] : pieces_)
    if (holds_all && !wanted.contains(name)) unwanted.insert(name);
  if (missing.empty() && unwanted.empty() && misshaped_.empty()) return;
  throw CheckpointError(fmt::format("train: the optimiser's state in checkpoint '{}' is of another model: missing {}, other shape {}, unknown {}",
                                    folder_.string(), first_names(missing), first_names(misshaped_), first_names(unwanted)),
                        "resume with the options the run was started with");
}

/// Elements copied.
int64_t OptimizerFiles::copy_overlaps(const std::vector<const Piece*>& pieces, int64_t offset, const at::Tensor& target) {
  int64_t num_copied = 0;
  for (const Piece* piece : pieces) {
    const int64_t from = std::max(offset, piece->offset);
    const int64_t to = std::min(offset + target.numel(), piece->offset + piece->flat.numel());
    if (from >= to) continue;
    target.narrow(0, from - offset, to - from).copy_(piece->flat.narrow(0, from - piece->offset, to - from));
    num_copied += to - from;
  }
  return num_copied;
}

void OptimizerFiles::copy(const std::string& entry, const std::string& name, int64_t offset, const at::Tensor& target) const {
  const at::Tensor& parameter = parameters_.at(name);
  std::map<std::vector<int64_t>, std::vector<const Piece*>> by_strides;
  for (const Piece& piece : pieces_.at(entry)) by_strides[piece.strides].push_back(&piece);
  int64_t num_copied = 0, num_wanted = target.numel();
  const auto& [strides, pieces] = *by_strides.begin();
  if (by_strides.size() == 1 && at::IntArrayRef(strides) == parameter.strides()) {
    num_copied = copy_overlaps(pieces, offset, target);
  } else if (by_strides.size() == 1) {  // written from another memory format: the whole parameter is put in order
    const auto options = target.options().device(at::kCPU);
    const auto written = at::empty_strided(parameter.sizes(), strides, options);
    const auto ordered = at::empty_strided(parameter.sizes(), parameter.strides(), options);
    LOCKSTEP_CHECK(written.is_non_overlapping_and_dense(), "entry '{}'", entry);
    num_wanted = parameter.numel();
    num_copied = copy_overlaps(pieces, 0, flat_memory(written));
    ordered.copy_(written);
    target.copy_(flat_memory(ordered).narrow(0, offset, target.numel()));
  }
  if (num_copied != num_wanted)
    throw CheckpointError(fmt::format("train: the parts of '{}' in checkpoint '{}' do not make a whole: elements={}, expected={}", entry,
                                      folder_.string(), num_copied, num_wanted),
                          "use --resume latest to take the newest whole checkpoint");
}

}  // namespace

std::string optimizer_file_name(int part, int num_parts) {
  return num_parts == 1 ? kOptimizerFile : fmt::format("optimizer-{:05}-of-{:05}.safetensors", part, num_parts);
}

bool is_optimizer_file(const std::string& name) { return core::starts_with(name, "optimizer"); }

NamedHandles optimizer_tensors(const CheckpointState& state) {
  NamedHandles out;
  if (state.optimizer == nullptr) return out;
  const auto parameters = parameters_of(state);
  const auto entries = state.optimizer->state();
  const auto& segments = state.optimizer->segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& parameter = parameters.at(segments[i].name);
    for (auto& [kind, tensor] : kinds_of(segments[i], entries[i], parameter)) {
      const bool is_whole = state.shards == nullptr && tensor.sizes() != parameter.sizes();
      out.emplace_back(kind + segments[i].name, is_whole ? tensor.as_strided(parameter.sizes(), parameter.strides()) : tensor);
    }
    out.emplace_back("step." + segments[i].name, entries[i].step);
  }
  return out;
}

std::map<std::string, std::string> optimizer_metadata(const CheckpointState& state) {
  if (state.optimizer == nullptr || state.shards == nullptr) return {};
  const auto parameters = parameters_of(state);
  core::Json parts = core::Json::object();
  for (const auto& segment : state.optimizer->segments())
    parts[segment.name] = {{"offset", segment.offset}, {"strides", parameters.at(segment.name).strides().vec()}};
  return {{kParts, parts.dump()}};
}

void read_optimizer(const fs::path& folder, const std::vector<std::string>& files, const CheckpointState& state) {
  if (state.optimizer == nullptr) return;
  const c10::NoGradGuard no_grad;
  const auto parameters = parameters_of(state);
  const OptimizerFiles stored(folder, files, parameters);
  std::set<std::string> wanted;
  for (const auto& [name, tensor] : optimizer_tensors(state)) wanted.insert(name);
  stored.check(wanted, /*holds_all=*/state.shards == nullptr);
  const auto entries = state.optimizer->state();
  const auto& segments = state.optimizer->segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& segment = segments[i];
    for (const auto& [kind, tensor] : kinds_of(segment, entries[i], parameters.at(segment.name)))
      stored.copy(kind + segment.name, segment.name, segment.offset, flat_memory(tensor));
    entries[i].step.fill_(stored.step(segment.name).to(at::kFloat).reshape({}));
  }
}

}  // namespace lockstep::train
