#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "remote/object_store.h"
#include "remote/s3_client.h"

namespace lockstep::remote {

/// A folder of a file system, perhaps of a slow one that other machines share.
class FolderStore final : public ObjectStore {
 public:
  FolderStore(std::filesystem::path root, ClientConfig config);
  std::string text() const override { return root_.string(); }
  std::vector<StoredFile> list(const std::string& prefix) override;
  void put(const std::string& name, std::string_view content) override;
  void upload(const std::string& name, const OutgoingFile& file, UploadMemory& memory) override;
  std::string read(const std::string& name) override;
  void download(const std::string& name, const std::filesystem::path& to) override;
  void remove(const std::string& name) override;
  int64_t drop_unfinished(const std::vector<core::Json>& kept) override;

 private:
  void copy(const core::Fd& from, int64_t bytes, const std::filesystem::path& shown, const std::filesystem::path& to);

  std::filesystem::path root_;
  ClientConfig config_;
};

}  // namespace lockstep::remote
