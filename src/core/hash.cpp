#include "core/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "core/error.h"

namespace lockstep::core {

struct Xxh3::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()) == XXH_OK, "bytes={}", bytes.size());
}

namespace {
std::string hex_of(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }
}  // namespace

std::string Xxh3::hex() const { return hex_of(XXH3_128bits_digest(state_->xxh)); }
std::string xxh3_hex(std::span<const std::byte> bytes) { return hex_of(XXH3_128bits(bytes.data(), bytes.size())); }
std::string xxh3_hex(std::string_view text) { return hex_of(XXH3_128bits(text.data(), text.size())); }
uint64_t stable_hash(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace lockstep::core
