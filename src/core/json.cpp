#include "core/json.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::core {
namespace {

constexpr size_t kMaxDepth = 200;
/// Objects with fewer keys are searched one by one.
constexpr size_t kFewKeys = 32;

/// What the parser says, without its own code in brackets.
std::string plain_words(const Json::exception& error) {
  const std::string words = error.what();
  const size_t end = words.find("] ");
  return words.front() == '[' && end != std::string::npos ? words.substr(end + 2) : words;
}

/// Builds a value from the parser's events in time linear in the text. The library's own builder looks for each new key
/// among all before it: an object of 80,000 keys took it 10 s.
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit JsonBuilder(std::string_view where) : where_(where) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    auto& members = level.value->get_ref<Json::object_t&>();
    bool is_new = true;
    if (members.size() < kFewKeys) {
      for (const auto& member : members) is_new = is_new && member.first != name;
    } else {
      if (level.keys.empty())
        for (const auto& member : members) level.keys.insert(member.first);
      is_new = level.keys.insert(name).second;
    }
    if (!is_new) throw DataError(fmt::format("json: key '{}' occurs twice in one object of '{}'", name, where_));
    if (members.size() == members.capacity()) make_room(members);
    members.emplace_back(std::move(name), nullptr);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    throw DataError(fmt::format("json: cannot parse '{}': {}", where_, plain_words(error)));
  }

 private:
  struct Level {
    Json* value;  // stays where it is: what holds it grows only after its end
    std::unordered_set<std::string> keys{};
  };

  /// Values are moved: a vector that grows by itself would copy them with all that is in them, since its keys are
  /// constant.
  static void make_room(Json::object_t& members) {
    constexpr size_t kFirst = 4;
    Json::object_t roomier;
    roomier.reserve(std::max(kFirst, 2 * members.size()));
    for (auto& [name, value] : members) roomier.emplace_back(name, std::move(value));
    members = std::move(roomier);
  }

  /// The value that comes next: the root, of the last key, or of a list.
  Json& place() {
    if (levels_.empty()) return root_;
    Json& outer = *levels_.back().value;
    if (outer.is_array()) return outer.emplace_back(nullptr);
    return outer.get_ref<Json::object_t&>().back().second;
  }
  template <typename Value> bool add(Value&& value) {
    place() = Json(std::forward<Value>(value));
    return true;
  }
  bool open(Json empty) {
    if (levels_.size() == kMaxDepth)
      throw DataError(fmt::format("json: '{}' is nested deeper than {} levels", where_, kMaxDepth));
    Json& value = place();
    value = std::move(empty);
    levels_.push_back({&value});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view where_;
  Json root_;
  std::vector<Level> levels_;
};
}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  JsonBuilder builder(where);
  Json::sax_parse(text, &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

std::string text_at(const Json& value, const char* key) {
  if (!value.is_object()) return "";
  const auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>())) return std::nullopt;
  return value.get<int64_t>();
}

std::optional<int64_t> integer_at(const Json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : integer_of(*found);
}

}  // namespace lockstep::core
