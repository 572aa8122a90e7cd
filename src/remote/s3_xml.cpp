#include "remote/s3_xml.h"

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace {

constexpr int kMaxDepth = 16;

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  XmlElement read_document() {
    skip_between();
    if (at_ >= text_.size() || text_[at_] != '<') fail("an element is missing");
    XmlElement root = read_element(1);
    skip_between();
    if (at_ < text_.size()) fail("there is text behind the end");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("remote: the server's answer is no XML as S3 writes it: byte {}: {}", at_, what),
                    "is the endpoint one of S3? A proxy may answer in its place");
  }
  bool takes(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void skip_to_end_of(std::string_view end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) fail(fmt::format("'{}' is missing", end));
    at_ = found + end.size();
  }
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  /// White space, declarations and comments before and behind the root.
  void skip_between() {
    for (;;) {
      skip_spaces();
      if (takes("<?"))
        skip_to_end_of("?>");
      else if (takes("<!--"))
        skip_to_end_of("-->");
      else if (text_.substr(at_, 2) == "<!")
        fail("document types are refused");
      else
        return;
    }
  }
  std::string read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && !is_space(text_[at_]) &&
           std::string_view("<>/='\"&").find(text_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == begin) fail("a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }
  /// Behind the name; true: the element is empty (<x/>).
  bool skip_attributes() {
    for (;;) {
      skip_spaces();
      if (takes("/>")) return true;
      if (takes(">")) return false;
      read_name();
      skip_spaces();
      if (!takes("=")) fail("an attribute has no value");
      skip_spaces();
      const char quote = at_ < text_.size() ? text_[at_] : '\0';
      if (quote != '"' && quote != '\'') fail("an attribute's value has no quotes");
      ++at_;
      skip_to_end_of(std::string_view(&quote, 1));
    }
  }
  static void append_utf8(std::string& out, uint32_t code) {
    const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) return add(code);
    if (code < 0x800) return add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
    if (code < 0x10000) return add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F)), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  }
  void read_entity(std::string& out) {
    const size_t end = text_.find(';', at_);
    if (end == std::string_view::npos || end - at_ > 10) fail("an entity has no end");
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    static constexpr std::pair<std::string_view, char> kNamed[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (const auto& [known, character] : kNamed)
      if (name == known) {
        out += character;
        at_ = end + 1;
        return;
      }
    const bool is_hex = core::starts_with(name, "#x");
    if (name.size() < 2 || name[0] != '#') fail(fmt::format("the entity '{}' is not known", name));
    uint32_t code = 0;
    for (const char c : name.substr(is_hex ? 2 : 1)) {
      const size_t digit =
          std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == std::string_view::npos || (!is_hex && digit > 9)) fail("an entity is no number");
      code = code * (is_hex ? 16 : 10) + static_cast<uint32_t>(digit);
      if (code > 0x10FFFF) fail("an entity is no character");
    }
    if (code == 0 || (code >= 0xD800 && code < 0xE000)) fail("an entity is no character");
    append_utf8(out, code);
    at_ = end + 1;
  }
  XmlElement read_element(int depth) {
    if (depth > kMaxDepth) fail(fmt::format("elements are nested deeper than {}", kMaxDepth));
    if (!takes("<")) fail("an element is missing");
    XmlElement element;
    element.name = read_name();
    if (!skip_attributes()) read_content(element, depth);
    return element;
  }
  void read_content(XmlElement& element, int depth) {
    while (at_ < text_.size()) {
      if (takes("</")) {
        if (read_name() != element.name) fail(fmt::format("'{}' is not closed", element.name));
        skip_spaces();
        if (!takes(">")) fail("'>' is missing");
        if (!element.children.empty()) element.text.clear();  // white space between them
        return;
      }
      if (takes("<!--")) {
        skip_to_end_of("-->");
      } else if (takes("<![CDATA[")) {
        const size_t begin = at_;
        skip_to_end_of("]]>");
        element.text += text_.substr(begin, at_ - 3 - begin);
      } else if (text_[at_] == '<') {
        element.children.push_back(read_element(depth + 1));
      } else if (text_[at_] == '&') {
        read_entity(element.text);
      } else {
        if (text_[at_] == '\0') fail("a zero byte");
        element.text += text_[at_++];
      }
    }
    fail(fmt::format("'{}' is never closed", element.name));
  }

  std::string_view text_;
  size_t at_ = 0;
};

void require_root(const XmlElement& root, std::string_view name) {
  if (root.name != name)
    throw DataError(fmt::format("remote: the server answered with <{}>, expected <{}>", root.name.substr(0, 100), name),
                    "is the endpoint one of S3? A proxy may answer in its place");
}

int64_t number_of(const XmlElement& element, std::string_view name) {
  const auto number = core::parse_int(element.text_of(name));
  if (!number || *number < 0)
    throw DataError(fmt::format("remote: <{}> of the server's answer holds '{}', expected a number", name,
                                element.text_of(name).substr(0, 100)));
  return *number;
}

std::string etag_of(const XmlElement& element) { return core::replace_all(element.text_of("ETag"), "\"", ""); }

/// The continuation of a list that says it goes on; without one it would be read from the start for ever.
std::string continuation(const XmlElement& root, std::string_view name) {
  if (root.text_of("IsTruncated") != "true") return "";
  if (root.text_of(name).empty()) throw DataError(fmt::format("remote: a list that goes on has no <{}>", name));
  return root.text_of(name);
}

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const XmlElement& element : children)
    if (element.name == wanted) return &element;
  return nullptr;
}

std::string XmlElement::text_of(std::string_view wanted) const {
  const XmlElement* found = child(wanted);
  return found == nullptr ? "" : found->text;
}

XmlElement parse_xml(std::string_view text) { return XmlReader(text).read_document(); }

ObjectPage parse_object_page(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  require_root(root, "ListBucketResult");
  ObjectPage page{.objects = {}, .next_token = continuation(root, "NextContinuationToken")};
  for (const XmlElement& element : root.children)
    if (element.name == "Contents")
      page.objects.push_back(
          {.key = element.text_of("Key"), .bytes = number_of(element, "Size"), .etag = etag_of(element)});
  return page;
}

PartPage parse_part_page(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  if (root.name != "ListPartsResponse") require_root(root, "ListPartsResult");  // moto's name for it
  PartPage page{.parts = {}, .next_marker = continuation(root, "NextPartNumberMarker")};
  for (const XmlElement& element : root.children)
    if (element.name == "Part")
      page.parts.push_back(
          {.number = number_of(element, "PartNumber"), .bytes = number_of(element, "Size"), .etag = etag_of(element)});
  return page;
}

UploadPage parse_upload_page(std::string_view xml) {
  const XmlElement root = parse_xml(xml);
  require_root(root, "ListMultipartUploadsResult");
  UploadPage page{.uploads = {},
                  .next_key = continuation(root, "NextKeyMarker"),
                  .next_upload_id = continuation(root, "NextUploadIdMarker")};
  for (const XmlElement& element : root.children)
    if (element.name == "Upload")
      page.uploads.push_back({.key = element.text_of("Key"), .upload_id = element.text_of("UploadId")});
  return page;
}

S3Fault parse_fault(std::string_view xml) {
  try {
    const XmlElement root = parse_xml(xml);
    if (root.name != "Error") return {};
    return {.code = root.text_of("Code"), .message = root.text_of("Message"), .region = root.text_of("Region")};
  } catch (const DataError&) {
    return {};
  }
}

}  // namespace lockstep::remote
