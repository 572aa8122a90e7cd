#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::models {

/// One Python object out of a pickle, as data.
struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kBytes,  ///< `text`
    kList,
    kTuple,
    kSet,         ///< `items`
    kDict,        ///< `items`: key, value, key, value, ...; OrderedDict too
    kGlobal,      ///< `text`: "module.name"; never looked up
    kObject,      ///< What calling `callable` with the items of `arguments` would give; not called
    kPersistent,  ///< `items[0]`: the persistent id
  };
  Kind kind = Kind::kNone;
  bool truth = false;
  int64_t integer = 0;
  double real = 0.0;
  std::string text{};
  std::vector<const PickleValue*> items{};
  const PickleValue* callable = nullptr;   ///< Of an object: most often a global, which other objects may share.
  const PickleValue* arguments = nullptr;  ///< Of an object: the tuple, which other objects may share.
  const PickleValue* state = nullptr;      ///< What BUILD attached (an OrderedDict's _metadata, for one).

  bool is(Kind other) const { return kind == other; }
  /// Is it what a call of the global `name` would give?
  bool is_object(std::string_view name) const;
  /// The value of a string key of a dict; nullptr when absent.
  const PickleValue* find(std::string_view key) const;
};

/// A pickle (protocols 2 to 5) read into values. Nothing is imported or called: a foreign file is harmless. The
/// document owns its values, which may refer to each other in circles. There are
/// at most a million of them and one for every two bytes read.
class PickleDocument {
 public:
  /// Throws DataError with `where`, the byte position and the reason for anything malformed or outside the known
  /// opcodes.
  PickleDocument(std::span<const std::byte> bytes, const std::string& where);
  const PickleValue& root() const { return *root_; }
  /// Every "module.name" that it asks Python for, as often as it does.
  const std::vector<std::string>& globals() const { return globals_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  std::vector<std::string> globals_;
  const PickleValue* root_ = nullptr;
};

/// Writes a protocol-2 pickle value by value, in the order of the stream.
class PickleWriter {
 public:
  PickleWriter();
  void none() { put('N'); }
  void boolean(bool value) { put(value ? '\x88' : '\x89'); }
  void integer(int64_t value);
  void real(double value);
  void string(std::string_view text);
  void global(std::string_view module, std::string_view name);
  void begin_tuple() { put('('); }
  void end_tuple() { put('t'); }
  void begin_list();
  void end_list() { put('e'); }
  /// Then key, value, ...; `ordered` gives a collections.OrderedDict.
  void begin_dict(bool ordered);
  void end_dict() { put('u'); }
  void persistent_id() { put('Q'); }  ///< Of the tuple just written.
  void call() { put('R'); }           ///< The global and the argument tuple just written.
  std::string finish();

 private:
  void put(char byte) { bytes_.push_back(byte); }
  void put_bytes(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::string bytes_;
};

}  // namespace lockstep::models
