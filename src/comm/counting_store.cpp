#include "comm/counting_store_internal.h"

#include <utility>

namespace lockstep::comm {

CountingStore::CountingStore(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<StoreCalls> calls)
    : c10d::Store(store->getTimeout()), store_(std::move(store)), calls_(std::move(calls)) {}

c10d::Store& CountingStore::counted() {
  calls_->others.fetch_add(1);
  return *store_;
}

c10::intrusive_ptr<c10d::Store> CountingStore::clone() {
  return c10::make_intrusive<CountingStore>(store_->clone(), calls_);
}
void CountingStore::set(const std::string& key, const std::vector<uint8_t>& value) { counted().set(key, value); }
std::vector<uint8_t> CountingStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                               const std::vector<uint8_t>& desired) {
  return counted().compareSet(key, expected, desired);
}
std::vector<uint8_t> CountingStore::get(const std::string& key) { return counted().get(key); }
int64_t CountingStore::add(const std::string& key, int64_t value) { return counted().add(key, value); }
bool CountingStore::deleteKey(const std::string& key) { return counted().deleteKey(key); }
bool CountingStore::check(const std::vector<std::string>& keys) {
  calls_->checks.fetch_add(1);
  return store_->check(keys);
}
int64_t CountingStore::getNumKeys() { return counted().getNumKeys(); }
void CountingStore::wait(const std::vector<std::string>& keys) { counted().wait(keys); }
void CountingStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  counted().wait(keys, timeout);
}
const std::chrono::milliseconds& CountingStore::getTimeout() const noexcept { return store_->getTimeout(); }
void CountingStore::setTimeout(const std::chrono::milliseconds& timeout) { store_->setTimeout(timeout); }
void CountingStore::append(const std::string& key, const std::vector<uint8_t>& value) { counted().append(key, value); }
std::vector<std::vector<uint8_t>> CountingStore::multiGet(const std::vector<std::string>& keys) {
  return counted().multiGet(keys);
}
void CountingStore::multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) {
  counted().multiSet(keys, values);
}
bool CountingStore::hasExtendedApi() const { return store_->hasExtendedApi(); }

}  // namespace lockstep::comm
