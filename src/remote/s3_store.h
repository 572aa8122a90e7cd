#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "remote/address.h"
#include "remote/object_store.h"
#include "remote/s3_client.h"

namespace lockstep::remote {

/// Files above so many bytes travel in parts of so many, as AWS's own tools do, several at once.
inline constexpr int64_t kPartBytes = int64_t{8} << 20;
/// Parts grow with the file, up to 64 MiB, so that large files have few; beyond that where 10,000 do not suffice.
int64_t part_bytes_of(int64_t file_bytes);

/// Objects below a key of a bucket.
class S3Store final : public ObjectStore {
 public:
  S3Store(const Address& address, const ClientConfig& config);
  std::string text() const override { return address_.text(); }
  std::vector<StoredFile> list(const std::string& prefix) override;
  void put(const std::string& name, std::string_view content) override;
  void upload(const std::string& name, const OutgoingFile& file, UploadMemory& memory) override;
  std::string read(const std::string& name) override;
  void download(const std::string& name, const std::filesystem::path& to) override;
  void remove(const std::string& name) override;
  int64_t drop_unfinished(const std::vector<core::Json>& kept) override;

 private:
  struct PartDigests;
  std::string key(const std::string& name) const { return address_.child(name).path; }
  /// Sends a part of a file, or the whole; compares the ETag, which is returned.
  static std::string send_part(S3Client& client, S3Request request, const FilePart& part, const PartDigests& digests);
  /// Calls `send` for each index below `num_parts`, of several threads with a client each. After a failure, which is
  /// thrown, no other part begins, but those under way arrive.
  void for_each_part(int64_t num_parts, const std::function<void(int64_t index, S3Client& client)>& send);
  std::string begin_parts(const std::string& name, UploadMemory& memory, int64_t part_bytes);
  std::vector<UploadedPart> uploaded_parts(const std::string& name, const std::string& upload_id);
  void upload_parts(const std::string& name, const OutgoingFile& file, UploadMemory& memory);
  void complete(const std::string& name, const std::string& upload_id, const std::vector<std::string>& etags,
                const std::string& expected_etag);

  Address address_;
  std::shared_ptr<S3Client> client_;
  std::vector<std::shared_ptr<S3Client>> more_clients_;  // of threads that send parts
};

}  // namespace lockstep::remote
