#include "remote/s3_store.h"

#include <unistd.h>

#include <fcntl.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "core/digest.h"
#include "core/log.h"
#include "core/strings.h"
#include "remote/remote_reader.h"

namespace lockstep::remote {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMaxParts = 10'000, kComfortableParts = 64, kMaxPartBytes = int64_t{64} << 20;
constexpr int64_t kPartsAtOnce = 6;  // one connection carries what the server's window and latency allow
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kDownloadBytes = size_t{8} << 20;
constexpr const char *kUploadId = "upload_id", *kPartBytesKey = "part_bytes";

/// Whether an ETag is the MD5 of the content (joined MD5s of parts), which encryption with own keys makes it not.
bool is_md5_etag(const HttpResponse& response, const std::string& etag) {
  const bool is_hex = etag.size() >= 32 && std::all_of(etag.begin(), etag.begin() + 32, [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                      });
  const bool has_own_keys = response.header("x-amz-server-side-encryption") == "aws:kms" ||
                            response.header("x-amz-server-side-encryption") == "aws:kms:dsse" ||
                            !response.header("x-amz-server-side-encryption-customer-algorithm").empty();
  return is_hex && !has_own_keys;
}

void require_same_etag(const std::string& seen, const std::string& expected, const std::string& where) {
  if (seen != expected)
    throw RemoteError(fmt::format("remote: {} arrived damaged: etag={}, expected={}", where, seen, expected), "", true);
}

std::string unquoted(const std::string& etag) { return core::replace_all(etag, "\"", ""); }

}  // namespace

int64_t part_bytes_of(int64_t file_bytes) {
  const auto whole_mib = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20 << 20; };
  const int64_t comfortable = std::clamp(whole_mib(file_bytes / kComfortableParts), kPartBytes, kMaxPartBytes);
  return std::max(comfortable, whole_mib((file_bytes + kMaxParts - 1) / kMaxParts));
}

struct S3Store::PartDigests {
  std::string sha256, md5;  // bytes

  PartDigests(const FilePart& part, const std::string& name) {
    core::Digest both[] = {core::Digest(core::DigestKind::kSha256), core::Digest(core::DigestKind::kMd5)};
    std::vector<std::byte> block(kReadBytes);
    for (int64_t at = 0; at < part.bytes;) {
      const auto wanted = static_cast<size_t>(std::min<int64_t>(part.bytes - at, kReadBytes));
      const ssize_t got = ::pread(part.fd, block.data(), wanted, part.offset + at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        throw RemoteError(fmt::format("remote: the file of '{}' cannot be read at offset {}: {}", name,
                                      part.offset + at, got == 0 ? "it ends there" : std::strerror(errno)),
                          "", false);
      for (core::Digest& digest : both) digest.update(std::span(block).first(static_cast<size_t>(got)));
      at += got;
    }
    sha256 = both[0].finish();
    md5 = both[1].finish();
  }
};

S3Store::S3Store(const Address& address, const ClientConfig& config)
    : address_(address), client_(std::make_shared<S3Client>(address.bucket, config)) {}

std::vector<StoredFile> S3Store::list(const std::string& prefix) {
  const std::string root = address_.path.empty() ? "" : address_.path + "/";
  std::vector<StoredFile> files;
  for (const ListedObject& object : client_->list(root + prefix)) {
    if (!core::starts_with(object.key, root) || core::ends_with(object.key, "/")) continue;
    std::string name = object.key.substr(root.size());
    if (is_safe_name(name))
      files.push_back({std::move(name), object.bytes});
    else
      core::log_warning("remote: the key '{}' of {} is ignored: it would leave the run's folder", object.key, text());
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

void S3Store::put(const std::string& name, std::string_view content) {
  core::Digest md5(core::DigestKind::kMd5);
  md5.update(std::as_bytes(std::span(content)));
  const std::string digest = md5.finish();
  const HttpResponse response = client_->send({.method = "PUT",
                                               .key = key(name),
                                               .headers = {{"content-md5", core::to_base64(digest)}},
                                               .body = std::string(content)});
  const std::string etag = unquoted(response.header("etag"));
  if (is_md5_etag(response, etag)) require_same_etag(etag, core::to_hex(digest), address_.child(name).text());
}

std::string S3Store::send_part(S3Client& client, S3Request request, const FilePart& part, const PartDigests& digests) {
  request.method = "PUT";
  request.headers["content-md5"] = core::to_base64(digests.md5);
  request.file = part;
  request.file_sha256 = core::to_hex(digests.sha256);
  std::string etag;
  with_retries(
      client.config().retry, real_clock(client.config().is_stopped),
      [&] {
        const HttpResponse response = client.send_once(request);
        etag = unquoted(response.header("etag"));
        if (is_md5_etag(response, etag))
          require_same_etag(etag, core::to_hex(digests.md5), fmt::format("s3://{}/{}", client.bucket(), request.key));
      },
      [&](const RemoteError& error, int) {
        if (client.config().on_retry) client.config().on_retry(error);
      });
  return etag;
}

void S3Store::upload(const std::string& name, const OutgoingFile& file, UploadMemory& memory) {
  if (file.bytes > kPartBytes) return upload_parts(name, file, memory);
  const FilePart whole{.fd = file.file.get(), .offset = 0, .bytes = file.bytes};
  send_part(*client_, {.key = key(name)}, whole, PartDigests(whole, name));
}

std::string S3Store::begin_parts(const std::string& name, UploadMemory& memory, int64_t part_bytes) {
  const HttpResponse response = client_->send({.method = "POST", .key = key(name), .query = {{"uploads", ""}}});
  const std::string id = parse_xml(response.body).text_of("UploadId");
  if (id.empty()) throw RemoteError("remote: the server began an upload in parts without naming it", "", true);
  memory.state = {{kUploadId, id}, {kPartBytesKey, part_bytes}};
  memory.save();
  return id;
}

std::vector<UploadedPart> S3Store::uploaded_parts(const std::string& name, const std::string& upload_id) {
  std::vector<UploadedPart> parts;
  std::string marker;
  do {
    S3Request request{.key = key(name), .query = {{"uploadId", upload_id}}};
    if (!marker.empty()) request.query["part-number-marker"] = marker;
    PartPage page = parse_part_page(client_->send(request).body);
    parts.insert(parts.end(), page.parts.begin(), page.parts.end());
    marker = page.next_marker;
  } while (!marker.empty());
  return parts;
}

void S3Store::for_each_part(int64_t num_parts, const std::function<void(int64_t index, S3Client& client)>& send) {
  const auto num_more = static_cast<size_t>(std::min(num_parts, kPartsAtOnce) - 1);
  while (more_clients_.size() < num_more)
    more_clients_.push_back(std::make_shared<S3Client>(client_->bucket(), client_->config()));
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](S3Client& client) {
    try {
      for (int64_t index = next++; index < num_parts; index = next++) send(index, client);
    } catch (...) {
      next = num_parts;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (size_t i = 0; i < num_more; ++i) threads.emplace_back([&, i] { work(*more_clients_[i]); });
    } catch (const std::system_error&) {  // no more threads here: fewer will do
    }
    work(*client_);
  }
  if (failure) std::rethrow_exception(failure);
}

void S3Store::upload_parts(const std::string& name, const OutgoingFile& file, UploadMemory& memory) {
  const int64_t part_bytes = part_bytes_of(file.bytes);
  std::string id = core::text_at(memory.state, kUploadId);
  std::map<int64_t, UploadedPart> there;
  if (!id.empty() && memory.state.value(kPartBytesKey, int64_t{0}) == part_bytes) {
    try {
      for (const UploadedPart& part : uploaded_parts(name, id)) there[part.number] = part;
    } catch (const RemoteError& error) {
      if (error.status() != 404) throw;
      id.clear();  // the server has dropped it
    }
  } else {
    id.clear();
  }
  if (id.empty()) id = begin_parts(name, memory, part_bytes);
  const auto num_parts = static_cast<size_t>((file.bytes + part_bytes - 1) / part_bytes);
  std::vector<std::string> etags(num_parts), md5s(num_parts);
  std::mutex hashing;  // one part at a time: sending may take one core from training, no more
  for_each_part(static_cast<int64_t>(num_parts), [&](int64_t index, S3Client& client) {
    const int64_t offset = index * part_bytes, number = index + 1;
    const FilePart part{.fd = file.file.get(), .offset = offset, .bytes = std::min(part_bytes, file.bytes - offset)};
    const PartDigests digests = [&] {
      const std::lock_guard lock(hashing);
      return PartDigests(part, name);
    }();
    const auto found = there.find(number);
    const bool is_there =
        found != there.end() && found->second.bytes == part.bytes && found->second.etag == core::to_hex(digests.md5);
    const auto place = static_cast<size_t>(index);
    md5s[place] = digests.md5;
    etags[place] =
        is_there
            ? found->second.etag
            : send_part(client, {.key = key(name), .query = {{"partNumber", fmt::to_string(number)}, {"uploadId", id}}},
                        part, digests);
  });
  const std::string joined = core::join(md5s, "");
  core::Digest md5(core::DigestKind::kMd5);
  md5.update(std::as_bytes(std::span(joined)));
  complete(name, id, etags, fmt::format("{}-{}", core::to_hex(md5.finish()), etags.size()));
  memory.state = core::Json::object();
  memory.save();
}

void S3Store::complete(const std::string& name, const std::string& upload_id, const std::vector<std::string>& etags,
                       const std::string& expected_etag) {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i)
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>&quot;{}&quot;</ETag></Part>", i + 1, etags[i]);
  body += "</CompleteMultipartUpload>";
  const std::string where = address_.child(name).text();
  try {
    const HttpResponse response = client_->send(
        {.method = "POST", .key = key(name), .query = {{"uploadId", upload_id}}, .body = std::move(body)});
    const S3Fault fault = parse_fault(response.body);  // S3 may say 200 before it knows
    if (!fault.code.empty())
      throw RemoteError(fmt::format("remote: completing {} failed: {}: {}", where, fault.code, fault.message), "",
                        true);
  } catch (const RemoteError& error) {
    if (error.code() != "NoSuchUpload") throw;  // else an earlier answer was lost: look
  }
  const HttpResponse head = client_->send({.method = "HEAD", .key = key(name)});
  const std::string etag = unquoted(head.header("etag"));
  if (is_md5_etag(head, etag)) require_same_etag(etag, expected_etag, where);
}

std::string S3Store::read(const std::string& name) { return client_->send({.key = key(name)}).body; }

void S3Store::download(const std::string& name, const fs::path& to) {
  fs::create_directories(to.parent_path());
  core::AtomicFile file(to);
  RemoteReader reader(address_.child(name), client_);
  std::vector<std::byte> block(kDownloadBytes);
  for (uint64_t offset = 0;;) {
    const size_t got = reader.read_at(offset, block);
    file.write(std::span(block).first(got));
    offset += got;
    if (got < block.size()) break;
  }
  file.commit();
}

void S3Store::remove(const std::string& name) { client_->send({.method = "DELETE", .key = key(name)}); }

int64_t S3Store::drop_unfinished(const std::vector<core::Json>& kept) {
  std::set<std::string> kept_ids;
  for (const core::Json& state : kept) kept_ids.insert(core::text_at(state, kUploadId));
  const std::string root = address_.path.empty() ? "" : address_.path + "/";
  int64_t num_dropped = 0;
  for (const UnfinishedUpload& upload : client_->list_unfinished(root)) {
    if (!core::starts_with(upload.key, root) || kept_ids.contains(upload.upload_id)) continue;
    try {
      client_->send({.method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.upload_id}}});
      ++num_dropped;
    } catch (const RemoteError& error) {
      if (error.status() != 404) throw;  // else somebody else was faster
    }
  }
  return num_dropped;
}

}  // namespace lockstep::remote
