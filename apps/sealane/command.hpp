#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sealane/result.hpp"

#include "config/config.hpp"
#include "environment.hpp"
#include "exit_code.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/route_desk.hpp"
#include "ops/task_desk.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_store.hpp"
#include "output.hpp"

namespace sealane::cli {

/// One option of a command and where its value goes. Values stay text here; the command that wants a number parses
/// it.
struct OptionSpec {
  using Target = std::variant<std::optional<std::string>*, std::vector<std::string>*, bool*>;
  std::string names;       ///< `--topic` or `-o,--output`; without dashes: a positional argument
  std::string value_name;  ///< `NAME`; empty for a switch
  std::string help;
  Target target;
  bool required = false;
  std::string_view choices = {};  ///< all values there are, `a|b`, for completion; the command itself checks them
  bool hidden = false;            ///< not in the help
};

/// What all commands take.
struct CommonOptions {
  std::optional<std::string> store;
  std::optional<std::string> schema;
  std::optional<std::string> config;
  std::optional<std::string> output;
  std::optional<std::string> timeout;
  std::optional<std::string> color;
  std::optional<std::string> log_level;
  std::optional<std::string> log_format;
  bool help = false;
  bool version = false;

  std::vector<OptionSpec> Options();
};

/// What a running command has at hand.
class CommandContext {
 public:
  CommandContext(Streams& streams, const Environment& environment, const CommonOptions& options, OutputFormat format,
                 bool color_out, bool color_err)
      : streams_(streams),
        environment_(environment),
        options_(options),
        format_(format),
        color_out_(color_out),
        color_err_(color_err) {}

  std::istream& in() { return streams_.in; }
  std::ostream& out() { return streams_.out; }
  std::ostream& err() { return streams_.err; }
  OutputFormat format() const { return format_; }
  bool is_table() const { return format_ == OutputFormat::kTable; }
  bool color() const { return color_out_; }
  Clock& clock() const { return *environment_.clock; }
  const Environment& environment() const { return environment_; }
  const CommonOptions& options() const { return options_; }
  bool out_is_terminal() const { return streams_.out_is_terminal; }
  bool err_is_terminal() const { return streams_.err_is_terminal; }
  bool in_is_terminal() const { return streams_.in_is_terminal; }

  /// Settings of the command's own flags; before the first use of config().
  void AddFlag(FlagValue flag) { flags_.push_back(std::move(flag)); }
  /// From here on --timeout is a limit for the whole command, and no longer one for each wait; before the first use
  /// of config().
  void TakeTimeoutAsLimit() { timeout_is_limit_ = true; }

  /// Read and checked on first use, with its warnings printed.
  Result<const Config*> config();
  /// Read again, for a program that runs on; config() stays as it is.
  Result<Config> ReadConfigAgain() const;
  Result<std::unique_ptr<OutboxStore>> OpenStore();
  Result<std::unique_ptr<Migrator>> OpenStoreMigrator();
  Result<std::unique_ptr<DeadLetters>> OpenStoreDeadLetters();
  Result<std::unique_ptr<RouteDesk>> OpenStoreRoutes();
  Result<std::unique_ptr<InboxDesk>> OpenStoreInboxDesk();
  Result<std::unique_ptr<TaskDesk>> OpenStoreTaskDesk();

  void Warn(std::string_view message);
  /// A command of this program with the flags of this run that say where it works (--store, --schema, --config), so
  /// that it can be pasted.
  std::string Pasteable(std::string_view command) const;
  /// The error with such a command at the end of its hint, if it has one.
  Error WithPasteableHint(Error error) const;
  /// Says what to do next, on standard error and only to people, pasteable.
  void SuggestNext(std::string_view command);
  /// What Ctrl-C leaves behind from here on, for example "nothing was written".
  void OnInterrupt(std::string_view state) const;

 private:
  Streams& streams_;
  const Environment& environment_;
  const CommonOptions& options_;
  OutputFormat format_;
  bool color_out_;
  bool color_err_;
  std::vector<FlagValue> flags_;
  bool timeout_is_limit_ = false;
  std::optional<Config> config_;
};

/// A command of the program. Options() hands out places inside the command, which must not move afterwards.
class Command {
 public:
  virtual ~Command() = default;
  /// `emit`, `messages list`, ...
  virtual std::string_view path() const = 0;
  /// One line.
  virtual std::string_view summary() const = 0;
  /// Whole command lines, the most typical first.
  virtual std::vector<std::string_view> examples() const = 0;
  virtual std::vector<OptionSpec> Options() = 0;
  /// Not listed in the help.
  virtual bool hidden() const { return false; }
  /// An exit code other than kDone says that the answer is negative; a failure is an error.
  virtual Result<ExitCode> Run(CommandContext& context) = 0;
};

/// Every command, in the order the help lists them.
std::vector<std::unique_ptr<Command>> AllCommands();

/// Puts log.level and log.format into force.
void ApplyLogSettings(const Config& config);

/// A name as it can be pasted into a shell, in quotation marks where it needs them.
std::string PasteableWord(std::string_view text);

/// The error for a wrong command line.
Error BadUsage(std::string message, std::string hint = {}, std::string field = {});

/// Text of an option as a whole number within [low, high]; `bad_usage` naming the flag otherwise.
Result<std::int64_t> IntegerOption(std::string_view flag, std::string_view text, std::int64_t low, std::int64_t high);

}  // namespace sealane::cli
