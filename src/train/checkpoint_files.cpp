#include "train/checkpoint_files.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::train {
namespace {

constexpr const char* kMaster = "master.";  // before the names of fp32 copies

/// One tensor that the optimiser holds.
struct StateTensor {
  std::string name;  // as files have it
  at::Tensor tensor;
  TensorPart part;
};

std::vector<StateTensor> state_tensors(const CheckpointState& state) {
  std::vector<StateTensor> out;
  if (state.optimizer == nullptr) return out;
  std::map<std::string, at::Tensor> parameters;
  for (const auto& [name, tensor] : state.tensors) parameters.emplace(name, tensor->detach());
  const auto entries = state.optimizer->state();
  const auto& segments = state.optimizer->segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    const optim::Segment& segment = segments[i];
    const at::Tensor& parameter = parameters.at(segment.name);
    TensorPart part = part_of(parameter, state.layout.places, segment.name);
    part.offset = segment.offset;
    part.count = segment.parameter.numel();
    for (const auto& [name, tensor] : entries[i].tensors) out.push_back({name + "." + segment.name, tensor, part});
    if (segment.parameter.scalar_type() != parameter.scalar_type())
      out.push_back({kMaster + segment.name, segment.parameter.detach(), part});
    const TensorPart scalar{
        .sizes = {}, .strides = {}, .count = 1, .place = {.whole = {}, .writes_state = part.place.writes_state}};
    for (const auto& [name, tensor] : entries[i].scalars) out.push_back({name + "." + segment.name, tensor, scalar});
  }
  return out;
}

std::string file_name(const std::string& what, bool is_part, int rank, int num_ranks) {
  return is_part ? fmt::format("{}-{:05}-of-{:05}.safetensors", what, rank, num_ranks) : what + ".safetensors";
}

/// Whole tensors have their shape, parts say where they belong.
void add(WrittenFile& file, core::Json& parts, const std::string& name, const at::Tensor& tensor, TensorPart part) {
  at::Tensor written = tensor;
  if (part.offset == 0 && tensor.sizes() != at::IntArrayRef(part.sizes) &&
      tensor.numel() == c10::multiply_integers(part.sizes))
    written = tensor.as_strided(part.sizes, part.strides);  // a flat row that holds all of it
  const bool has_shape = written.sizes() == at::IntArrayRef(part.sizes);
  if (has_shape)
    part.strides = at::empty(part.sizes, at::TensorOptions().device(at::kMeta)).strides().vec();  // as files have it
  if (!has_shape || part.sizes != part.place.whole) parts[name] = describe_part(part);
  file.parts.emplace(name, part);
  file.tensors.emplace_back(name, written);
}

WrittenFile finish(WrittenFile file, const core::Json& parts) {
  if (!parts.empty()) file.metadata[kPartsKey] = parts.dump();
  return file;
}

/// All that a file of this model may hold.
std::set<std::string> known_names(const CheckpointState& state) {
  std::set<std::string> known = state.layout.all_names;
  for (const auto& [name, tensor] : state.tensors) known.insert(name);
  return known;
}

std::vector<StateTensor> model_state(const CheckpointState& state) {
  std::vector<StateTensor> out;
  for (const auto& [name, tensor] : state.tensors)
    out.push_back({name, tensor->detach(), part_of(*tensor, state.layout.places, name)});
  return out;
}

FileParts parts_of(const std::vector<StateTensor>& tensors) {
  FileParts parts;
  for (const auto& [name, tensor, part] : tensors) parts.emplace(name, part);
  return parts;
}

ReadCounts read_tensors(const StoredIn& in, const std::vector<StateTensor>& wanted,
                        const std::set<std::string>& known) {
  const FileParts parts = parts_of(wanted);
  StoredTensors stored(in.folder, in.parts.files_with(parts, in.files), in.held);
  stored.check(parts, known, in.parts.names_in(in.files));
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor, part] : wanted) stored.read(name, part, flat_memory(tensor));
  return stored.counts();
}

std::vector<std::string> files_named(const checkpoint::CheckpointManifest& manifest, const std::string& what) {
  std::vector<std::string> names;
  for (const auto& file : manifest.files)
    if (core::starts_with(file.name, what)) names.push_back(file.name);
  return names;
}

}  // namespace

checkpoint::VerifyFunction of_model(checkpoint::VerifyFunction verify) {
  return [verify = std::move(verify)](const std::filesystem::path& folder, checkpoint::CheckpointManifest manifest) {
    std::erase_if(manifest.files,
                  [](const checkpoint::CheckpointFile& file) { return !core::starts_with(file.name, "model"); });
    return verify(folder, manifest);
  };
}

void require_whole(const std::filesystem::path& folder, const checkpoint::VerifyFunction& verify) {
  const auto check = verify(folder, checkpoint::read_manifest(folder));
  if (!check.problems.empty())
    throw CheckpointError(
        fmt::format("train: checkpoint '{}' {}: {}", folder.string(),
                    check.is_unreadable ? "cannot be read" : "is damaged", core::join(check.problems, "; ")),
        checkpoint::instead_of_damaged(folder));
}

bool is_in_parts(const CheckpointState& state) { return state.shards != nullptr || state.layout.holds_part; }
std::vector<std::string> model_files(const checkpoint::CheckpointManifest& manifest) {
  return files_named(manifest, "model");
}
std::vector<std::string> optimizer_files(const checkpoint::CheckpointManifest& manifest) {
  return files_named(manifest, "optimizer");
}

std::vector<WrittenFile> files_to_write(const CheckpointState& state, int rank, int num_ranks) {
  const bool is_first = rank == 0;
  std::vector<WrittenFile> files;
  WrittenFile model{.name = file_name("model", state.layout.holds_part, rank, num_ranks)};
  core::Json parts = core::Json::object();
  for (const auto& [name, tensor] : state.tensors) {
    const TensorPart part = part_of(*tensor, state.layout.places, name);
    if (state.layout.holds_part ? part.place.writes_values : is_first) add(model, parts, name, *tensor, part);
  }
  if (!model.tensors.empty()) files.push_back(finish(std::move(model), parts));

  WrittenFile optimizer{.name = file_name("optimizer", is_in_parts(state) && num_ranks > 1, rank, num_ranks)};
  parts = core::Json::object();
  for (const auto& [name, tensor, part] : state_tensors(state))
    if (is_in_parts(state) ? part.place.writes_state : is_first) add(optimizer, parts, name, tensor, part);
  if (!optimizer.tensors.empty()) files.push_back(finish(std::move(optimizer), parts));
  return files;
}

void read_model_of(const std::filesystem::path& folder, const CheckpointState& state) {
  const auto manifest = checkpoint::read_manifest(folder);
  const PartsIndex parts = PartsIndex::of_manifest(manifest.extra);
  read_model({.folder = folder, .files = model_files(manifest), .parts = parts}, state);
}

ReadCounts read_model(const StoredIn& stored, const CheckpointState& state) {
  return read_tensors(stored, model_state(state), known_names(state));
}

ReadCounts read_optimizer(const StoredIn& stored, const CheckpointState& state) {
  const auto wanted = state_tensors(state);
  LOCKSTEP_CHECK(state.optimizer != nullptr, "no optimiser to read '{}' into", stored.folder.string());
  std::vector<std::string> kinds;
  for (const auto& name : state.optimizer->state_names()) kinds.push_back(name + ".");
  if (wanted.empty() || std::any_of(wanted.begin(), wanted.end(),
                                    [](const StateTensor& entry) { return core::starts_with(entry.name, kMaster); }))
    kinds.emplace_back(kMaster);
  std::set<std::string> known;
  for (const auto& kind : kinds)
    for (const auto& name : known_names(state)) known.insert(kind + name);
  return read_tensors(stored, wanted, known);
}

FileParts model_parts(const CheckpointState& state) { return parts_of(model_state(state)); }
FileParts optimizer_parts(const CheckpointState& state) { return parts_of(state_tensors(state)); }

std::vector<at::Tensor> optimizer_tensors(const CheckpointState& state) {
  std::vector<at::Tensor> out;
  for (const auto& entry : state_tensors(state)) out.push_back(entry.tensor);
  return out;
}

}  // namespace lockstep::train
