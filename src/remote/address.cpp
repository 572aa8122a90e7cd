#include "remote/address.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::remote {
namespace {

std::string without_slashes(std::string_view path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

bool is_bucket_name(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_';
         });
}

/// Without user, password, query and fragment.
std::string without_secrets(const std::string& url) {
  std::string text = url.substr(0, url.find_first_of("?#"));
  const size_t host = text.find("://") + 3, at = text.find('@', host), slash = text.find('/', host);
  if (at != std::string::npos && at < slash) text.erase(host, at + 1 - host);
  return text;
}

}  // namespace

std::string Address::text() const {
  switch (kind) {
    case AddressKind::kS3: return fmt::format("s3://{}/{}", bucket, path);
    case AddressKind::kHttp: return without_secrets(path);
    case AddressKind::kFolder: break;
  }
  return path;
}

Address Address::child(std::string_view name) const {
  Address below = *this;
  below.path = path.empty()                 ? std::string(name)
               : core::ends_with(path, "/") ? path + std::string(name)
                                            : fmt::format("{}/{}", path, name);
  return below;
}

bool is_url(std::string_view text) {
  return core::starts_with(text, "s3://") || core::starts_with(text, "http://") || core::starts_with(text, "https://");
}

Address parse_address(const std::string& text) {
  if (core::has_control_character(text))
    throw UsageError("remote: an address has a control character in it", "write it as s3://BUCKET/FOLDER");
  if (core::starts_with(text, "http://") || core::starts_with(text, "https://"))
    return {.kind = AddressKind::kHttp, .path = text};
  if (core::starts_with(text, "s3://")) {
    const std::string rest = text.substr(5);
    const std::string bucket = rest.substr(0, rest.find('/'));
    if (!is_bucket_name(bucket))
      throw UsageError(fmt::format("remote: '{}' names no bucket, expected s3://BUCKET/FOLDER", text),
                       "names of buckets have 3 to 63 letters, digits, dots and hyphens");
    return {.kind = AddressKind::kS3,
            .bucket = bucket,
            .path = rest.size() > bucket.size() ? without_slashes(rest.substr(bucket.size())) : ""};
  }
  if (core::starts_with(text, "file://")) {
    if (text.size() < 8 || text[7] != '/')
      throw UsageError(fmt::format("remote: '{}' names no file here, expected file:///FOLDER", text),
                       "three slashes: the name of the machine is empty");
    return {.kind = AddressKind::kFolder, .path = text.substr(7)};
  }
  if (text.find("://") != std::string::npos)
    throw UsageError(
        fmt::format("remote: '{}' has a scheme that is not known, expected s3://, file:// or a path", text),
        "storage of other makers often speaks S3 as well: s3:// with AWS_ENDPOINT_URL set to its address");
  if (text.empty()) throw UsageError("remote: an address is empty", "write s3://BUCKET/FOLDER or a path");
  return {.kind = AddressKind::kFolder, .path = text};
}

}  // namespace lockstep::remote
