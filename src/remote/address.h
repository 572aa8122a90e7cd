#pragma once
#include <string>
#include <string_view>

namespace lockstep::remote {

enum class AddressKind { kFolder, kS3, kHttp };

/// Where something lies: s3://BUCKET/KEY, http://... or https://..., file:///PATH or a path.
struct Address {
  AddressKind kind = AddressKind::kFolder;
  std::string bucket = {};  ///< kS3 only.
  std::string path = {};    ///< kS3: the key, without slashes at its ends; kFolder: the path; kHttp: the whole URL.

  /// As users write it; of a URL without its query and without a password, which must not reach a log.
  std::string text() const;
  /// The address of something below.
  Address child(std::string_view name) const;
};

/// True for s3://, http:// and https://: what lies there is no file of this machine.
bool is_url(std::string_view text);

/// UsageError for another scheme, and for s3:// without a bucket or with a name that no bucket can have.
Address parse_address(const std::string& text);

}  // namespace lockstep::remote
