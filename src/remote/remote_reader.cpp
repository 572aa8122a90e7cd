#include "remote/remote_reader.h"

#include <algorithm>
#include <cstring>

#include "core/strings.h"

namespace lockstep::remote {
namespace {

/// Total of "bytes 0-9/1000"; nothing where it is not told.
std::optional<uint64_t> total_of(const std::string& content_range) {
  const size_t slash = content_range.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto total = core::parse_int(content_range.substr(slash + 1));
  return total && *total >= 0 ? std::optional(static_cast<uint64_t>(*total)) : std::nullopt;
}

std::string hint_of_status(int status) {
  if (status == 401 || status == 403)
    return "the server wants to know who asks: https:// addresses go without a login; of S3 write s3://BUCKET/KEY";
  if (status == 404) return "check the address, and the range in the braces of a list";
  return "";
}

}  // namespace

RemoteReader::RemoteReader(const Address& address, ClientConfig config)
    : address_(address), config_(std::move(config)) {
  if (address.kind == AddressKind::kS3)
    s3_ = std::make_shared<S3Client>(address.bucket, config_);
  else
    http_ = std::make_unique<HttpClient>(HttpConfig{.stall_s = config_.stall_s, .is_stopped = config_.is_stopped});
}

RemoteReader::RemoteReader(const Address& address, std::shared_ptr<S3Client> client)
    : address_(address), config_(client->config()), s3_(std::move(client)) {}

HttpResponse RemoteReader::get(const std::string& range, const BodySink& sink) {
  if (s3_) return s3_->send_once({.key = address_.path, .headers = {{"range", range}}, .sink = sink});
  HttpResponse response = http_->send({.url = address_.path,
                                       .shown_url = address_.text(),
                                       .headers = {{"range", range}},
                                       .sink = sink,
                                       .follows_redirects = true});
  if (response.status >= 200 && response.status < 300) return response;
  const bool may_succeed_later = response.status >= 500 || response.status == 429 || response.status == 408;
  throw RemoteError(fmt::format("remote: GET {} failed: status={}", address_.text(), response.status),
                    hint_of_status(response.status), may_succeed_later, response.status);
}

void RemoteReader::check_same(const HttpResponse& response, uint64_t offset) {
  const std::string etag = response.header("etag");
  std::optional<uint64_t> total = total_of(response.header("content-range"));
  if (response.status == 200) {
    const auto length = core::parse_int(response.header("content-length"));
    if (length && *length >= 0) total = static_cast<uint64_t>(*length);
  }
  if (bytes_ && ((total && *total != *bytes_) || etag != etag_))
    throw RemoteError(fmt::format("remote: {} was replaced while it was read, at offset {}: etag={} bytes={}, expected "
                                  "etag={} bytes={}",
                                  address_.text(), offset, etag, total.value_or(0), etag_, *bytes_),
                      "do not write to data that a run reads", false);
  if (total) bytes_ = total;
  etag_ = etag;
}

void RemoteReader::throw_no_ranges() const {
  throw RemoteError(fmt::format("remote: the server of {} does not serve ranges of it", address_.text()),
                    "copy the data, or read it with a command: 'pipe:curl -sfL URL'", false);
}

/// Of `wanted` bytes from `offset` on, as far as the size is known.
size_t RemoteReader::available(uint64_t offset, size_t wanted) const {
  return bytes_ ? static_cast<size_t>(std::min<uint64_t>(wanted, *bytes_ - std::min(offset, *bytes_))) : wanted;
}

/// One request for what is not yet filled. Where the server does not tell how long the object is, its end is where it
/// has no more to give: a short answer may be a server's that sends less at a time than was asked for.
void RemoteReader::read_rest(uint64_t offset, std::span<std::byte> buffer, size_t& filled) {
  if (filled >= available(offset, buffer.size())) return;
  const uint64_t begin = offset + filled;
  const size_t before = filled;
  try {
    const HttpResponse response = get(fmt::format("bytes={}-{}", begin, offset + buffer.size() - 1),
                                      [&](int status, std::span<const std::byte> bytes) {
                                        if ((status != 206 && begin > 0) || bytes.size() > buffer.size() - filled)
                                          throw_no_ranges();
                                        std::memcpy(buffer.data() + filled, bytes.data(), bytes.size());
                                        filled += bytes.size();
                                      });
    check_same(response, begin);
    if (!bytes_ && (response.status != 206 || filled == before)) bytes_ = offset + filled;
  } catch (const RemoteError& error) {
    if (error.status() != 416) throw;
    if (!bytes_) bytes_ = begin;  // the range lies behind the end
  }
  if (bytes_ && filled < available(offset, buffer.size()))
    throw RemoteError(fmt::format("remote: {} broke off at offset {}", address_.text(), offset + filled), "", true);
}

size_t RemoteReader::read_at(uint64_t offset, std::span<std::byte> buffer) {
  size_t filled = 0;
  // What made progress begins to count its attempts anew: a long read may break off often.
  while (filled < available(offset, buffer.size())) {
    const size_t before = filled;
    try {
      with_retries(
          config_.retry, real_clock(config_.is_stopped), [&] { read_rest(offset, buffer, filled); },
          [&](const RemoteError& error, int) {
            if (config_.on_retry) config_.on_retry(error);
          });
    } catch (const RemoteError& error) {
      if (!error.is_transient() || filled == before) throw;
    }
  }
  return filled;
}

}  // namespace lockstep::remote
