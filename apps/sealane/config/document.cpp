// Everything that is written about the configuration, made from the table of keys.
#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "config/config.hpp"
#include "config/variables.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kIntroduction =
    R"(# Configuration

<!-- Made by `sealane config document` from the table of keys in apps/sealane/config/keys.cpp. -->

Nothing must be configured but the store. A value is taken from the first of these that has it:

1. a flag of the command (`--store`, `--schema`, `--timeout`, `--log-level`, `--log-format`);
2. an environment variable;
3. the file: `--config PATH`, else `$SEALANE_CONFIG`, else `./sealane.toml`, else `/etc/sealane/sealane.toml`;
4. the default.

`sealane config print --origin` shows what is in force and where each value came from; `sealane config check` says whether
it is well-formed. An unknown key or variable, a value of the wrong type or a number without its unit is an error with file
and line, and all of them are reported together (exit code 78).

```toml
[store]
url = "postgres://app@db/shop"
password_file = "/run/secrets/db-password"

[outbox]
producer = "shop"
```

## Keys

| Key | Environment variable | Value | Default | |
|---|---|---|---|---|
)";

constexpr std::string_view kRest = R"(
## Values

- Durations have a unit: `100ms`, `5s`, `2m`, `1h`, `1d`. Sizes too: `500B`, `900KiB`, `64MiB`, `2GiB` (powers of 1024),
  `1KB`, `1MB`, `1GB` (powers of 1000). A bare number is refused, except 0.
- The store is `postgres://user@host:port/database` (or `postgresql://`), `sqlite:PATH`, or a path that ends in `.db`.
- An empty environment variable counts as not set. Variables that begin with `SEALANE_TEST_`, and the service addresses that
  Kubernetes puts into containers (`SEALANE_SERVICE_HOST`, `SEALANE_PORT_...`), are not looked at.

## Secrets

- `store.password_file` names a file whose content is the password.
- `${file:/path}` in any value stands for the content of that file. In a store URL it is percent-encoded:
  `postgres://app:${file:/run/secrets/db}@db/shop`.
- A password written into the file's URL works, with a warning.
- Secrets are never shown: `config print`, messages and logs have `***` in their place.
)";

}  // namespace

std::string PrintConfig(const Config& config, bool origins) {
  std::string text;
  std::size_t width = 0;
  std::vector<std::string> lines;
  for (const KeySpec& spec : Keys()) {
    const Setting& setting = config.Of(spec.key);
    const std::string shown = ShownValue(spec, setting.written);
    const bool bare = spec.type == KeyType::kTruth;
    lines.push_back(setting.value.empty() ? fmt::format("# {} is not set", spec.name)
                                          : fmt::format("{} = {}", spec.name, bare ? shown : JsonString(shown)));
    width = std::max(width, lines.back().size());
  }
  for (const KeySpec& spec : Keys()) {
    const std::string& line = lines[static_cast<std::size_t>(spec.key)];
    const Setting& setting = config.Of(spec.key);
    text += origins && !setting.value.empty() ? fmt::format("{:<{}}  # {}\n", line, width, setting.origin)
                                              : fmt::format("{}\n", line);
  }
  return text;
}

std::string ConfigurationDocument() {
  std::string text(kIntroduction);
  for (const KeySpec& spec : Keys()) {
    std::string type = DescribeType(spec);
    // A bar would end the cell.
    for (std::size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2) type.replace(at, 1, ", ");
    text += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", spec.name, VariableName(spec), type,
                        spec.default_text.empty() ? std::string("not set") : fmt::format("`{}`", spec.default_text),
                        spec.doc);
  }
  return text += kRest;
}

}  // namespace sealane::cli
