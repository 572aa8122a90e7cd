#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/hub_cache.h"
#include "core/files.h"

namespace lockstep::tests {

/// Local caches of Hugging Face and OpenCLIP that only this test has: below a home of its own, empty at first.
class LocalCaches : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::optional<std::string>() : std::string(value));
      unsetenv(name);
    }
    setenv("HOME", home().c_str(), 1);
    config::look_first_in({});
  }
  void TearDown() override {
    config::look_first_in({});
    for (const auto& [name, value] : before_) value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  }

  const std::filesystem::path& home() const { return folder_.path(); }
  std::filesystem::path put(const std::filesystem::path& path, const std::string& content = "x") const {
    std::filesystem::create_directories((home() / path).parent_path());
    core::write_file_atomic(home() / path, content);
    return home() / path;
  }

 private:
  static constexpr const char* kNames[] = {"HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE",
                                           "HUGGINGFACE_HUB_CACHE"};
  core::TempDir folder_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

}  // namespace lockstep::tests
