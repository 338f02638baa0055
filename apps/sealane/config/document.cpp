// Everything that is written about the configuration, made from the table of keys.
#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "config/config.hpp"
#include "config/key_place.hpp"
#include "config/values.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kIntroduction =
    R"(# Configuration

<!-- Made by `sealane config document` from the table of keys in apps/sealane/config/keys.cpp. -->

Nothing must be configured but the store and, for the relay, the broker. A value is taken from the first of these that has it:

1. a flag of the command (`--store`, `--broker`, `--schema`, `--timeout`, `--listen`, `--log-level`, `--log-format`);
2. an environment variable;
3. the file: `--config PATH`, else `$SEALANE_CONFIG`, else `./sealane.toml`, else `/etc/sealane/sealane.toml`;
4. the default.

`sealane config print --origin` shows what is in force and where each value came from; `sealane config check` says whether
it is well-formed. An unknown key or variable, a value of the wrong type or a number without its unit is an error with file
and line, and all of them are reported together (exit code 78). A running `sealane relay` reads everything again on SIGHUP,
and keeps what it has when the new text has a problem.

```toml
[store]
url = "postgres://app@db/shop"
password_file = "/run/secrets/db-password"

[broker]
url = "kafka://b1:9092,b2:9092"

[broker.kafka]
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = "sealane"
"sasl.password" = "${file:/run/secrets/kafka-password}"

[outbox]
producer = "shop"
```

## Stores, brokers and routes

`[store]` and `[broker]` are the store and the broker named `default`. Further ones are `[stores.NAME]` and `[brokers.NAME]` with
the same keys. A route takes the events of one or several stores to a broker; without any `[route.NAME]` there is one named
`main` from the default store to the default broker. Every pair of a store and a route runs on its own: one that fails does
not stop the others. Names are lower-case letters, digits, `_` and `-`.

```toml
[stores.eu]
url = "postgres://relay@db-eu/shop"

[stores.us]
url = "postgres://relay@db-us/shop"

[brokers.hook]
url = "https://example.org/events"
http.headers.Authorization = "${file:/run/secrets/hook-token}"

[route.main]
store = ["eu", "us"]
topic = "${aggregate_type}.events"

[route.billing]
store = "eu"
broker = "hook"
profile = "cloudevents"
filter.types = ["Order*"]
retry.preset = "payments"
```

## Targets of tasks

`[target.NAME]` is where `sealane tasks run` takes the tasks of that target ([docs/tasks.md](tasks.md)).

```toml
[target.billing]
url = "https://billing.example/v1"
headers.Authorization = "${file:/run/secrets/billing-token}"
timeout = "20s"
retry.preset = "payments"

[target.shipping]
kind = "workflow"
url = "https://camunda.example"
```

## Receivers of webhooks

`[receiver.NAME]` is a provider whose webhooks `sealane receive` takes ([receive.md](receive.md)):

```toml
[receiver.github]
topic = "github"
signature = "github"
secrets = ["file:/run/secrets/github-hook", "env:OLD_GITHUB_HOOK"]
key_field = "repository.full_name"
```

## Keys

| Key | Environment variable | Value | Default | |
|---|---|---|---|---|
)";

constexpr std::string_view kRest = R"(
## Values

- Durations have a unit: `100ms`, `5s`, `2m`, `1h`, `1d`. Sizes too: `500B`, `900KiB`, `64MiB`, `2GiB` (powers of 1024),
  `1KB`, `1MB`, `1GB` (powers of 1000). A bare number is refused, except 0.
- Lists are written `["a", "b"]`; in an environment variable the items are separated by commas.
- The store is `postgres://user@host:port/database` (or `postgresql://`), `sqlite:PATH`, or a path that ends in `.db`.
- SQLite files and journals are made for their owner alone (mode 0600), with the `-wal` and `-shm` files beside them. The mode of a file that exists stays:
  to share one with a group, make it first with the mode you want. `sealane doctor` reports files that every user can read.
- The broker is `kafka://host:port,host:port`, `journal:PATH` (a SQLite file that keeps topics and offsets), `http://` or `https://`
  (one POST per event), `stdout:` (JSON lines) or `null:` (throws everything away, for measurements).
- The parts of an environment variable's name are separated by two underscores: `SEALANE_STORES__EU__URL` is `stores.eu.url`, and
  `SEALANE_BROKER__KAFKA__SECURITY_PROTOCOL` is `broker.kafka."security.protocol"`.
- An empty environment variable counts as not set. Variables that begin with `SEALANE_TEST_`, and the service addresses that
  Kubernetes puts into containers (`SEALANE_SERVICE_HOST`, `SEALANE_PORT_...`), are not looked at.

## Secrets

- `store.password_file` names a file whose content is the password.
- `${file:/path}` in any value stands for the content of that file. In a URL it is percent-encoded:
  `postgres://app:${file:/run/secrets/db}@db/shop`.
- A password written into the file itself works, with a warning.
- Secrets are never shown: `config print`, messages and logs have `***` in their place.
)";

// The keys that a section of this kind has; [store] and [broker] stand in the program's own.
bool Belongs(const KeySpec& spec, Section section) {
  const Section own = SectionOf(spec);
  return section == Section::kProgram ? !IsAlwaysNamed(own) : own == section;
}

void AddShown(const Settings& settings, Section section, const std::string& name, std::vector<ShownSetting>& shown) {
  for (const KeySpec& spec : Keys()) {
    if (!Belongs(spec, section)) continue;
    const Setting& setting = settings.Of(spec.key);
    shown.push_back({.key = FullName(spec.name, section, name),
                     .value = setting.value.empty() ? std::string() : ShownValue(spec, setting.written),
                     .type = spec.type,
                     .origin = setting.origin});
  }
  for (const FreeTable& table : FreeTables()) {
    for (const auto& [property, setting] : settings.Table(table.name)) {
      shown.push_back({.key = fmt::format("{}.{}", FullName(table.name, section, name), JsonString(property)),
                       .value = ShownProperty(table.name, property, setting.written),
                       .type = KeyType::kText,
                       .origin = setting.origin});
    }
  }
}

std::string TomlValue(const ShownSetting& setting) {
  if (IsBare(setting.type)) return setting.value;
  if (!IsList(setting.type)) return JsonString(setting.value);
  std::string text;
  for (const std::string& item : ListItems(setting.value)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", JsonString(item));
  }
  return fmt::format("[{}]", text);
}

std::string ShownType(const KeySpec& spec) {
  std::string type = DescribeType(spec);
  // A bar would end the cell.
  for (std::size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2) type.replace(at, 1, ", ");
  return type;
}

std::string ShownTable(const FreeTable& table) {
  return table.name == kTargetHeaderTable ? FullName(table.name, Section::kTarget, "") : std::string(table.name);
}

}  // namespace

std::vector<ShownSetting> ShownSettings(const Config& config) {
  std::vector<ShownSetting> shown;
  AddShown(config.program(), Section::kProgram, "", shown);
  for (const auto& [name, store] : config.named_stores()) AddShown(store, Section::kStore, name, shown);
  for (const auto& [name, broker] : config.named_brokers()) AddShown(broker, Section::kBroker, name, shown);
  for (const auto& [name, route] : config.routes()) AddShown(route, Section::kRoute, name, shown);
  for (const auto& [name, target] : config.targets()) AddShown(target, Section::kTarget, name, shown);
  for (const auto& [name, receiver] : config.receivers()) AddShown(receiver, Section::kReceiver, name, shown);
  return shown;
}

std::string PrintConfig(const Config& config, bool origins) {
  const std::vector<ShownSetting> settings = ShownSettings(config);
  std::size_t width = 0;
  std::vector<std::string> lines;
  for (const ShownSetting& setting : settings) {
    lines.push_back(setting.value.empty() ? fmt::format("# {} is not set", setting.key)
                                          : fmt::format("{} = {}", setting.key, TomlValue(setting)));
    width = std::max(width, lines.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += origins && !settings[i].value.empty() ? fmt::format("{:<{}}  # {}\n", lines[i], width, settings[i].origin)
                                                  : fmt::format("{}\n", lines[i]);
  }
  return text;
}

std::string ConfigurationDocument() {
  std::string text(kIntroduction);
  for (const KeySpec& spec : Keys()) {
    const std::string name = FullName(spec.name, SectionOf(spec), "");
    text += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", name, VariableName(name), ShownType(spec),
                        spec.default_text.empty() ? std::string("not set") : fmt::format("`{}`", spec.default_text),
                        spec.doc);
  }
  for (const FreeTable& table : FreeTables()) {
    text += fmt::format("| `{}.*` | `{}__*` | text | not set | {} |\n", ShownTable(table),
                        VariableName(ShownTable(table)), table.doc);
  }
  return text += kRest;
}

}  // namespace sealane::cli
