#include "commands/receive.hpp"

#include <array>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "build_info.hpp"
#include "commands/outbox_setup.hpp"
#include "config/units.hpp"
#include "config/values.hpp"
#include "daemon/daemon.hpp"
#include "daemon/foreground.hpp"
#include "daemon/receiver_setup.hpp"
#include "daemon/signal_waiter.hpp"
#include "serve/probe_server.hpp"
#include "serve/webhook_server.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

using std::chrono::milliseconds;

/// A flag that stands for a key of [receiver.NAME].
struct ReceiverFlag {
  std::string_view flag;
  std::string_view value_name;
  std::string_view help;
  Key key;
};
constexpr std::array<ReceiverFlag, 14> kSingle = {{
    {"--topic", "NAME", "the topic of the events", Key::kReceiverTopic},
    {"--signature", "SHAPE", "how deliveries are signed: github, stripe, hmac, timestamped; none believes everybody",
     Key::kReceiverSignature},
    {"--path", "PATH", "where deliveries are posted (default: /hooks/ and the provider)", Key::kReceiverPath},
    {"--signature-header", "NAME", "the header with the signature", Key::kReceiverSignatureHeader},
    {"--signature-prefix", "TEXT", "what stands in front of it, for example sha256=", Key::kReceiverSignaturePrefix},
    {"--signature-encoding", "HOW", "hex (default) or base64", Key::kReceiverSignatureEncoding},
    {"--tolerance", "TIME", "how old a timestamped signature may be (default: 5m)", Key::kReceiverTolerance},
    {"--id-header", "NAME", "the header with the event's id", Key::kReceiverIdHeader},
    {"--id-field", "PATH", "the JSON member with it (default: the SHA-256 of the body)", Key::kReceiverIdField},
    {"--type", "NAME", "the type of the events (default: the provider)", Key::kReceiverType},
    {"--type-header", "NAME", "the header with it", Key::kReceiverTypeHeader},
    {"--type-field", "PATH", "the JSON member with it", Key::kReceiverTypeField},
    {"--key-field", "PATH", "the JSON member with the ordering key (default: the event's id)",
     Key::kReceiverKeyField},
    {"--tenant", "NAME", "the tenant of the events", Key::kReceiverTenant},
}};

std::string ProgressLine(const ReceiveStats& stats) {
  std::uint64_t accepted = 0;
  std::uint64_t duplicates = 0;
  for (const ProviderStats& provider : stats.providers) {
    accepted += provider.accepted;
    duplicates += provider.duplicates;
  }
  return fmt::format("{} accepted, {} duplicates, {} connections{}", Grouped(accepted), Grouped(duplicates),
                     stats.connections, stats.problem.empty() ? "" : "; " + stats.problem);
}

class ReceiveCommand final : public Command {
 public:
  std::string_view path() const override { return "receive"; }
  std::string_view summary() const override { return "take webhooks and append each to the outbox, once"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane receive --listen 127.0.0.1:8080 --provider github --topic github --signature github --secret "
        "file:/run/secrets/github-hook",
        "sealane receive --listen :8080 --provider stripe --topic payments --signature stripe --secret "
        "env:STRIPE_HOOK --key-field data.object.customer",
        "sealane receive --listen :8080 --provider shop --topic orders --signature hmac --signature-header "
        "X-Shop-Signature --signature-encoding base64 --secret env:NEW --secret env:OLD --id-field id",
        "sealane receive --listen :8080 --probes 127.0.0.1:9466 --config sealane.toml",
    };
  }

  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {
        {"--listen", "HOST:PORT", "where deliveries are taken", &listen_, true},
        {"--provider", "NAME",
         "take those of one provider, described by flags or by [receiver.NAME] (default: of all "
         "sections)",
         &provider_},
        {"--secret", "REF", "file:PATH or env:VARIABLE; may be repeated, any of them may have signed", &secrets_},
    };
    for (std::size_t i = 0; i < kSingle.size(); ++i) {
      options.push_back({std::string(kSingle[i].flag), std::string(kSingle[i].value_name),
                         std::string(kSingle[i].help), &values_[i]});
    }
    options.push_back({"--keep-header", "NAME", "a header that becomes one of the event; may be repeated", &kept_});
    options.push_back({"--remember", "TIME", "how long an event id is known (default: 30d)", &remember_});
    options.push_back({"--body-max", "SIZE", "the largest delivery (default: outbox.payload_max)", &body_max_});
    options.push_back({"--workers", "N", "deliveries written at a time (default: 4)", &workers_});
    options.push_back({"--drain-timeout", "TIME", "at a stop, how long to wait for requests under way (default: 10s)",
                       &drain_timeout_});
    options.push_back(
        {"--probes", "HOST:PORT", "where /livez, /readyz and /metrics are served (default: off)", &probes_});
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_ASSIGN_OR_RETURN(std::vector<WebhookRule> rules, Rules(*config, context.environment().variables));
    SEALANE_ASSIGN_OR_RETURN(const WebhookServerOptions options, ServerOptions(*config));
    SEALANE_ASSIGN_OR_RETURN(OutboxSinkOptions sink, SinkOptions());
    SEALANE_ASSIGN_OR_RETURN(const milliseconds drain, Duration("--drain-timeout", drain_timeout_, "10s"));
    SEALANE_ASSIGN_OR_RETURN(const auto setup, OutboxSetup::Make(context));
    SEALANE_RETURN_IF_ERROR(CheckStore(config->store()));
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());
    for (const WebhookRule& rule : rules) {
      if (rule.signature.scheme != SignatureScheme::kNone) continue;
      LogWarning("deliveries are not signed: whoever reaches the port is believed", {{"provider", rule.provider}});
    }
    const std::size_t providers = rules.size();
    sink.committed = [&setup] { setup->Ring(); };
    const auto open = [&store = config->store()] { return OpenOutboxStore(store); };
    SEALANE_ASSIGN_OR_RETURN(
        const auto server,
        WebhookServer::Start(
            options, std::move(rules), [&] { return MakeOutboxSink(sink, open, setup->outbox(), context.clock()); },
            context.clock()));
    SEALANE_ASSIGN_OR_RETURN(const auto probes, StartProbes(context, *server));
    LogInfo("receiver started", {{"hooks", "http://" + server->address().ToString()},
                                 {"providers", static_cast<std::uint64_t>(providers)},
                                 {"to", RedactUrl(config->store().Text(Key::kStoreUrl))},
                                 {"probes", probes ? "http://" + probes->address().ToString() : "off"}});
    context.OnInterrupt("what was not answered comes again");
    return Serve(context, *server, signals, drain);
  }

 private:
  static Result<milliseconds> Duration(const std::string& flag, const std::optional<std::string>& text,
                                       const std::string& otherwise) {
    auto value = ParseDuration(text.value_or(otherwise));
    if (!value) return BadUsage(fmt::format("{}: {}", flag, value.error().message()), value.error().hint(), flag);
    return *value;
  }

  // ---- what the flags and the file say ----

  Result<std::vector<WebhookRule>> Rules(const Config& config,
                                         const std::map<std::string, std::string>& variables) const {
    std::vector<WebhookRule> rules;
    if (provider_) {
      if (auto name = CheckSectionName(*provider_); !name) {
        return BadUsage("--provider: " + name.error().message(), name.error().hint(), "--provider");
      }
      const auto section = config.receivers().find(*provider_);
      Settings settings = section == config.receivers().end() ? Settings() : section->second;
      SEALANE_RETURN_IF_ERROR(ApplyFlags(settings));
      SEALANE_ASSIGN_OR_RETURN(WebhookRule rule, WebhookRuleOf(*provider_, settings, variables));
      rules.push_back(std::move(rule));
      return rules;
    }
    SEALANE_RETURN_IF_ERROR(CheckNoProviderFlags());
    for (const auto& [name, settings] : config.receivers()) {
      SEALANE_ASSIGN_OR_RETURN(WebhookRule rule, WebhookRuleOf(name, settings, variables));
      rules.push_back(std::move(rule));
    }
    if (rules.empty()) {
      return BadUsage("there is nobody to receive from",
                      "name one with --provider, or write a section [receiver.NAME]", "--provider");
    }
    SEALANE_RETURN_IF_ERROR(CheckPaths(rules));
    return rules;
  }

  Status ApplyFlags(Settings& settings) const {
    for (std::size_t i = 0; i < kSingle.size(); ++i) {
      if (values_[i]) SEALANE_RETURN_IF_ERROR(ApplyFlag(kSingle[i].flag, kSingle[i].key, *values_[i], settings));
    }
    SEALANE_RETURN_IF_ERROR(ApplyList("--secret", Key::kReceiverSecrets, secrets_, settings));
    return ApplyList("--keep-header", Key::kReceiverKeepHeaders, kept_, settings);
  }

  static Status ApplyFlag(std::string_view flag, Key key, const std::string& text, Settings& settings) {
    auto checked = CheckValue(SpecOf(key), text);
    if (!checked) {
      return BadUsage(fmt::format("{}: {}", flag, checked.error().message()), checked.error().hint(),
                      std::string(flag));
    }
    settings.At(key) = {.written = *checked, .value = *checked, .origin = std::string(flag)};
    return Ok();
  }

  static Status ApplyList(std::string_view flag, Key key, const std::vector<std::string>& items, Settings& settings) {
    if (items.empty()) return Ok();
    std::string list;
    for (const std::string& item : items) {
      if (item.find(',') != std::string::npos) {
        return BadUsage(fmt::format("{}: a value contains a comma", flag), "repeat the flag", std::string(flag));
      }
      list += (list.empty() ? "" : ",") + item;
    }
    return ApplyFlag(flag, key, list, settings);
  }

  Status CheckNoProviderFlags() const {
    const auto alone = [](std::string_view flag) {
      return BadUsage(fmt::format("{} says something about one provider, and none is named", flag),
                      "add --provider NAME, or put it into [receiver.NAME]", std::string(flag));
    };
    for (std::size_t i = 0; i < kSingle.size(); ++i) {
      if (values_[i]) return alone(kSingle[i].flag);
    }
    if (!secrets_.empty()) return alone("--secret");
    if (!kept_.empty()) return alone("--keep-header");
    return Ok();
  }

  Result<WebhookServerOptions> ServerOptions(const Config& config) const {
    WebhookServerOptions options;
    SEALANE_ASSIGN_OR_RETURN(options.address, ParseListenAddress(*listen_));
    options.body_max = config.Size(Key::kOutboxPayloadMax);
    if (body_max_) {
      auto size = ParseSize(*body_max_);
      if (!size) return BadUsage("--body-max: " + size.error().message(), size.error().hint(), "--body-max");
      if (*size == 0 || *size > config.Size(Key::kOutboxPayloadMax)) {
        return BadUsage("--body-max: no delivery larger than outbox.payload_max can be stored",
                        "raise outbox.payload_max, which brokers must take too", "--body-max");
      }
      options.body_max = *size;
    }
    if (workers_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t workers, IntegerOption("--workers", *workers_, 1, 256));
      options.workers = static_cast<std::size_t>(workers);
    }
    return options;
  }

  Result<OutboxSinkOptions> SinkOptions() const {
    OutboxSinkOptions options;
    SEALANE_ASSIGN_OR_RETURN(const milliseconds remember, Duration("--remember", remember_, "30d"));
    if (remember < std::chrono::hours{1}) {
      return BadUsage("--remember: less than an hour would let repetitions through", "providers repeat for days",
                      "--remember");
    }
    options.remember = std::chrono::ceil<std::chrono::seconds>(remember);
    return options;
  }

  // A wrong URL, a missing schema or a wrong password is better told now; a store that is away now is waited for.
  static Status CheckStore(const Settings& store) {
    const auto opened = OpenOutboxStore(store);
    if (!opened && opened.error().kind() != ErrorKind::kUnavailable) return opened.error();
    return Ok();
  }

  // ---- the run ----

  Result<std::unique_ptr<ProbeServer>> StartProbes(CommandContext& context, const WebhookServer& server) const {
    if (!probes_ || *probes_ == "off") return std::unique_ptr<ProbeServer>();
    SEALANE_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(*probes_));
    return ProbeServer::Start({.address = address, .build = LibraryVersions()}, context.clock(),
                              [&server] { return ServedStats(server.stats()); });
  }

  static Result<ExitCode> Serve(CommandContext& context, WebhookServer& server, const SignalWaiter& signals,
                                milliseconds drain) {
    bool clean = false;
    RunInForeground(context, signals,
                    {.run =
                         [&](std::stop_token stop) {
                           std::mutex mutex;
                           std::condition_variable_any stopped;
                           std::unique_lock lock(mutex);
                           stopped.wait(lock, stop, [] { return false; });
                           clean = server.Drain(drain);
                           return Ok();
                         },
                     .progress = [&] { return ProgressLine(server.stats()); },
                     .stopping = "waiting for requests under way",
                     .left_behind = "what was not answered comes again"});
    LogInfo("receiver stopped", {{"clean", clean}, {"did", ProgressLine(server.stats())}});
    return ExitCode::kDone;
  }

  std::optional<std::string> listen_;
  std::optional<std::string> provider_;
  std::vector<std::optional<std::string>> values_ = std::vector<std::optional<std::string>>(kSingle.size());
  std::vector<std::string> secrets_;
  std::vector<std::string> kept_;
  std::optional<std::string> remember_;
  std::optional<std::string> body_max_;
  std::optional<std::string> workers_;
  std::optional<std::string> drain_timeout_;
  std::optional<std::string> probes_;
};

}  // namespace

std::unique_ptr<Command> MakeReceiveCommand() {
  return std::make_unique<ReceiveCommand>();
}

}  // namespace sealane::cli
