#include "http/http_endpoint.hpp"

#include <string>

#include <curl/curl.h>
#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::http {
namespace {

Error Invalid(std::string_view field, std::string message, std::string hint) {
  return Error(ErrorKind::kMisconfigured, "invalid_http_options", std::move(message))
      .WithField(std::string(field))
      .WithHint(std::move(hint));
}

}  // namespace

Status CheckUrl(std::string_view url) {
  if (url.starts_with("http://") || url.starts_with("https://")) return Ok();
  return Invalid("url", fmt::format("{} is no HTTP address", EscapeForTerminal(RedactUrl(url))),
                 "write it as https://host/path");
}

Status CheckHeaders(const Headers& headers) {
  const auto breaks_line = [](const std::string& text) { return text.find_first_of("\r\n") != std::string::npos; };
  for (const Header& header : headers) {
    if (header.name.empty() || breaks_line(header.name) || breaks_line(header.value)) {
      return Invalid("headers", "a header has no name or contains a line break",
                     "write headers as name and value, and check the files they were read from");
    }
  }
  return Ok();
}

Status PrepareLibrary() {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready == CURLE_OK) return Ok();
  return Error(ErrorKind::kMisconfigured, "http_unavailable", curl_easy_strerror(ready))
      .WithHint("check the installation of libcurl");
}

}  // namespace sealane::http
