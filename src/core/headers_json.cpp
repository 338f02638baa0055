#include "core/headers_json.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "core/json_scan.hpp"

namespace sealane {

std::string HeadersToJson(const Headers& headers) {
  std::string json = "{";
  for (const Header& header : headers) {
    if (json.size() > 1) json.push_back(',');
    json += JsonString(header.name) + ":" + JsonString(header.value);
  }
  return json + "}";
}

Result<Headers> HeadersFromJson(std::string_view json) {
  if (json == "{}") return Headers{};  // what nearly every event has
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice slice, ScanJson(json));
  if (slice.type != JsonType::kObject) {
    return Error(ErrorKind::kRejected, "invalid_headers", "headers are a JSON object of texts").WithField("headers");
  }
  Headers headers;
  JsonMembers members(slice);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(auto member, members.Next());
    if (!member) return headers;
    if (member->value.type != JsonType::kString) {
      return Error(ErrorKind::kRejected, "invalid_headers", fmt::format("header \"{}\" is not a text", member->name))
          .WithField("headers");
    }
    SEALANE_ASSIGN_OR_RETURN(std::string value, DecodeJsonString(member->value));
    headers.push_back({std::move(member->name), std::move(value)});
  }
}

}  // namespace sealane
