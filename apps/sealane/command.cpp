#include "command.hpp"

#include <charconv>
#include <ostream>

#include <fmt/format.h>

#include "base/text.hpp"
#include "completion/shell_text.hpp"
#include "interrupt.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

std::vector<FlagValue> FlagsOf(const CommonOptions& options, bool timeout_is_limit) {
  std::vector<FlagValue> flags;
  const auto add = [&](const std::optional<std::string>& value, Key key, const char* flag) {
    if (value) flags.push_back({key, flag, *value});
  };
  add(options.store, Key::kStoreUrl, "--store");
  add(options.schema, Key::kStoreSchema, "--schema");
  if (!timeout_is_limit) {
    add(options.timeout, Key::kStoreConnectTimeout, "--timeout");
    add(options.timeout, Key::kStoreStatementTimeout, "--timeout");
  }
  add(options.log_level, Key::kLogLevel, "--log-level");
  add(options.log_format, Key::kLogFormat, "--log-format");
  return flags;
}

}  // namespace

std::vector<OptionSpec> CommonOptions::Options() {
  return {
      {"--store", "URL", "postgres://user@host/database, sqlite:PATH, PATH.db, or a configured name", &store},
      {"--schema", "NAME", "PostgreSQL schema of the tables (default: sealane)", &schema},
      {"--config", "FILE", "configuration file (default: ./sealane.toml, /etc/sealane/sealane.toml)", &config},
      {"-o,--output", "FORMAT", "table, json or jsonl (default: table)", &output, false, "table|json|jsonl"},
      {"--timeout", "DURATION", "longest wait for the store, for example 10s", &timeout},
      {"--color", "WHEN", "auto, always or never (default: auto)", &color, false, "auto|always|never"},
      {"--log-level", "LEVEL", "debug, info, warning or error", &log_level, false, "debug|info|warning|error"},
      {"--log-format", "FORMAT", "text or json", &log_format, false, "text|json"},
      {"-h,--help", "", "show help", &help},
      {"--version", "", "show the version", &version},
  };
}

Result<const Config*> CommandContext::config() {
  if (!config_) {
    SEALANE_ASSIGN_OR_RETURN(config_, ReadConfigAgain());
    for (const std::string& warning : config_->warnings()) Warn(warning);
    ApplyLogSettings(*config_);
    LogDebug("configuration read",
             {{"file", config_->file()}, {"store", RedactUrl(config_->store().Text(Key::kStoreUrl))}});
  }
  return &*config_;
}

Result<Config> CommandContext::ReadConfigAgain() const {
  std::vector<FlagValue> flags = FlagsOf(options_, timeout_is_limit_);
  flags.insert(flags.end(), flags_.begin(), flags_.end());
  return LoadConfig({.file = options_.config,
                     .variables = environment_.variables,
                     .candidates = environment_.config_candidates,
                     .flags = std::move(flags)});
}

Result<std::unique_ptr<OutboxStore>> CommandContext::OpenStore() {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, config());
  return OpenOutboxStore(settings->store());
}

Result<std::unique_ptr<DeadLetters>> CommandContext::OpenStoreDeadLetters() {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, config());
  return OpenDeadLetters(settings->store());
}

Result<std::unique_ptr<RouteDesk>> CommandContext::OpenStoreRoutes() {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, config());
  return OpenRouteDesk(settings->store());
}

Result<std::unique_ptr<InboxDesk>> CommandContext::OpenStoreInboxDesk() {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, config());
  return OpenInboxDesk(settings->store());
}

Result<std::unique_ptr<TaskDesk>> CommandContext::OpenStoreTaskDesk() {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, config());
  return OpenTaskDesk(settings->store());
}

Result<std::unique_ptr<Migrator>> CommandContext::OpenStoreMigrator() {
  SEALANE_ASSIGN_OR_RETURN(const Config* settings, config());
  return OpenMigrator(settings->store());
}

void ApplyLogSettings(const Config& config) {
  Logger::Instance().SetLevel(*ParseLogLevel(config.Text(Key::kLogLevel)));
  Logger::Instance().SetFormat(*ParseLogFormat(config.Text(Key::kLogFormat)));
}

void CommandContext::Warn(std::string_view message) {
  err() << RenderWarning(message, format_, color_err_);
}

std::string CommandContext::Pasteable(std::string_view command) const {
  std::string line(command);
  if (options_.store) line += " --store " + PasteableWord(RedactUrl(*options_.store));
  if (options_.schema) line += " --schema " + PasteableWord(*options_.schema);
  if (options_.config) line += " --config " + PasteableWord(*options_.config);
  return line;
}

Error CommandContext::WithPasteableHint(Error error) const {
  // Hints of the library do not know how this program was called.
  constexpr std::string_view kCommand = ": sealane migrate up";
  if (!error.hint().ends_with(kCommand)) return error;
  std::string hint = Pasteable(error.hint());
  return std::move(error).WithHint(std::move(hint));
}

void CommandContext::SuggestNext(std::string_view command) {
  if (is_table()) err() << "next: " << Pasteable(command) << '\n';
}

void CommandContext::OnInterrupt(std::string_view state) const {
  const Error error(ErrorKind::kCancelled, "interrupted", fmt::format("interrupted; {}", state));
  SetInterruptLine(RenderError(error, format_, color_err_));
}

std::string PasteableWord(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+=,";
  const std::string shown = EscapeForTerminal(text);
  const bool plain = !shown.empty() && shown.find_first_not_of(kPlain) == std::string::npos;
  return plain ? shown : ShellQuote(shown);
}

Error BadUsage(std::string message, std::string hint, std::string field) {
  return Error(ErrorKind::kMisuse, "bad_usage", std::move(message))
      .WithHint(std::move(hint))
      .WithField(std::move(field));
}

Result<std::int64_t> IntegerOption(std::string_view flag, std::string_view text, std::int64_t low,
                                   std::int64_t high) {
  std::int64_t number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc{} && rest == text.data() + text.size() && number >= low && number <= high) return number;
  return BadUsage(fmt::format("{}: `{}` is not a whole number from {} to {}", flag, text, low, high), {},
                  std::string(flag));
}

}  // namespace sealane::cli
