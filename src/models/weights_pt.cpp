#include "models/weights_pt.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <map>
#include <span>

#include "core/error.h"
#include "core/files.h"
#include "core/zip_records.h"
#include "models/pickle.h"
#include "models/plain_globals.h"

namespace lockstep::models {
namespace fs = std::filesystem;
namespace {

using Kind = PickleValue::Kind;

struct StorageClass {
  std::string_view name;  // in Python's module torch
  at::ScalarType type;
};
constexpr std::array kStorageClasses{
    StorageClass{"FloatStorage", at::kFloat}, StorageClass{"BFloat16Storage", at::kBFloat16},
    StorageClass{"HalfStorage", at::kHalf},   StorageClass{"DoubleStorage", at::kDouble},
    StorageClass{"LongStorage", at::kLong},   StorageClass{"IntStorage", at::kInt},
    StorageClass{"ShortStorage", at::kShort}, StorageClass{"CharStorage", at::kChar},
    StorageClass{"ByteStorage", at::kByte},   StorageClass{"BoolStorage", at::kBool}};

constexpr uint64_t kMaxPickleBytes = 16 << 20;  // names and shapes only; the largest published model needs 1 MB
constexpr size_t kMaxDims = 16;

/// One file while it is read.
class PtReader {
 public:
  explicit PtReader(const fs::path& path)
      : where_(path.string()), file_bytes_(fs::file_size(path)), archive_(open(where_)) {
    for (core::ZipRecord& record : core::read_zip_directory(path))  // names lie below a folder named as the file was
      directory_.emplace(record.name.substr(record.name.find('/') + 1), std::move(record));
  }

  PtStateDict read() {
    const PickleDocument document = parse();
    return extract(document.root());
  }

  std::optional<PtParamGroup> read_tuning() {
    const PickleDocument document = parse();
    const auto* optimizer = document.root().is(Kind::kDict) ? document.root().find("optimizer") : nullptr;
    const auto* groups = optimizer != nullptr ? optimizer->find("param_groups") : nullptr;
    if (groups == nullptr || !groups->is(Kind::kList) || groups->items.empty()) return std::nullopt;
    return tuning_of(*groups->items.back());
  }

  PtCheckpoint read_checkpoint() {
    reads_training_state_ = true;
    PtCheckpoint out;
    out.model = read();
    out.optimizer = std::move(optimizer_);
    out.scaler = scaler_;
    return out;
  }

 private:
  PickleDocument parse() {
    if (!archive_->hasRecord("data.pkl")) refuse("it has no record data.pkl");
    check_byte_order();
    if (archive_->getRecordSize("data.pkl") > kMaxPickleBytes) refuse("its data.pkl is larger than 16 MiB");
    count_bytes("data.pkl", archive_->getRecordSize("data.pkl"));
    pickle_bytes_ = archive_->getRecordSize("data.pkl");
    const auto [data, size] = archive_->getRecord("data.pkl");
    require_whole("data.pkl", {static_cast<const std::byte*>(data.get()), size});
    PickleDocument document({static_cast<const std::byte*>(data.get()), size}, where_);
    for (const std::string& global : document.globals())
      if (!is_plain_global(global))
        throw DataError(
            fmt::format("models: '{}' is no weight file that can be read: it names '{}', which Python would "
                        "import and could call: it may be made to execute code",
                        where_, global),
            "nothing was executed; where you trust its source, load it in Python with torch.load and save "
            "its state_dict again with torch.save");
    return document;
  }

  static std::unique_ptr<caffe2::serialize::PyTorchStreamReader> open(const std::string& where) {
    const auto file = core::open_for_reading(where);  // a missing file has a clearer message than a damaged one
    std::array<char, 2> start{};
    core::read_at(file, std::as_writable_bytes(std::span(start)), 0, where);
    if (start[0] == '\x80')
      throw DataError(fmt::format("models: '{}' is a pickle as PyTorch wrote them before release 1.6", where),
                      "load it in Python with torch.load and save it again with torch.save");
    return std::make_unique<caffe2::serialize::PyTorchStreamReader>(where);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(fmt::format("models: '{}' is no weight file that can be read: {}", where_, what),
                    "expected a state dict saved by torch.save (PyTorch 1.6 or later), or a safetensors file");
  }

  /// By the checksum in the archive's directory, which LibTorch's reader does not look at.
  void require_whole(const std::string& name, std::span<const std::byte> bytes) const {
    const auto found = directory_.find(name);
    if (found == directory_.end()) refuse(fmt::format("its directory has no record '{}'", name));
    const uint32_t expected = found->second.crc32;
    if (expected == 0) return;  // written without checksums
    if (const uint32_t seen = core::crc32_of(bytes); seen != expected)
      throw CheckpointError(
          fmt::format("models: '{}' is damaged: its record '{}' has the CRC-32 {:08x}, expected {:08x}", where_, name,
                      seen, expected),
          "copy or download the file again; `lockstep ckpt verify FILE` checks all of its records");
  }

  /// torch.save compresses nothing: records together larger than the file are a bomb.
  void count_bytes(const std::string& record, uint64_t bytes) {
    if (bytes > file_bytes_ - read_bytes_)
      refuse(fmt::format("its records are compressed: '{}' has bytes={}, the file {}", record, bytes, file_bytes_));
    read_bytes_ += bytes;
  }

  /// A pickle may name one value in many places, which all get a copy here: together they stay as few as those of a
  /// file that shares nothing.
  void count_copies(uint64_t count) {
    constexpr uint64_t kMost = 1'000'000;
    num_copies_ += count;
    if (num_copies_ > kMost + pickle_bytes_) refuse("it names the same values in more places than a weight file does");
  }

  void check_byte_order() {
    if (!archive_->hasRecord("byteorder")) return;
    count_bytes("byteorder", archive_->getRecordSize("byteorder"));
    const auto [data, size] = archive_->getRecord("byteorder");
    const std::string order(static_cast<const char*>(data.get()), size);
    if (order != "little") refuse(fmt::format("byteorder is '{}', expected 'little'", order));
  }

  PtStateDict extract(const PickleValue& root) {
    if (!root.is(Kind::kDict)) refuse("its content is no dictionary");
    PtStateDict out;
    const PickleValue* dict = &root;
    // torchvision's training keeps its state dict under "model".
    const auto* inner = root.find("state_dict");
    if (const auto* model = root.find("model"); inner == nullptr && model != nullptr && model->is(Kind::kDict))
      inner = model;
    if (inner != nullptr) {
      dict = inner;
      if (!dict->is(Kind::kDict)) refuse("its state_dict is no dictionary");
      if (const auto* epoch = root.find("epoch"); epoch != nullptr && epoch->is(Kind::kInt)) out.epoch = epoch->integer;
    }
    for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
      const auto& key = *dict->items[i];
      if (!key.is(Kind::kString)) refuse("a key of its state dict is no text");
      count_copies(1 + key.text.size());
      const auto tensor = tensor_of(dict->items[i + 1]);
      if (tensor.defined())
        out.tensors.emplace_back(key.text, tensor);
      else
        out.others.push_back(key.text);
    }
    if (out.tensors.empty()) refuse("it holds no tensors");
    if (reads_training_state_) {
      if (const auto* saved = root.find("optimizer")) optimizer_ = optimizer_of(*saved);
      if (const auto* saved = root.find("scaler"); saved != nullptr && saved->find("scale") != nullptr)
        scaler_ = scaler_of(*saved);
    }
    return out;
  }

  PtOptimizer optimizer_of(const PickleValue& saved) {
    const auto *state = saved.find("state"), *groups = saved.find("param_groups");
    if (state == nullptr || !state->is(Kind::kDict) || groups == nullptr || !groups->is(Kind::kList))
      refuse("its optimizer has no state and param_groups");
    PtOptimizer out;
    for (const PickleValue* group : groups->items) {
      const auto* parameters = group->find("params");
      if (parameters == nullptr || !parameters->is(Kind::kList)) refuse("a param_group without params");
      count_copies(1 + group->items.size() + parameters->items.size());
      for (out.groups.emplace_back(); const PickleValue* parameter : parameters->items)
        out.groups.back().parameters.push_back(integer_of(*parameter));
    }
    for (size_t i = 0; i + 1 < state->items.size(); i += 2) {
      auto& entry = out.state[integer_of(*state->items[i])];
      const PickleValue& values = *state->items[i + 1];
      if (!values.is(Kind::kDict)) refuse("a state of its optimizer is no dictionary");
      count_copies(1 + values.items.size());
      for (const PickleValue* value : values.items) count_copies(value->text.size());
      for (size_t j = 0; j + 1 < values.items.size(); j += 2)
        if (const auto tensor = number_or_tensor(values.items[j + 1]);
            tensor.defined() && values.items[j]->is(Kind::kString))
          entry[values.items[j]->text] = tensor;
    }
    return out;
  }

  static std::optional<double> number_of(const PickleValue* value) {
    if (value == nullptr || !(value->is(Kind::kFloat) || value->is(Kind::kInt))) return std::nullopt;
    return value->is(Kind::kFloat) ? value->real : static_cast<double>(value->integer);
  }

  static std::optional<PtParamGroup> tuning_of(const PickleValue& group) {
    const auto* betas = group.find("betas");
    if (betas == nullptr || !betas->is(Kind::kTuple) || betas->items.size() != 2) return std::nullopt;
    const auto lr = number_of(group.find("lr")), beta1 = number_of(betas->items[0]), beta2 = number_of(betas->items[1]),
               epsilon = number_of(group.find("eps")), weight_decay = number_of(group.find("weight_decay"));
    if (!lr || !beta1 || !beta2 || !epsilon || !weight_decay) return std::nullopt;
    return PtParamGroup{.parameters = {},
                        .lr = *lr,
                        .beta1 = *beta1,
                        .beta2 = *beta2,
                        .epsilon = *epsilon,
                        .weight_decay = *weight_decay};
  }

  /// Steps were plain numbers before PyTorch 1.12.
  at::Tensor number_or_tensor(const PickleValue* value) {
    if (value->is(Kind::kInt)) return at::full({}, static_cast<double>(value->integer), at::kFloat);
    return tensor_of(value);
  }

  PtScaler scaler_of(const PickleValue& saved) const {
    PtScaler out;
    const auto* scale = saved.find("scale");
    if (!scale->is(Kind::kFloat)) refuse("the scale of its scaler is no number");
    out.scale = scale->real;
    if (const auto* tracker = saved.find("_growth_tracker"); tracker != nullptr)
      out.growth_tracker = integer_of(*tracker);
    return out;
  }

  /// Undefined for a value that is no tensor.
  at::Tensor tensor_of(const PickleValue* value) {
    if (value->is_object("torch._utils._rebuild_parameter") && !value->arguments->items.empty())
      value = value->arguments->items[0];
    if (!value->is_object("torch._utils._rebuild_tensor_v2")) return {};
    const auto& arguments = value->arguments->items;
    if (arguments.size() < 4) refuse("a tensor with too few arguments");
    const auto storage = storage_of(*arguments[0]);
    const int64_t offset = integer_of(*arguments[1]);
    const auto sizes = integers_of(*arguments[2]), strides = integers_of(*arguments[3]);
    check_extent(storage.numel(), offset, sizes, strides);
    return storage.as_strided(sizes, strides, offset);
  }

  int64_t integer_of(const PickleValue& value) const {
    if (!value.is(Kind::kInt)) refuse("a size of a tensor is no integer");
    return value.integer;
  }
  std::vector<int64_t> integers_of(const PickleValue& value) const {
    if (!value.is(Kind::kTuple) || value.items.size() > kMaxDims) refuse("a shape is no tuple of at most 16 integers");
    std::vector<int64_t> out;
    for (const auto* item : value.items) out.push_back(integer_of(*item));
    return out;
  }
  void check_extent(int64_t numel, int64_t offset, const std::vector<int64_t>& sizes,
                    const std::vector<int64_t>& strides) const {
    if (sizes.size() != strides.size() || offset < 0)
      refuse("a tensor with a negative offset, or strides that do not fit its shape");
    int64_t last = offset, count = 1;
    bool is_empty = false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t reach = 0;
      if (sizes[i] < 0 || strides[i] < 0) refuse("a tensor with a negative size or stride");
      if (sizes[i] == 0) {
        is_empty = true;
        continue;
      }
      if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last) ||
          __builtin_mul_overflow(count, sizes[i], &count))
        refuse("a tensor whose extent overflows");
    }
    // A repeated storage (stride 0) could claim any size: no weight is larger than its storage.
    if (!is_empty && (last >= numel || count > numel))
      refuse(fmt::format("a tensor reaches element {} of a storage of {} elements", std::max(last, count - 1), numel));
    if (is_empty && offset > numel) refuse("an empty tensor that starts behind its storage");
  }

  /// ("storage", class, key, device, elements) -> a flat tensor; read once.
  at::Tensor storage_of(const PickleValue& value) {
    if (!value.is(Kind::kPersistent) || !value.items[0]->is(Kind::kTuple) || value.items[0]->items.size() < 5)
      refuse("a tensor without storage");
    const auto& id = value.items[0]->items;
    if (!id[0]->is(Kind::kString) || id[0]->text != "storage" || !id[1]->is(Kind::kGlobal) || !id[2]->is(Kind::kString))
      refuse("a storage that is none");
    const auto type = type_of(id[1]->text);
    const std::string& key = id[2]->text;
    if (const auto known = storages_.find(key); known != storages_.end()) {
      if (known->second.scalar_type() != type) refuse(fmt::format("storage '{}' has two types", key));
      return known->second;
    }
    const std::string record = "data/" + key;
    if (!archive_->hasRecord(record)) refuse(fmt::format("record '{}' is missing", record));
    const uint64_t bytes = archive_->getRecordSize(record);
    const uint64_t wanted = static_cast<uint64_t>(integer_of(*id[4]));
    if (wanted > std::numeric_limits<int64_t>::max() / 16 || wanted * c10::elementSize(type) != bytes)
      refuse(fmt::format("record '{}' has bytes={}, expected {} elements of {}", record, bytes, integer_of(*id[4]),
                         c10::toString(type)));
    count_bytes(record, bytes);
    auto [data, size] = archive_->getRecord(record);
    if (size != bytes) refuse(fmt::format("record '{}' gave bytes={}, expected {}", record, size, bytes));
    require_whole(record, {static_cast<const std::byte*>(data.get()), size});
    auto flat = at::empty({static_cast<int64_t>(wanted)}, type);
    if (size > 0) std::memcpy(flat.data_ptr(), data.get(), size);
    return storages_.emplace(key, flat).first->second;
  }

  at::ScalarType type_of(const std::string& global) const {
    for (const StorageClass& entry : kStorageClasses)
      if (global == fmt::format("torch.{}", entry.name)) return entry.type;
    refuse(fmt::format("storage class '{}' is not known", global));
  }

  std::string where_;
  uint64_t file_bytes_ = 0, read_bytes_ = 0, pickle_bytes_ = 0, num_copies_ = 0;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> archive_;
  std::map<std::string, core::ZipRecord> directory_;
  std::map<std::string, at::Tensor> storages_;
  bool reads_training_state_ = false;
  std::optional<PtOptimizer> optimizer_;
  std::optional<PtScaler> scaler_;
};

/// What the reader throws, and what the archive does.
template <typename Read> auto read_archive(const fs::path& path, Read&& read) {
  try {
    PtReader reader(path);
    return read(reader);
  } catch (const c10::Error& error) {
    const std::string_view told = error.what_without_backtrace();  // what went wrong, then guesses at why
    throw DataError(fmt::format("models: '{}' is no weight file that can be read: {}", path.string(),
                                told.substr(0, told.find(". "))),
                    "copy or download the file again; files from before PyTorch 1.6 must be saved anew");
  }
}

std::string_view storage_class_of(at::ScalarType type, const std::string& name) {
  for (const StorageClass& entry : kStorageClasses)
    if (entry.type == type) return entry.name;
  throw DataError(
      fmt::format("models: .pt files of ours have no storage class for {} (tensor '{}')", c10::toString(type), name),
      "write safetensors instead");
}

/// On the CPU and dense. DataError for a type that .pt files of ours cannot hold.
at::Tensor dense_copy(const std::string& name, const at::Tensor& tensor) {
  storage_class_of(tensor.scalar_type(), name);
  return tensor.detach().cpu().contiguous();
}

void write_param_group(PickleWriter& pickle, const PtParamGroup& group) {
  pickle.begin_dict(/*ordered=*/false);
  const auto number = [&](const char* name, double value) {
    pickle.string(name);
    pickle.real(value);
  };
  number("lr", group.lr);
  number("eps", group.epsilon);
  number("weight_decay", group.weight_decay);
  pickle.string("betas");
  pickle.begin_tuple();
  pickle.real(group.beta1);
  pickle.real(group.beta2);
  pickle.end_tuple();
  for (const auto& [name, value] : {std::pair{"amsgrad", false},
                                    {"maximize", false},
                                    {"capturable", false},
                                    {"differentiable", false},
                                    {"decoupled_weight_decay", true}}) {
    pickle.string(name);
    pickle.boolean(value);
  }
  for (const char* name : {"foreach", "fused"}) {
    pickle.string(name);
    pickle.none();
  }
  pickle.string("params");
  pickle.begin_list();
  for (const int64_t parameter : group.parameters) pickle.integer(parameter);
  pickle.end_list();
  pickle.end_dict();
}

void write_tensor_reference(PickleWriter& pickle, const std::string& name, const at::Tensor& tensor, size_t key) {
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.begin_tuple();
  pickle.begin_tuple();
  pickle.string("storage");
  pickle.global("torch", storage_class_of(tensor.scalar_type(), name));
  pickle.string(fmt::format("{}", key));
  pickle.string("cpu");
  pickle.integer(tensor.numel());
  pickle.end_tuple();
  pickle.persistent_id();
  pickle.integer(0);
  for (const auto& numbers : {tensor.sizes(), tensor.strides()}) {
    pickle.begin_tuple();
    for (const int64_t number : numbers) pickle.integer(number);
    pickle.end_tuple();
  }
  pickle.boolean(false);
  pickle.begin_dict(/*ordered=*/true);
  pickle.end_dict();
  pickle.end_tuple();
  pickle.call();
}

/// The state of AdamW with the keys of torch 2.11; its tensors are appended to
/// `records`.
void write_optimizer(PickleWriter& pickle, const PtOptimizer& optimizer, NamedValues& records) {
  pickle.begin_dict(/*ordered=*/false);
  pickle.string("state");
  pickle.begin_dict(/*ordered=*/false);
  for (const auto& [number, values] : optimizer.state) {
    pickle.integer(number);
    pickle.begin_dict(/*ordered=*/false);
    for (const auto& [name, tensor] : values) {
      pickle.string(name);
      records.emplace_back(name, dense_copy(name, tensor));
      write_tensor_reference(pickle, name, records.back().second, records.size() - 1);
    }
    pickle.end_dict();
  }
  pickle.end_dict();
  pickle.string("param_groups");
  pickle.begin_list();
  for (const PtParamGroup& group : optimizer.groups) write_param_group(pickle, group);
  pickle.end_list();
  pickle.end_dict();
}

void write_scaler(PickleWriter& pickle, const PtScaler& scaler) {
  pickle.begin_dict(/*ordered=*/false);
  for (const auto& [name, value] :
       {std::pair{"scale", scaler.scale}, {"growth_factor", 2.0}, {"backoff_factor", 0.5}}) {
    pickle.string(name);
    pickle.real(value);
  }
  for (const auto& [name, value] :
       {std::pair{"growth_interval", int64_t{2000}}, {"_growth_tracker", scaler.growth_tracker}}) {
    pickle.string(name);
    pickle.integer(value);
  }
  pickle.end_dict();
}

/// `tensors` become the records of the file; those of the optimiser are appended.
std::string pickle_of(NamedValues& tensors, const std::optional<CheckpointHead>& head) {
  PickleWriter pickle;
  if (head) {
    pickle.begin_dict(/*ordered=*/false);
    pickle.string("epoch");
    pickle.integer(head->epoch);
    pickle.string("name");
    pickle.string(head->name);
    pickle.string("state_dict");
  }
  pickle.begin_dict(/*ordered=*/true);
  for (size_t i = 0; i < tensors.size(); ++i) {
    pickle.string(tensors[i].first);
    write_tensor_reference(pickle, tensors[i].first, tensors[i].second, i);
  }
  pickle.end_dict();
  if (head && head->optimizer) {
    pickle.string("optimizer");
    write_optimizer(pickle, *head->optimizer, tensors);
  }
  if (head && head->scaler) {
    pickle.string("scaler");
    write_scaler(pickle, *head->scaler);
  }
  if (head) pickle.end_dict();
  return pickle.finish();
}

/// The zip records of torch.save. A failing write must not reach the archive, whose destructor would throw on it: the
/// rest is swallowed, and the failure thrown at the end.
void write_archive(core::AtomicFile& file, const std::string& pickle, const NamedValues& tensors) {
  std::exception_ptr failure;
  const auto write = [&](const void* data, size_t size) -> size_t {
    try {
      if (!failure) file.write({static_cast<const std::byte*>(data), size});
    } catch (...) {
      failure = std::current_exception();
    }
    return size;
  };
  caffe2::serialize::PyTorchStreamWriter archive(write);
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  archive.writeRecord("byteorder", "little", 6);
  for (size_t i = 0; i < tensors.size() && !failure; ++i)
    archive.writeRecord(fmt::format("data/{}", i), tensors[i].second.const_data_ptr(), tensors[i].second.nbytes());
  archive.writeEndOfFile();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

PtStateDict read_pt_state_dict(const fs::path& path) {
  return read_archive(path, [](PtReader& reader) { return reader.read(); });
}

std::optional<PtParamGroup> read_pt_tuning(const fs::path& path) {
  return read_archive(path, [](PtReader& reader) { return reader.read_tuning(); });
}

PtCheckpoint read_pt_checkpoint(const fs::path& path) {
  return read_archive(path, [](PtReader& reader) { return reader.read_checkpoint(); });
}

void write_weights_pt(const fs::path& path, const NamedValues& tensors, const std::optional<CheckpointHead>& head) {
  const c10::NoGradGuard no_grad;
  NamedValues plain;  // one dense storage each: a view would drag its whole bucket along
  for (const auto& [name, tensor] : tensors) plain.emplace_back(name, dense_copy(name, tensor));
  const std::string pickle = pickle_of(plain, head);
  core::AtomicFile file(path);
  write_archive(file, pickle, plain);
  file.commit();
}

}  // namespace lockstep::models
