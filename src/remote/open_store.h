#pragma once
#include <memory>

#include "remote/address.h"
#include "remote/object_store.h"
#include "remote/s3_client.h"

namespace lockstep::remote {

/// A folder or S3 by `address`. UsageError for http(s)://, where nothing can be stored.
std::unique_ptr<ObjectStore> open_store(const Address& address, const ClientConfig& config = {});

}  // namespace lockstep::remote
