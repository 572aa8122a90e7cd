#include "data/shards/plain_pickle.h"

#include <limits>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace lockstep::data {
namespace {

using Kind = PlainPickle::Kind;

constexpr size_t kMaxListDepth = 16;  // of lists within lists
/// Of a pickle with less than four bytes for each of its values; keys of samples take more.
constexpr size_t kMaxSmallValues = 1'000'000;

/// A machine of the opcodes that make plain values (Python's pickletools.py describes them).
class PickleParser {
 public:
  PickleParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  PlainPickle parse() {
    while (step(static_cast<unsigned char>(take(1).front()))) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("it does not end with one value");
    return std::move(stack_.back());
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{} is no pickle of plain values: {}, byte={}", where_, what, at_),
                    "expected integers, bytes, lists and tuples; others are not read, since a pickle can run code");
  }

  std::string_view take(size_t count) {
    if (count > text_.size() - at_) fail(fmt::format("cut, {} bytes are missing", count - (text_.size() - at_)));
    at_ += count;
    return text_.substr(at_ - count, count);
  }

  uint64_t take_number(size_t num_bytes) {
    uint64_t value = 0;
    size_t shift = 0;
    for (const char c : take(num_bytes)) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(c)) << shift;
      shift += 8;
    }
    return value;
  }

  /// A value takes many times the memory of the opcode that makes it.
  void push_new(PlainPickle value) {
    if (++num_values_ > kMaxSmallValues + text_.size() / 4) fail("more values than it should have for its size");
    stack_.push_back(std::move(value));
  }
  void push_integer(int64_t value) { push_new({.kind = Kind::kInteger, .integer = value}); }
  void push_bytes(uint64_t size) {
    if (size > text_.size()) fail(fmt::format("bytes of {} in {}", size, text_.size()));
    push_new({.kind = Kind::kBytes, .bytes = take(static_cast<size_t>(size))});
  }
  /// An integer of up to 8 bytes, the last of which has the sign.
  void push_long(size_t num_bytes) {
    if (num_bytes > 8) fail(fmt::format("an integer of {} bytes", num_bytes));
    uint64_t value = take_number(num_bytes);
    if (num_bytes > 0 && num_bytes < 8 && (value >> (num_bytes * 8 - 1)) != 0) value |= ~uint64_t{0} << (num_bytes * 8);
    push_integer(static_cast<int64_t>(value));
  }

  PlainPickle pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
    PlainPickle value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  /// The top `count` values become a tuple.
  void make_tuple(size_t count) {
    PlainPickle tuple{.kind = Kind::kList, .items = std::vector<PlainPickle>(count)};
    for (size_t i = count; i-- > 0;) tuple.items[i] = pop();
    push_list(std::move(tuple));
  }
  void push_list(PlainPickle list) {
    if (depth_of(list) > kMaxListDepth) fail(fmt::format("nested deeper than {}", kMaxListDepth));
    push_new(std::move(list));
  }
  static size_t depth_of(const PlainPickle& value) {
    size_t depth = 0;
    for (const PlainPickle& item : value.items) depth = std::max(depth, depth_of(item));
    return depth + (value.kind == Kind::kList ? 1 : 0);
  }
  size_t count_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    const size_t count = stack_.size() - marks_.back();
    return count;
  }
  /// The values above the last mark become a tuple, or are appended to the list below it.
  void close_mark(bool appends) {
    const size_t count = count_to_mark();
    if (!appends) {
      make_tuple(count);
      marks_.pop_back();
      return;
    }
    const size_t first = marks_.back();
    marks_.pop_back();
    if (first == 0 || stack_[first - 1].kind != Kind::kList) fail("nothing to append to");
    PlainPickle& list = stack_[first - 1];
    for (size_t i = first; i < stack_.size(); ++i) {
      if (depth_of(stack_[i]) >= kMaxListDepth) fail(fmt::format("nested deeper than {}", kMaxListDepth));
      list.items.push_back(std::move(stack_[i]));
    }
    stack_.resize(first);
  }
  void append_one() {
    PlainPickle value = pop();
    if (stack_.empty() || stack_.back().kind != Kind::kList) fail("nothing to append to");
    if (depth_of(value) >= kMaxListDepth) fail(fmt::format("nested deeper than {}", kMaxListDepth));
    stack_.back().items.push_back(std::move(value));
  }
  /// Only bytes are kept: lists could be multiplied without end.
  void remember(uint64_t slot) {
    if (stack_.empty()) fail("nothing to remember");
    ++num_remembered_;
    if (stack_.back().kind == Kind::kBytes) memo_[slot] = stack_.back().bytes;
  }
  void recall(uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) fail(fmt::format("nothing was remembered as {}", slot));
    push_new({.kind = Kind::kBytes, .bytes = found->second});
  }

  bool step(unsigned char opcode) {
    switch (opcode) {
      case 0x80: take(1); return true;                    // PROTO
      case 0x95: take(8); return true;                    // FRAME
      case 'C': push_bytes(take_number(1)); return true;  // SHORT_BINBYTES
      case 'B': push_bytes(take_number(4)); return true;  // BINBYTES
      case 0x8e: push_bytes(take_number(8)); return true;
      case 0x8c: push_bytes(take_number(1)); return true;  // SHORT_BINUNICODE
      case 'X': push_bytes(take_number(4)); return true;   // BINUNICODE
      case 'K': push_integer(static_cast<int64_t>(take_number(1))); return true;
      case 'M': push_integer(static_cast<int64_t>(take_number(2))); return true;
      case 'J': push_integer(static_cast<int32_t>(take_number(4))); return true;
      case 0x8a: push_long(take_number(1)); return true;  // LONG1
      case ']':
      case ')': push_list({.kind = Kind::kList}); return true;
      case '(': marks_.push_back(stack_.size()); return true;
      case 'a': append_one(); return true;
      case 'e': close_mark(true); return true;
      case 't': close_mark(false); return true;
      case 0x85: make_tuple(1); return true;
      case 0x86: make_tuple(2); return true;
      case 0x87: make_tuple(3); return true;
      case 0x94: remember(num_remembered_); return true;  // MEMOIZE
      case 'q': remember(take_number(1)); return true;
      case 'r': remember(take_number(4)); return true;
      case 'h': recall(take_number(1)); return true;
      case 'j': recall(take_number(4)); return true;
      case '.': return false;
      default: fail(fmt::format("opcode 0x{:02x}", opcode));
    }
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  std::vector<PlainPickle> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, std::string_view> memo_;
  uint64_t num_remembered_ = 0;
  size_t num_values_ = 0;
};

constexpr std::string_view kProtocol = "\x80\x03";

void append_number(std::string& out, uint64_t value, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

void append_integer(std::string& out, int64_t value) {
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
    out += 'J';
    append_number(out, static_cast<uint64_t>(value), 4);
  } else {
    out += "\x8a\x08";
    append_number(out, static_cast<uint64_t>(value), 8);
  }
}

void append_bytes(std::string& out, std::string_view bytes) {
  LOCKSTEP_CHECK(bytes.size() <= std::numeric_limits<uint32_t>::max(), "bytes={}", bytes.size());
  out += 'B';
  append_number(out, bytes.size(), 4);
  out += bytes;
}

}  // namespace

PlainPickle parse_plain_pickle(std::string_view text, const std::string& where) {
  return PickleParser(text, where).parse();
}

std::string pickle_integer(int64_t value) {
  std::string out(kProtocol);
  append_integer(out, value);
  return out + '.';
}

std::string pickle_pair(std::string_view bytes, int64_t value) {
  std::string out(kProtocol);
  out.reserve(bytes.size() + 24);
  append_bytes(out, bytes);
  append_integer(out, value);
  return out + "\x86.";
}

std::string pickle_byte_strings(const std::vector<std::string>& strings) {
  std::string out(kProtocol);
  out += "](";
  for (const std::string& text : strings) append_bytes(out, text);
  return out + "e.";
}

}  // namespace lockstep::data
