#include "http/http_caller.hpp"

#include <algorithm>
#include <utility>

#include "http/http_endpoint.hpp"

namespace sealane::http {
namespace {

constexpr std::size_t kIdleMax = 64;
constexpr std::size_t kContentTypeMax = 255;

/// What comes back, up to the limit. The transfer ends there: its status is known, and the rest may never end.
struct Kept {
  std::string body;
  std::size_t max = 0;
  bool cut = false;
};

std::size_t Keep(char* data, std::size_t size, std::size_t count, void* user) {
  Kept& kept = *static_cast<Kept*>(user);
  const std::size_t bytes = size * count;
  const std::size_t room = kept.max - kept.body.size();
  kept.body.append(data, std::min(bytes, room));
  if (bytes <= room) return bytes;
  kept.cut = true;
  return 0;
}

HeaderList ListOf(const std::vector<std::string>& lines) {
  HeaderList list;
  for (const std::string& line : lines) {
    // Appending to a list returns its head; only the first call makes one.
    curl_slist* const head = curl_slist_append(list.get(), line.c_str());
    SEALANE_ASSERT(head != nullptr, "libcurl has memory");
    static_cast<void>(list.release());
    list.reset(head);
  }
  return list;
}

std::string ContentTypeOf(CURL* easy) {
  const char* text = nullptr;
  curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &text);
  std::string type = text == nullptr ? "" : text;
  std::erase_if(type, [](char c) { return c < 0x20 || c >= 0x7f; });
  if (type.size() > kContentTypeMax) type.resize(kContentTypeMax);
  return type;
}

Status CheckOptions(const CallerOptions& options) {
  SEALANE_RETURN_IF_ERROR(CheckUrl(options.url));
  if (options.url.find_first_of("?#") != std::string::npos) {
    return Error(ErrorKind::kMisconfigured, "invalid_http_options", "the address has a query")
        .WithField("url")
        .WithHint("put it into the operations of the tasks");
  }
  if (options.timeout.count() <= 0 || options.connect_timeout.count() <= 0 || options.response_max == 0) {
    return Error(ErrorKind::kMisconfigured, "invalid_http_options", "timeouts and limits are positive")
        .WithField("timeout")
        .WithHint("leave them out to get the defaults");
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<HttpCaller>> HttpCaller::Open(CallerOptions options) {
  SEALANE_RETURN_IF_ERROR(CheckOptions(options));
  SEALANE_RETURN_IF_ERROR(PrepareLibrary());
  while (options.url.ends_with('/')) options.url.pop_back();
  return std::unique_ptr<HttpCaller>(new HttpCaller(std::move(options)));
}

EasyHandle HttpCaller::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      EasyHandle handle = std::move(idle_.back());
      idle_.pop_back();
      return handle;
    }
  }
  EasyHandle handle(curl_easy_init());
  CURL* const easy = handle.get();
  SEALANE_ASSERT(easy != nullptr, "libcurl has memory");
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // One request at a time and connection: what was sent can be told.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "sealane");
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Keep);
  curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);  // with the user and password of the URL, if any
  if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (!options_.reuse_connections) {
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
  }
  return handle;
}

void HttpCaller::GiveBack(EasyHandle handle) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(handle));
}

HttpReply HttpCaller::Call(const HttpCall& call) {
  EasyHandle handle = Take();
  CURL* const easy = handle.get();
  const std::string url = options_.url + call.path;
  const HeaderList headers = ListOf(call.headers);
  Kept kept{.body = {}, .max = options_.response_max, .cut = false};
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call.body.empty() ? "" : call.body.data());
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &kept);
  const CURLcode result = curl_easy_perform(easy);

  HttpReply reply;
  long request_bytes = 0;
  curl_off_t retry_after = 0;
  curl_off_t took = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.answer.status);
  curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &request_bytes);
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
  curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME_T, &took);
  reply.answer.transport = kept.cut && result == CURLE_WRITE_ERROR ? CURLE_OK : result;
  reply.answer.request_sent = request_bytes > 0;
  reply.answer.retry_after = std::chrono::seconds{retry_after};
  reply.body = std::move(kept.body);
  reply.body_cut = kept.cut;
  reply.content_type = ContentTypeOf(easy);
  reply.took = std::chrono::microseconds{took};
  // The handle outlives what it was told to read from.
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, nullptr);
  GiveBack(std::move(handle));
  return reply;
}

}  // namespace sealane::http
