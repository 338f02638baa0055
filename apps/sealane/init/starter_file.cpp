#include "init/starter_file.hpp"

#include <vector>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "config/keys.hpp"
#include "config/values.hpp"
#include "connect/store_url.hpp"

namespace sealane::cli {
namespace {

/// What a key is set to in its commented line: its default, or an example where it has none.
struct Line {
  Key key;
  std::string_view example = {};
};

std::string TomlText(const KeySpec& spec, std::string_view value) {
  if (IsBare(spec.type)) return std::string(value);
  return IsList(spec.type) ? fmt::format("[{}]", JsonString(value)) : JsonString(value);
}

// Wrapped, because the file is read in an editor.
std::string Comment(std::string_view text) {
  constexpr std::size_t kWidth = 98;
  std::string out;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > kWidth) end = text.rfind(' ', kWidth);
    if (end == std::string_view::npos) end = text.size();
    out += fmt::format("# {}\n", text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return out;
}

// `order` of `route.order`: the name within its section.
std::string_view NameIn(std::string_view section, const KeySpec& spec) {
  return spec.name.substr(section.size() + 1);
}

std::string Settings(std::string_view section, const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) {
    const KeySpec& spec = SpecOf(line.key);
    const std::string_view value = line.example.empty() ? spec.default_text : line.example;
    text += fmt::format("{}{}#{} = {}\n", text.empty() ? "" : "\n", Comment(spec.doc), NameIn(section, spec),
                        TomlText(spec, value));
  }
  return text;
}

std::string Chosen(Key key, std::string_view section, std::string_view value) {
  const KeySpec& spec = SpecOf(key);
  return fmt::format("{}{} = {}\n", Comment(spec.doc), NameIn(section, spec), JsonString(value));
}

constexpr std::string_view kIntroduction =
    R"(# Configuration of sealane. Lines that begin with `#` and a name are settings with their defaults, or examples;
# uncomment what you change. `sealane config check` says whether the file is right.
# Every key: man sealane.toml, or docs/configuration.md.

)";

// Not as settings: they are right only where the file exists.
constexpr std::string_view kPassword = R"(
# A password does not belong here but into a file that only sealane's user may read. With the key
# password_file = "/run/secrets/db-password" it is read from there.

)";

constexpr std::string_view kKafka = R"(
# Any property of librdkafka, for brokers that ask for encryption and a login.
[broker.kafka]
#"security.protocol" = "SASL_SSL"
#"sasl.mechanism" = "SCRAM-SHA-512"
#"sasl.username" = "sealane"
# Better "${file:/run/secrets/kafka-password}": the content of that file.
#"sasl.password" = "secret"
)";

}  // namespace

std::string StarterFile(const Starter& starter) {
  using enum Key;
  std::string text(kIntroduction);
  text += "[store]\n" + Chosen(kStoreUrl, "store", starter.store_url);
  if (!starter.schema.empty()) text += "\n" + Chosen(kStoreSchema, "store", starter.schema);
  text += kPassword;
  std::vector<Line> store = {{kStoreConnectTimeout}, {kStoreStatementTimeout}};
  if (starter.schema.empty()) store.insert(store.begin(), {kStoreSchema});
  text += Settings("store", store);
  text += "\n[broker]\n" + Chosen(kBrokerUrl, "broker", starter.broker_url);
  text += "\n" + Settings("broker", {{kBrokerJournalRetention}});
  text += kKafka;
  text += "\n# The flow from the outbox to the broker. Further ones are [route.NAME].\n[route.main]\n";
  text += Settings("route", {{kRouteOrder},
                             {kRouteProfile},
                             {kRouteTopic, "${aggregate_type}.events"},
                             {kRouteFilterTypes, "Order*"},
                             {kRouteRetryPreset},
                             {kRouteDeadLetterTopic, "dead-letters"}});
  text += "\n[relay]\n" + Settings("relay", {{kRelayListen}, {kRelayLease}, {kRelayDrainTimeout}, {kRelayMemoryMax}});
  text += "\n[outbox]\n" + Settings("outbox", {{kOutboxProducer, "shop"}, {kOutboxPayloadMax}});
  return text + "\n[log]\n" + Settings("log", {{kLogLevel}, {kLogFormat}});
}

std::string StarterCode(const Starter& starter) {
  const auto target = ParseStoreUrl(starter.store_url);
  const std::string schema =
      starter.schema.empty() ? std::string(SpecOf(Key::kStoreSchema).default_text) : starter.schema;
  constexpr std::string_view kCpp = R"text(  #include <sealane/outbox.hpp>
  const sealane::Outbox outbox({.producer = "shop"});
  const sealane::Event placed{.topic = "orders", .key = "o-1", .type = "OrderPlaced", .payload = R"({"id":1})"};
)text";
  if (target && target->kind == StoreKind::kSqlite) {
    return fmt::format(
        R"text(in C++, in your own transaction (db is its sqlite3*):
{}  const auto appended = outbox.Append(db, placed);

in SQL:
  insert into sealane_emit (topic, key, type, payload) values ('orders', 'o-1', 'OrderPlaced', '{{"id":1}}');
)text",
        kCpp);
  }
  const std::string connection = schema == "sealane" ? "conn" : fmt::format("{{conn, {}}}", JsonString(schema));
  return fmt::format(
      R"text(in C++, in your own transaction (conn is its PGconn*):
{}  const auto appended = outbox.Append({}, placed);

in SQL, from any language:
  select {}.emit(topic => 'orders', key => 'o-1', type => 'OrderPlaced', payload => '{{"id":1}}');
)text",
      kCpp, connection, schema);
}

}  // namespace sealane::cli
