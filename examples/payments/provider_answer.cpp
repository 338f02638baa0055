#include "provider_answer.hpp"

#include <memory>

#include <curl/curl.h>
#include <nlohmann/json.hpp>

namespace payments {
namespace {

std::size_t Keep(char* data, std::size_t size, std::size_t count, void* text) {
  static_cast<std::string*>(text)->append(data, size * count);
  return size * count;
}

}  // namespace

ProviderAnswer ReadAnswer(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto member = [&](const char* name) {
    const bool has = json.is_object() && json.contains(name) && json[name].is_string();
    return has ? json[name].get<std::string>() : std::string();
  };
  const std::string status = member("status");
  if (status == "captured" && !member("capture_id").empty()) {
    return {.outcome = ProviderAnswer::kCaptured, .capture_id = member("capture_id"), .said = text};
  }
  if (status == "declined") {
    return {.outcome = ProviderAnswer::kDeclined, .reason = member("reason"), .said = text};
  }
  return {.reason = "answer_not_understood", .said = text};
}

ProviderAnswer AskProvider(const Provider& provider, const std::string& idempotency_key, const std::string& request) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> call(curl_easy_init(), &curl_easy_cleanup);
  curl_slist* lines = curl_slist_append(nullptr, ("Idempotency-Key: " + idempotency_key).c_str());
  lines = curl_slist_append(lines, "Content-Type: application/json");
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(lines, &curl_slist_free_all);

  std::string body;
  long status = 0;
  curl_easy_setopt(call.get(), CURLOPT_URL, (provider.url + "/captures").c_str());
  curl_easy_setopt(call.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(call.get(), CURLOPT_COPYPOSTFIELDS, request.c_str());
  curl_easy_setopt(call.get(), CURLOPT_TIMEOUT, static_cast<long>(provider.timeout.count()));
  curl_easy_setopt(call.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(call.get(), CURLOPT_WRITEFUNCTION, &Keep);
  curl_easy_setopt(call.get(), CURLOPT_WRITEDATA, &body);
  const CURLcode sent = curl_easy_perform(call.get());
  curl_easy_getinfo(call.get(), CURLINFO_RESPONSE_CODE, &status);

  // A connection that was refused has surely captured nothing, but to ask again costs little and to guess a lot.
  if (sent != CURLE_OK) return {.reason = "provider_timeout"};
  if (status != 200) return {.reason = "provider_status_" + std::to_string(status), .said = body};
  return ReadAnswer(body);
}

}  // namespace payments
