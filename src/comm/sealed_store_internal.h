#pragma once
// For the c10d units of this folder only.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace lockstep::comm {

/// A store that strangers may reach and list, for those who share a secret. Names become HMAC-SHA256 codes of the
/// secret and the name; each value carries such a code of its name and itself, and one whose code is wrong is an error.
/// Counts (`add`) carry none: the server adds. Nothing is encrypted.
class SealedStore final : public c10d::Store {
 public:
  SealedStore(c10::intrusive_ptr<c10d::Store> store, std::string secret);

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override;

 private:
  std::string code_of(const std::string& name, const std::vector<uint8_t>& value) const;
  std::vector<uint8_t> sealed(const std::string& name, const std::vector<uint8_t>& value) const;
  std::vector<uint8_t> opened(const std::string& name, std::vector<uint8_t> value) const;
  std::string sealed_name(const std::string& key) const;
  std::vector<std::string> sealed_names(const std::vector<std::string>& keys) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::string secret_;
};

}  // namespace lockstep::comm
