#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/env.h"
#include "core/files.h"
#include "core/json.h"
#include "core/process.h"
#include "core/strings.h"
#include "remote/http.h"
#include "remote/s3_client.h"
#include "remote/s3_xml.h"

namespace lockstep::tests {

/// moto's S3 server with the gate of tests/support/s3_server.py before it, and the bucket "runs". Ended with the
/// object.
class S3Servers {
 public:
  /// Where moto is: LOCKSTEP_MOTO_DIR, or where ./test installs it; "" where it is not.
  static std::string moto_folder() {
    if (const auto named = core::env("LOCKSTEP_MOTO_DIR")) return *named;
    const std::string cache = core::env("XDG_CACHE_HOME").value_or(core::env("HOME").value_or("") + "/.cache");
    const std::string folder = cache + "/lockstep/s3-server-moto-5.2.5";
    return std::filesystem::exists(folder) ? folder : "";
  }
  static constexpr const char* kMissing = "moto, an S3 server of PyPI, is missing: ./test installs it";

  S3Servers() {
    store_.emplace(start({"store", (folder_.path() / "store").string()}));
    store_port_ = port_of("store");
    start_gate();
    remote::S3Client("runs", config()).send({.method = "PUT"});
    order({{"match", ""}});
  }

  std::string endpoint() const { return "http://127.0.0.1:" + gate_port_; }
  /// Past the gate: of objects that everybody may read.
  std::string store_endpoint() const { return "http://127.0.0.1:" + store_port_; }
  /// Of a process: variables that let it in.
  std::vector<std::pair<std::string, std::string>> variables(const std::string& key_id = "test") const {
    return {{"AWS_ENDPOINT_URL", endpoint()},
            {"AWS_ACCESS_KEY_ID", key_id},
            {"AWS_SECRET_ACCESS_KEY", "secret"},
            {"AWS_CONFIG_FILE", "/dev/null"},
            {"AWS_SHARED_CREDENTIALS_FILE", "/dev/null"}};
  }
  remote::Account account(const std::string& key_id = "test") const {
    return {.credentials = {.key_id = key_id, .secret = "secret", .origin = "a test"}, .endpoint = endpoint()};
  }
  remote::ClientConfig config(const std::string& key_id = "test") const {
    return {.find_account = [account = account(key_id)] { return account; },
            .retry = {.first_s = 0.01, .cap_s = 0.05, .max_attempts = 4}};
  }

  /// Gives the gate orders, see s3_server.py; returns what it has seen.
  core::Json order(const core::Json& orders = core::Json::object()) const {
    remote::HttpClient client;
    return core::parse_json(client.send({.method = "POST", .url = endpoint() + "/_gate", .body = orders.dump()}).body,
                            "gate");
  }
  /// Requests so far whose line begins with `method` and holds `part`.
  int64_t num_requests(const std::string& method, const std::string& part) const {
    int64_t count = 0;
    const core::Json seen = order();
    for (const auto& line : seen.at("lines")) {
      const auto text = line.get<std::string>();
      count += core::starts_with(text, method + " ") && text.find(part) != std::string::npos ? 1 : 0;
    }
    return count;
  }
  /// Whether a part of an upload of "runs" that is not complete has arrived.
  bool has_part(const std::string& key, int64_t number) const {
    remote::S3Client client("runs", config());
    for (const auto& upload : client.list_unfinished(key)) {
      const auto page = client.send({.key = upload.key, .query = {{"uploadId", upload.upload_id}}}).body;
      for (const auto& part : remote::parse_part_page(page).parts)
        if (part.number == number) return true;
    }
    return false;
  }
  void kill_gate() {
    gate_->kill_group();
    gate_->wait();
    gate_.reset();
  }
  /// On the port it had, if it had one.
  void start_gate() {
    std::filesystem::remove(folder_.path() / "gate");
    std::vector<std::string> args = {"gate", (folder_.path() / "gate").string(), store_port_};
    if (!gate_port_.empty()) args.push_back(gate_port_);
    gate_.emplace(start(args));
    gate_port_ = port_of("gate");
  }

 private:
  static core::Process start(std::vector<std::string> args) {
    args.insert(args.begin(), {"/usr/bin/env", "python3", LOCKSTEP_SOURCE_DIR "/tests/support/s3_server.py"});
    return core::Process::spawn({.argv = args,
                                 .env_changes = {{"PYTHONPATH", moto_folder()}},
                                 .out = core::ProcessOptions::Stream::kNull,
                                 .err = core::ProcessOptions::Stream::kNull});
  }
  std::string port_of(const std::string& name) const {
    const auto file = folder_.path() / name;
    for (int tries = 0; tries < 1200 && !std::filesystem::exists(file); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return core::read_file(file);
  }

  core::TempDir folder_{"lockstep_s3"};
  std::string store_port_, gate_port_;
  std::optional<core::Process> store_, gate_;
};

/// One pair of servers for the tests of a file.
class S3Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!S3Servers::moto_folder().empty()) servers_ = new S3Servers();
  }
  static void TearDownTestSuite() {
    delete servers_;
    servers_ = nullptr;
  }
  void SetUp() override {
    if (servers_ == nullptr) GTEST_SKIP() << S3Servers::kMissing;
    servers_->order({{"fail", 0},
                     {"unknown", 0},
                     {"drop", 0},
                     {"damage", 0},
                     {"hang", false},
                     {"delay_s", 0},
                     {"expired", false},
                     {"clock_s", 0},
                     {"tells_no_date", false},
                     {"region", ""},
                     {"hide_total", false},
                     {"most_bytes", 0},
                     {"match", ""}});
  }
  inline static S3Servers* servers_ = nullptr;
};

}  // namespace lockstep::tests
