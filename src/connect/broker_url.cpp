#include "connect/broker_url.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/file_id.hpp"
#include "base/text.hpp"

namespace sealane {
namespace {

constexpr std::string_view kForms =
    "use kafka://host:port,host:port, journal:PATH, http://..., https://..., stdout: or null:";

Error BadUrl(std::string message, std::string hint = std::string(kForms)) {
  return Error(ErrorKind::kMisconfigured, "bad_broker_url", std::move(message)).WithHint(std::move(hint));
}

Result<BrokerTarget> KafkaTarget(std::string_view hosts) {
  if (hosts.ends_with('/')) hosts.remove_suffix(1);
  if (hosts.find('@') != std::string_view::npos) {
    return BadUrl("a Kafka URL holds no user and no password",
                  "put \"sasl.username\" and \"sasl.password\" into [broker.kafka]");
  }
  if (hosts.empty()) return BadUrl("the Kafka URL names no host", "write kafka://host:9092");
  if (hosts.find_first_of("/?# ") != std::string_view::npos) {
    return BadUrl(fmt::format("`{}` is not a list of hosts", EscapeForTerminal(hosts)),
                  "write kafka://host:port,host:port; properties of librdkafka go into [broker.kafka]");
  }
  for (std::size_t at = 0; at <= hosts.size();) {
    const std::size_t end = std::min(hosts.find(',', at), hosts.size());
    if (end == at) return BadUrl("a host of the Kafka URL is empty", "write kafka://host:port,host:port");
    at = end + 1;
  }
  return BrokerTarget{BrokerKind::kKafka, std::string(hosts)};
}

}  // namespace

Result<BrokerTarget> ParseBrokerUrl(std::string_view url) {
  if (url.find('\0') != std::string_view::npos) return BadUrl("the broker URL contains a NUL");
  if (url.starts_with("kafka://")) return KafkaTarget(url.substr(8));
  if (url.starts_with("journal://")) {
    return BadUrl("journal:// is not how a journal is named", "write journal:PATH, for example journal:./journal.db");
  }
  if (url.starts_with("journal:")) {
    if (url.size() == 8) return BadUrl("the broker URL names no file", "name a file: journal:./journal.db");
    return BrokerTarget{BrokerKind::kJournal, std::string(url.substr(8))};
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!url.starts_with(scheme)) continue;
    if (url.size() == scheme.size()) return BadUrl("the broker URL names no host");
    return BrokerTarget{BrokerKind::kHttp, std::string(url)};
  }
  if (url == "stdout:") return BrokerTarget{BrokerKind::kStdout, {}};
  if (url == "null:") return BrokerTarget{BrokerKind::kNull, {}};
  constexpr std::array<std::string_view, 6> kSchemes = {"kafka", "journal", "http", "https", "stdout", "null"};
  const std::string_view scheme = url.substr(0, url.find(':'));
  const std::string_view meant = ClosestMatch(scheme, kSchemes);
  return BadUrl(
      fmt::format("`{}` is not a broker URL", EscapeForTerminal(RedactUrl(url))),
      meant.empty() || meant == scheme ? std::string(kForms) : fmt::format("did you mean `{}:`? {}", meant, kForms));
}

std::string FixBrokerUrl(const std::string& url) {
  const auto target = ParseBrokerUrl(url);
  if (!target || target->kind != BrokerKind::kJournal) return url;
  return "journal:" + AbsolutePath(target->location);
}

}  // namespace sealane
