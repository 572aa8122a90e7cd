#pragma once
// For the c10d units of this folder only.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/store.h"

namespace lockstep::comm {

struct Store::Impl {
  c10::intrusive_ptr<c10d::Store> store;  // with its prefix
  uint16_t port = 0;
};

}  // namespace lockstep::comm
