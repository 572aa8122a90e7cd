#include "models/weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "config/imagenet_models.h"
#include "core/error.h"
#include "core/files.h"
#include "core/safetensors.h"
#include "core/strings.h"
#include "models/weights_pt.h"
#include "models/weights_tensors.h"

namespace lockstep::models {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostNamesShown = 3;

NamedValues read_safetensors(const fs::path& path) {
  const core::SafetensorsFile file(path);
  NamedValues out;
  for (const auto& entry : file.entries()) out.emplace_back(entry.name, borrow_tensor(entry, path.string()).clone());
  return out;
}

enum class WeightFormat { kPt, kSafetensors };

/// By the first bytes: a .pt file is a zip archive, safetensors begins with eight bytes of length and a JSON object.
WeightFormat format_of(const fs::path& path) {
  const auto file = core::open_for_reading(path);
  std::array<char, 9> start{};
  const size_t size = core::read_at(file, std::as_writable_bytes(std::span(start)), 0, path);
  const std::string_view text(start.data(), size);
  if (core::starts_with(text, "PK\3\4")) return WeightFormat::kPt;
  if (size == start.size() && start.back() == '{') return WeightFormat::kSafetensors;
  const bool is_old_pt = core::starts_with(text, "\x80\x02");
  throw DataError(fmt::format("models: '{}' is no file of weights{}", path.string(),
                              size == 0   ? ": it is empty"
                              : is_old_pt ? " of a known form: it is a pickle as PyTorch wrote them before release 1.6"
                                          : ""),
                  is_old_pt ? "load it in Python with torch.load and save it again with torch.save"
                            : "expected a .safetensors file, or a .pt file written by torch.save");
}

/// Every name starts so (DistributedDataParallel's and the compiler's wrappers).
bool all_start_with(const NamedValues& tensors, std::string_view prefix) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(),
                                         [&](const auto& entry) { return core::starts_with(entry.first, prefix); });
}

void take_off_prefixes(NamedValues& tensors) {
  for (const std::string_view prefix : {"module.", "_orig_mod."})
    if (all_start_with(tensors, prefix))
      for (auto& [name, tensor] : tensors) name = name.substr(prefix.size());
}

constexpr std::string_view kTextPrefix = "text.";

/// Is the text tower OpenCLIP's native one under a prefix (CustomTextCLIP)? One of Hugging Face always has the prefix.
bool has_prefixed_text(const NamedValues& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& entry) { return entry.first == "text.token_embedding.weight"; });
}

/// "text.transformer.x" -> "transformer.x".
void flatten_text_tower(WeightFile& file) {
  file.had_text_prefix = has_prefixed_text(file.tensors);
  if (!file.had_text_prefix) return;
  for (auto& [name, tensor] : file.tensors)
    if (core::starts_with(name, kTextPrefix)) name = name.substr(kTextPrefix.size());
}

/// Does a tensor of a flat file belong to the text tower? Models of other kinds have no file that was flattened.
bool is_of_text_tower(std::string_view name) {
  constexpr std::array kOthers{"visual.", "text_decoder.", "logit_scale", "logit_bias"};
  return std::none_of(kOthers.begin(), kOthers.end(),
                      [&](const char* other) { return core::starts_with(name, other); });
}

bool is_no_weight(const std::string& name) { return name == "position_ids" || core::ends_with(name, ".position_ids"); }

/// Names of a module that a file may lack.
bool may_be_missing(const std::string& name) {
  return name == "logit_bias" || core::ends_with(name, "num_batches_tracked");
}

std::string list_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamesShown);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{}{}{}{}", names.size(), names.empty() ? "" : ": ", core::join(first, ", "),
                     names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
}

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

/// Files have the text tower's names without their prefix (flatten_text_tower); a model may have them with it.
std::string name_in_files(const std::string& name, bool has_prefix) {
  return has_prefix && core::starts_with(name, kTextPrefix) ? name.substr(kTextPrefix.size()) : name;
}

struct Match {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;  // handle, value
  std::vector<at::Tensor> absent;                        // handles that get zero
  std::vector<std::string> missing, unexpected, misshaped;
};

Match match_names(const NamedValues& targets, const NamedValues& values) {
  Match match;
  std::unordered_map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : values) by_name.emplace(name, tensor);
  std::unordered_set<std::string> known;
  const bool has_prefix = has_prefixed_text(targets);
  for (const auto& [name, handle] : targets) {
    const std::string file_name = name_in_files(name, has_prefix);
    known.insert(file_name);
    const auto found = by_name.find(file_name);
    if (found == by_name.end()) {
      if (!may_be_missing(name))
        match.missing.push_back(name);
      else if (name == "logit_bias")
        match.absent.push_back(handle);
      continue;
    }
    const auto& value = found->second;
    const bool is_one_element = handle.numel() == 1 && value.numel() == 1 && handle.dim() <= 1 && value.dim() <= 1;
    if (is_one_element || handle.sizes() == value.sizes())
      match.pairs.emplace_back(handle, value.reshape(handle.sizes()));
    else
      match.misshaped.push_back(
          fmt::format("{} (file {}, model {})", name, shape_text(value.sizes()), shape_text(handle.sizes())));
  }
  for (const auto& [name, tensor] : values)
    if (!known.contains(name)) match.unexpected.push_back(name);
  return match;
}

/// Do only position embeddings have another shape, which a size of pictures or texts decides?
bool differs_in_positions_alone(const Match& match) {
  return match.missing.empty() && match.unexpected.empty() &&
         std::all_of(match.misshaped.begin(), match.misshaped.end(), [](const std::string& line) {
           const std::string name = line.substr(0, line.find(' '));
           return core::ends_with(name, "positional_embedding") || core::ends_with(name, "pos_embed");
         });
}

/// Is only the last layer of a classifier another one?
bool differs_in_classes_alone(const Match& match) {
  return match.missing.empty() && match.unexpected.empty() &&
         std::all_of(match.misshaped.begin(), match.misshaped.end(),
                     [](const std::string& line) { return config::is_classifier_head(line); });
}

/// What to do about weights that do not fit.
const char* hint_of_match(const Match& match) {
  if (differs_in_positions_alone(match))
    return "give the --force-image-size and --force-context-length that the weights were made with; a new run with "
           "--pretrained resizes position embeddings of OpenCLIP's own ViT and texts";
  if (differs_in_classes_alone(match))
    return "the weights tell another number of classes apart: give it with --num-classes; only training puts a new "
           "last layer in its place";
  return "check that --model names the architecture that the weights were made for";
}

void require_fit(const Match& match, const WeightFile& weights) {
  if (match.missing.empty() && match.unexpected.empty() && match.misshaped.empty()) return;
  throw DataError(fmt::format("models: weights '{}' do not fit the model: missing {}; unexpected {}; other shape {}",
                              weights.path.string(), list_names(match.missing), list_names(match.unexpected),
                              list_names(match.misshaped)),
                  hint_of_match(match));
}

}  // namespace

namespace {

/// OpenCLIP's names of native models; what is no weight goes to `ignored`.
WeightFile with_native_names(WeightFile file) {
  take_off_prefixes(file.tensors);
  flatten_text_tower(file);
  std::erase_if(file.tensors, [&](const auto& entry) {
    if (is_no_weight(entry.first)) file.ignored.push_back(entry.first);
    return is_no_weight(entry.first);
  });
  return file;
}

}  // namespace

WeightFile normalised_weights(const fs::path& path, PtStateDict dict) {
  return with_native_names(
      {.path = path, .tensors = std::move(dict.tensors), .ignored = std::move(dict.others), .epoch = dict.epoch});
}

WeightFile read_weights(const fs::path& path) {
  if (format_of(path) == WeightFormat::kPt) return normalised_weights(path, read_pt_state_dict(path));
  return with_native_names({.path = path, .tensors = read_safetensors(path), .ignored = {}, .epoch = {}});
}

NamedValues named_values(nn::Module& module) {
  NamedValues out;
  for (const auto& [name, tensor] : module.named_parameters()) out.emplace_back(name, *tensor);
  for (const auto& [name, tensor] : module.named_buffers()) out.emplace_back(name, *tensor);
  return out;
}

void require_fit(const NamedValues& targets, const WeightFile& weights) {
  require_fit(match_names(targets, weights.tensors), weights);
}

NamedValues names_of_file(const WeightFile& weights) {
  NamedValues out = weights.tensors;
  if (weights.had_text_prefix)
    for (auto& [name, tensor] : out)
      if (is_of_text_tower(name)) name = std::string(kTextPrefix) + name;
  return out;
}

NamedValues names_of_model(const NamedValues& targets, const WeightFile& weights) {
  require_fit(targets, weights);
  const bool has_prefix = has_prefixed_text(targets);
  std::unordered_map<std::string, std::string> own_names;
  for (const auto& [name, tensor] : targets) own_names.emplace(name_in_files(name, has_prefix), name);
  NamedValues out;
  for (const auto& [name, tensor] : weights.tensors) out.emplace_back(own_names.at(name), tensor);
  return out;
}

void load_weights(nn::Module& module, const WeightFile& weights) { load_values(named_values(module), weights); }

void load_values(const NamedValues& targets, const WeightFile& weights) {
  const auto match = match_names(targets, weights.tensors);
  require_fit(match, weights);
  const c10::NoGradGuard no_grad;
  for (const auto& [handle, value] : match.pairs) handle.detach().copy_(value);
  for (const auto& handle : match.absent) handle.detach().zero_();
}

void broadcast_weights(nn::Module& module, comm::Comm& world, int root) {
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : named_values(module))
    if (tensor.numel() > 0) world.broadcast(tensor.detach(), root).wait();
}

void write_weights_safetensors(const fs::path& path, const NamedValues& tensors,
                               const std::map<std::string, std::string>& metadata) {
  const c10::NoGradGuard no_grad;
  NamedValues plain;
  for (const auto& [name, tensor] : tensors) plain.emplace_back(name, tensor.detach().cpu().contiguous());
  std::vector<core::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : plain) entries.push_back(borrow_entry(name, tensor));
  core::write_safetensors(path, entries, metadata);
}

}  // namespace lockstep::models
