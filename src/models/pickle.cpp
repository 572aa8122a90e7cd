#include "models/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "core/error.h"

// Opcodes: CPython, Lib/pickletools.py (format description).

namespace lockstep::models {
namespace {

using Kind = PickleValue::Kind;

template <typename T> T from_little_endian(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little, "pickles are little endian");
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Of a pickle with one byte for each of its values; most values take two bytes and more.
constexpr size_t kMaxSmallValues = 1'000'000;

const PickleValue kNone{}, kFalse{.kind = Kind::kBool}, kTrue{.kind = Kind::kBool, .truth = true};

uint64_t byte_swapped(uint64_t value) { return __builtin_bswap64(value); }

}  // namespace

bool PickleValue::is_object(std::string_view name) const {
  return kind == Kind::kObject && callable->is(Kind::kGlobal) && callable->text == name;
}

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i]->kind == Kind::kString && items[i]->text == key) return items[i + 1];
  return nullptr;
}

/// The stack machine of the format. Each opcode makes at most one value. Values refer to others instead of copying
/// them; the names that STACK_GLOBAL joins are counted. So memory is bounded by the length of the input.
class PickleMachine {
 public:
  PickleMachine(PickleDocument& document, std::span<const std::byte> bytes, const std::string& where)
      : document_(document), bytes_(bytes), where_(where) {}

  void run() {
    while (step(take(1)[0])) {
    }
    if (stack_.size() != 1 || !marks_.empty())
      refuse(
          fmt::format("stack has {} values and {} marks at the end, expected one value", stack_.size(), marks_.size()));
    document_.root_ = stack_.back();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(
        fmt::format("models: '{}': pickle is damaged or of an unknown kind at byte {}: {}", where_, position_, what),
        "expected a file written by torch.save or by safetensors");
  }

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - position_)
      refuse(fmt::format("{} bytes wanted, {} left", count, bytes_.size() - position_));
    const auto out = bytes_.subspan(position_, count);
    position_ += count;
    return out;
  }
  template <typename T> T number() { return from_little_endian<T>(take(sizeof(T))); }
  std::string text(uint64_t count) {
    const auto bytes = take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string line() {
    std::string out;
    for (char c = static_cast<char>(take(1)[0]); c != '\n'; c = static_cast<char>(take(1)[0])) out.push_back(c);
    return out;
  }

  PickleValue* make(Kind kind) {
    if (document_.values_.size() > kMaxSmallValues + bytes_.size() / 2) refuse("more values than a weight file has");
    document_.values_.push_back({.kind = kind});
    return &document_.values_.back();
  }
  void push(const PickleValue* value) { stack_.push_back(value); }
  PickleValue* push_new(Kind kind) {
    PickleValue* const value = make(kind);
    push(value);
    return value;
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  const PickleValue* top() {
    if (stack_.size() <= floor()) refuse("stack is empty");
    return stack_.back();
  }
  /// The value that an opcode adds to; never one of the constants, which several places share.
  PickleValue* changed_top() { return const_cast<PickleValue*>(top()); }
  const PickleValue* pop() {
    const auto* value = top();
    stack_.pop_back();
    return value;
  }
  /// Everything above the last mark, which goes.
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) refuse("no mark");
    std::vector<const PickleValue*> out(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  void push_text(Kind kind, uint64_t count) { push_new(kind)->text = text(count); }
  void push_items(Kind kind, std::vector<const PickleValue*> items) { push_new(kind)->items = std::move(items); }
  void push_tuple(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::kTuple, std::move(items));
  }
  void push_int(int64_t value) { push_new(Kind::kInt)->integer = value; }
  void push_long(uint64_t count) {
    if (count > 8) refuse(fmt::format("integer of {} bytes, expected at most 8", count));
    uint64_t value = 0;
    const auto bytes = take(count);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    const bool is_negative = count > 0 && (std::to_integer<unsigned>(bytes.back()) & 0x80u) != 0;
    if (is_negative && count < 8) value |= ~uint64_t{0} << (8 * count);
    push_int(static_cast<int64_t>(value));
  }

  void extend(Kind expected, const std::vector<const PickleValue*>& items) {
    if (!top()->is(expected)) refuse("items for something that is no container of them");
    auto* target = changed_top();
    if (expected == Kind::kDict && items.size() % 2 != 0) refuse("a dictionary key without a value");
    target->items.insert(target->items.end(), items.begin(), items.end());
  }
  void remember(uint64_t key) { memo_[key] = top(); }
  void recall(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse(fmt::format("memo {} was never set", key));
    push(found->second);
  }
  void stack_global() {
    const auto* name = pop();
    const auto* module = pop();
    if (!name->is(Kind::kString) || !module->is(Kind::kString)) refuse("a global's name that is no text");
    num_joined_bytes_ += module->text.size() + name->text.size();
    if (num_joined_bytes_ > kMaxSmallValues + bytes_.size()) refuse("longer names of globals than a weight file has");
    push_global(module->text + "." + name->text);
  }
  void push_global(std::string name) {
    document_.globals_.push_back(name);
    push_new(Kind::kGlobal)->text = std::move(name);
  }
  void reduce() {
    const auto* arguments = pop();
    const auto* callable = pop();
    if (!arguments->is(Kind::kTuple)) refuse("arguments that are no tuple");
    if (callable->is(Kind::kGlobal) && callable->text == "collections.OrderedDict" && arguments->items.empty()) {
      push_new(Kind::kDict);
      return;
    }
    auto* object = push_new(Kind::kObject);
    object->callable = callable;
    object->arguments = arguments;
  }
  void build() {
    const auto* state = pop();
    if (top()->is(Kind::kNone) || top()->is(Kind::kBool)) refuse("state for a constant");
    changed_top()->state = state;
  }
  bool step(std::byte opcode);
  bool step_numbers(char opcode);
  bool step_texts(char opcode);
  bool step_containers(char opcode);
  bool step_references(char opcode);

  PickleDocument& document_;
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t position_ = 0, num_joined_bytes_ = 0;
  std::vector<const PickleValue*> stack_;
  std::vector<size_t> marks_;  // stack sizes
  std::unordered_map<uint64_t, const PickleValue*> memo_;
};

/// False at STOP.
bool PickleMachine::step(std::byte byte) {
  const char opcode = static_cast<char>(byte);
  if (opcode == '.') return false;
  if (step_numbers(opcode) || step_texts(opcode) || step_containers(opcode) || step_references(opcode)) return true;
  --position_;
  refuse(fmt::format("opcode 0x{:02x} is not one that weight files use", std::to_integer<unsigned>(byte)));
}

bool PickleMachine::step_numbers(char opcode) {
  switch (opcode) {
    case '\x80': {  // PROTO
      const auto protocol = number<uint8_t>();
      if (protocol < 2 || protocol > 5) refuse(fmt::format("protocol {}, expected 2 to 5", protocol));
      return true;
    }
    case '\x95': take(8); return true;  // FRAME: its length adds nothing
    case 'N': push(&kNone); return true;
    case '\x88': push(&kTrue); return true;
    case '\x89': push(&kFalse); return true;
    case 'J': push_int(number<int32_t>()); return true;
    case 'K': push_int(number<uint8_t>()); return true;
    case 'M': push_int(number<uint16_t>()); return true;
    case '\x8a': push_long(number<uint8_t>()); return true;
    case '\x8b': push_long(number<uint32_t>()); return true;
    case 'G': push_new(Kind::kFloat)->real = std::bit_cast<double>(byte_swapped(number<uint64_t>())); return true;
    default: return false;
  }
}

bool PickleMachine::step_texts(char opcode) {
  switch (opcode) {
    case 'X': push_text(Kind::kString, number<uint32_t>()); return true;
    case '\x8c': push_text(Kind::kString, number<uint8_t>()); return true;
    case '\x8d': push_text(Kind::kString, number<uint64_t>()); return true;
    case 'U': push_text(Kind::kString, number<uint8_t>()); return true;
    case 'T': push_text(Kind::kString, number<uint32_t>()); return true;
    case 'C': push_text(Kind::kBytes, number<uint8_t>()); return true;
    case 'B': push_text(Kind::kBytes, number<uint32_t>()); return true;
    case '\x8e': push_text(Kind::kBytes, number<uint64_t>()); return true;
    default: return false;
  }
}

bool PickleMachine::step_containers(char opcode) {
  switch (opcode) {
    case '(': marks_.push_back(stack_.size()); return true;
    case ')': push_new(Kind::kTuple); return true;
    case 't': push_items(Kind::kTuple, pop_to_mark()); return true;
    case '\x85': push_tuple(1); return true;
    case '\x86': push_tuple(2); return true;
    case '\x87': push_tuple(3); return true;
    case '}': push_new(Kind::kDict); return true;
    case ']': push_new(Kind::kList); return true;
    case '\x8f': push_new(Kind::kSet); return true;
    case 's': {
      const auto* value = pop();
      const auto* key = pop();
      extend(Kind::kDict, {key, value});
      return true;
    }
    case 'u': extend(Kind::kDict, pop_to_mark()); return true;
    case 'a': extend(Kind::kList, {pop()}); return true;
    case 'e': extend(Kind::kList, pop_to_mark()); return true;
    case '\x90': extend(Kind::kSet, pop_to_mark()); return true;
    default: return false;
  }
}

bool PickleMachine::step_references(char opcode) {
  switch (opcode) {
    case 'q': remember(number<uint8_t>()); return true;
    case 'r': remember(number<uint32_t>()); return true;
    case '\x94': remember(memo_.size()); return true;
    case 'h': recall(number<uint8_t>()); return true;
    case 'j': recall(number<uint32_t>()); return true;
    case 'c': {
      const std::string module = line();
      push_global(module + "." + line());
      return true;
    }
    case '\x93': stack_global(); return true;
    case 'Q': push_items(Kind::kPersistent, {pop()}); return true;
    case 'R':
    case '\x81': reduce(); return true;  // NEWOBJ: the same to a reader that calls nothing
    case 'b': build(); return true;
    default: return false;
  }
}

PickleDocument::PickleDocument(std::span<const std::byte> bytes, const std::string& where) {
  PickleMachine(*this, bytes, where).run();
}

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value <= 255) {
    put('K');
    put(static_cast<char>(value));
  } else if (value == static_cast<int32_t>(value)) {
    put('J');
    put_bytes(&value, 4);
  } else {
    put('\x8a');
    put(8);
    put_bytes(&value, 8);
  }
}

void PickleWriter::real(double value) {
  const uint64_t big_endian = byte_swapped(std::bit_cast<uint64_t>(value));
  put('G');
  put_bytes(&big_endian, 8);
}

void PickleWriter::string(std::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  LOCKSTEP_CHECK(size == text.size(), "text bytes={}", text.size());
  put('X');
  put_bytes(&size, 4);
  put_bytes(text.data(), text.size());
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  bytes_ += fmt::format("c{}\n{}\n", module, name);
}

void PickleWriter::begin_list() {
  put(']');
  put('(');
}

void PickleWriter::begin_dict(bool ordered) {
  if (ordered) {
    global("collections", "OrderedDict");
    begin_tuple();
    end_tuple();
    call();
  } else {
    put('}');
  }
  put('(');
}

std::string PickleWriter::finish() {
  put('.');
  return std::move(bytes_);
}

}  // namespace lockstep::models
