#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "remote/address.h"
#include "remote/s3_client.h"

namespace lockstep::remote {

/// Random reading of one object by ranges, each tried again from the byte where it broke off. The object must stay the
/// same: another ETag or size is an error. Not thread safe.
class RemoteReader {
 public:
  /// kS3 or kHttp. Nothing is sent yet.
  RemoteReader(const Address& address, ClientConfig config);
  RemoteReader(const Address& address, std::shared_ptr<S3Client> client);

  /// Fills `buffer` from `offset`; returns the bytes read, fewer only at the end of the object. RemoteError, among them
  /// for a server that does not serve ranges of a longer object.
  size_t read_at(uint64_t offset, std::span<std::byte> buffer);
  /// Size of the object; known after the first read, or, where the server does not tell it, when its end was reached.
  std::optional<uint64_t> bytes() const { return bytes_; }

 private:
  HttpResponse get(const std::string& range, const BodySink& sink);
  [[noreturn]] void throw_no_ranges() const;
  void read_rest(uint64_t offset, std::span<std::byte> buffer, size_t& filled);
  size_t available(uint64_t offset, size_t wanted) const;
  void check_same(const HttpResponse& response, uint64_t offset);

  Address address_;
  ClientConfig config_;
  std::shared_ptr<S3Client> s3_;      // kS3
  std::unique_ptr<HttpClient> http_;  // kHttp
  std::optional<uint64_t> bytes_;
  std::string etag_;
};

}  // namespace lockstep::remote
