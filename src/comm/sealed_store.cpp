#include <utility>

#include "comm/sealed_store_internal.h"
#include "core/digest.h"
#include "core/error.h"

namespace lockstep::comm {

constexpr size_t kCodeBytes = 32;

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store, std::string secret)
    : c10d::Store(store->getTimeout()), store_(std::move(store)), secret_(std::move(secret)) {}

std::string SealedStore::sealed_name(const std::string& key) const {
  return core::to_hex(core::hmac_sha256(secret_, "name " + key));
}

std::vector<std::string> SealedStore::sealed_names(const std::vector<std::string>& keys) const {
  std::vector<std::string> names;
  for (const std::string& key : keys) names.push_back(sealed_name(key));
  return names;
}

/// Names are sealed ones, all of one length, so that no other pair of name and value gives the same text.
std::string SealedStore::code_of(const std::string& name, const std::vector<uint8_t>& value) const {
  return core::hmac_sha256(secret_, "value " + name + std::string(value.begin(), value.end()));
}

std::vector<uint8_t> SealedStore::sealed(const std::string& name, const std::vector<uint8_t>& value) const {
  const std::string code = code_of(name, value);
  std::vector<uint8_t> both = value;
  both.insert(both.end(), code.begin(), code.end());
  return both;
}

std::vector<uint8_t> SealedStore::opened(const std::string& name, std::vector<uint8_t> value) const {
  const bool is_long_enough = value.size() >= kCodeBytes;
  const std::string code(is_long_enough ? value.end() - kCodeBytes : value.end(), value.end());
  value.resize(value.size() - code.size());
  if (!core::same_bytes(code, code_of(name, value)))
    throw CommError("comm: the job's store holds a value that no rank of this job has written",
                    "someone else reaches the store's port, or LOCKSTEP_STORE_SECRET differs between the ranks");
  return value;
}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), secret_);
}

void SealedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  const std::string name = sealed_name(key);
  store_->set(name, sealed(name, value));
}

/// An empty `expected` means that the name is not there yet.
std::vector<uint8_t> SealedStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  const std::string name = sealed_name(key);
  std::vector<uint8_t> found =
      store_->compareSet(name, expected.empty() ? expected : sealed(name, expected), sealed(name, desired));
  return found.empty() ? found : opened(name, std::move(found));
}

std::vector<uint8_t> SealedStore::get(const std::string& key) {
  const std::string name = sealed_name(key);
  return opened(name, store_->get(name));
}

int64_t SealedStore::add(const std::string& key, int64_t value) { return store_->add(sealed_name(key), value); }
bool SealedStore::deleteKey(const std::string& key) { return store_->deleteKey(sealed_name(key)); }
bool SealedStore::check(const std::vector<std::string>& keys) { return store_->check(sealed_names(keys)); }
int64_t SealedStore::getNumKeys() { return store_->getNumKeys(); }
void SealedStore::wait(const std::vector<std::string>& keys) { store_->wait(sealed_names(keys)); }
void SealedStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  store_->wait(sealed_names(keys), timeout);
}
const std::chrono::milliseconds& SealedStore::getTimeout() const noexcept { return store_->getTimeout(); }
void SealedStore::setTimeout(const std::chrono::milliseconds& timeout) { store_->setTimeout(timeout); }

std::vector<std::vector<uint8_t>> SealedStore::multiGet(const std::vector<std::string>& keys) {
  const std::vector<std::string> names = sealed_names(keys);
  std::vector<std::vector<uint8_t>> values = store_->multiGet(names);
  for (size_t i = 0; i < values.size(); ++i) values[i] = opened(names.at(i), std::move(values[i]));
  return values;
}

void SealedStore::multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) {
  const std::vector<std::string> names = sealed_names(keys);
  std::vector<std::vector<uint8_t>> sealed_values;
  for (size_t i = 0; i < values.size(); ++i) sealed_values.push_back(sealed(names.at(i), values[i]));
  store_->multiSet(names, sealed_values);
}

bool SealedStore::hasExtendedApi() const { return store_->hasExtendedApi(); }

}  // namespace lockstep::comm
