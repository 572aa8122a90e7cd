#include "remote/open_store.h"

#include "core/error.h"
#include "remote/folder_store.h"
#include "remote/s3_store.h"

namespace lockstep::remote {

std::unique_ptr<ObjectStore> open_store(const Address& address, const ClientConfig& config) {
  switch (address.kind) {
    case AddressKind::kS3: return std::make_unique<S3Store>(address, config);
    case AddressKind::kFolder: return std::make_unique<FolderStore>(address.path, config);
    case AddressKind::kHttp: break;
  }
  throw UsageError(
      fmt::format("remote: nothing can be stored at '{}', expected s3://BUCKET/FOLDER or a path", address.text()),
      "storage with an address of its own: s3:// with AWS_ENDPOINT_URL set to it");
}

}  // namespace lockstep::remote
