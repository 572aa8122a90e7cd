#include "models/plain_globals.h"

#include <algorithm>
#include <iterator>

#include "core/strings.h"

namespace lockstep::models {
namespace {

/// What pickles of weights and of the training state beside them (OpenCLIP's, LAION-CLAP's, torchvision's, Megatron's)
/// name: containers, numbers, paths and records of options, none of which does anything but hold values.
constexpr std::string_view kPlainGlobals[] = {"_codecs.encode",
                                              "argparse.Namespace",
                                              "collections.Counter",
                                              "collections.OrderedDict",
                                              "collections.defaultdict",
                                              "numpy.dtype",
                                              "numpy.ndarray",
                                              "numpy._core.multiarray._reconstruct",
                                              "numpy._core.multiarray.scalar",
                                              "numpy.core.multiarray._reconstruct",
                                              "numpy.core.multiarray.scalar",
                                              "torch.Size",
                                              "torch.Tensor",
                                              "torch.device",
                                              "torch._tensor._rebuild_from_type_v2",
                                              "torch.nn.parameter.Parameter",
                                              "torch.storage.TypedStorage",
                                              "torch.storage.UntypedStorage"};
/// Of Python's own: types of values alone.
constexpr std::string_view kPlainBuiltins[] = {"bool", "bytearray", "bytes",  "complex", "dict",  "float", "frozenset",
                                               "int",  "list",      "object", "set",     "slice", "str",   "tuple"};
/// Of module torch: types of numbers, which stand beside the classes of storages.
constexpr std::string_view kPlainTypes[] = {"bfloat16", "bool",    "complex64", "complex128",  "double",
                                            "float",    "float16", "float32",   "float64",     "float8_e4m3fn",
                                            "half",     "int",     "int16",     "int32",       "int64",
                                            "int8",     "long",    "short",     "float8_e5m2", "uint8"};

template <size_t N> bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool is_plain_global(std::string_view name) {
  const auto behind = [&](std::string_view prefix) {
    return core::starts_with(name, prefix) ? name.substr(prefix.size()) : std::string_view();
  };
  const auto is_storage = [](std::string_view of_torch) {
    return core::ends_with(of_torch, "Storage") && of_torch.find('.') == std::string_view::npos;
  };
  const std::string_view of_torch = behind("torch."), rebuilt = behind("torch._utils._rebuild_");
  return is_one_of(name, kPlainGlobals) || is_one_of(behind("builtins."), kPlainBuiltins) ||
         is_one_of(behind("__builtin__."), kPlainBuiltins) || is_one_of(of_torch, kPlainTypes) ||
         is_storage(of_torch) || is_storage(behind("torch.cuda.")) ||
         (!rebuilt.empty() && rebuilt.find('.') == std::string_view::npos) ||
         core::starts_with(name, "numpy.dtypes.") ||
         (core::starts_with(name, "pathlib.") && core::ends_with(name, "Path"));
}

}  // namespace lockstep::models
