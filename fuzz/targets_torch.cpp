// Parsers that need LibTorch: .pt files, as they are and with contents that fit their container.
#include <ATen/core/TensorBody.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "models/weights_pt.h"

namespace lockstep::fuzz {
namespace {

/// A view that reached beyond its storage would read foreign memory later.
void check_inside(const at::Tensor& tensor) {
  int64_t last = tensor.storage_offset();
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  const auto room = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  LOCKSTEP_CHECK(tensor.numel() == 0 || (last >= 0 && last < room), "element {} of {}", last, room);
}

/// Each of the three ways to read one; what the first refuses, another may take.
void read_file(const fs::path& path) {
  try {
    models::read_pt_tuning(path);
    for (const auto& [name, tensor] : models::read_pt_state_dict(path).tensors) check_inside(tensor);
  } catch (const DataError&) {
  }
  const models::PtCheckpoint checkpoint = models::read_pt_checkpoint(path);
  if (!checkpoint.optimizer) return;
  for (const auto& [number, values] : checkpoint.optimizer->state)
    for (const auto& [name, tensor] : values) check_inside(tensor);
}

void read_pt(Bytes bytes) {
  static const MemoryFolder folder;
  read_file(folder.write("model.pt", bytes));
}

/// The first byte says how many storages there are, two bytes each their sizes; the rest is data.pkl. The archive
/// around them is whole: damage to it alone would be all that is ever found in a .pt file. What is no name or number of
/// the pickle's is left small, else most of the time goes into writing zeros.
void read_pt_contents(Bytes bytes) {
  constexpr size_t kMostStorages = 32, kMostBytes = 1024;
  const size_t num_storages = bytes.empty() ? 0 : std::to_integer<size_t>(bytes[0]) % kMostStorages;
  if (bytes.size() < 1 + 2 * num_storages) return;
  static const std::vector<std::byte> zeros(kMostBytes);
  std::string file;
  {
    caffe2::serialize::PyTorchStreamWriter archive([&](const void* data, size_t size) {
      file.append(static_cast<const char*>(data), size);
      return size;
    });
    const Bytes pickle = bytes.subspan(1 + 2 * num_storages);
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    for (size_t i = 0; i < num_storages; ++i) {
      const size_t size = std::to_integer<size_t>(bytes[1 + 2 * i]) + 256 * std::to_integer<size_t>(bytes[2 + 2 * i]);
      archive.writeRecord(fmt::format("data/{}", i), zeros.data(), size % kMostBytes);
    }
    archive.writeEndOfFile();
  }
  static const MemoryFolder folder;
  read_file(folder.write("model.pt", std::as_bytes(std::span(file))));
}

}  // namespace

void add_targets_of_torch(std::vector<Target>& list) {
  list.push_back({"pt", {"/pt/"}, read_pt, 16 << 10});
  list.push_back({"pt_contents", {}, read_pt_contents});
}

}  // namespace lockstep::fuzz
