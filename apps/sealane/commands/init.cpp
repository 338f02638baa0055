#include "commands/init.hpp"

#include <cerrno>
#include <cstring>
#include <ostream>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"
#include "config/values.hpp"
#include "connect/broker_url.hpp"
#include "connect/store_url.hpp"
#include "init/starter_file.hpp"

namespace sealane::cli {
namespace {

Error Unwritable(const std::string& path) {
  return Error(ErrorKind::kMisuse, "file_unwritable",
               fmt::format("cannot write {}: {}", EscapeForTerminal(path), std::strerror(errno)))
      .WithHint("name another place with --file, or - for standard output");
}

Status WriteAll(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0) return Unwritable(path);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return Ok();
}

// For this user alone: sooner or later somebody puts a password into it.
Status WriteFile(const std::string& path, std::string_view text, bool force) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0600);
  if (file < 0 && errno == EEXIST) {
    return Error(ErrorKind::kMisuse, "file_exists", fmt::format("{} is there already", EscapeForTerminal(path)))
        .WithHint("write over it with --force, or name another file with --file");
  }
  if (file < 0) return Unwritable(path);
  const Status written = WriteAll(file, text, path);
  const bool closed = ::close(file) == 0;
  SEALANE_RETURN_IF_ERROR(written);
  return closed ? Ok() : Status(Unwritable(path));
}

class InitCommand final : public Command {
 public:
  std::string_view path() const override { return "init"; }
  std::string_view summary() const override { return "write a commented sealane.toml to begin with"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane init", "sealane init --store postgres://app@db/shop --broker kafka://b1:9092,b2:9092"};
  }
  std::vector<OptionSpec> Options() override {
    return {
        {"--broker", "URL", "where events go: kafka://host:port, journal:PATH, http(s)://...", &broker_},
        {"--file", "FILE", "what to write (default: ./sealane.toml); - is standard output", &file_},
        {"--force", "", "write over a file that is there", &force_},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const Starter starter, ReadOptions(context));
    const std::string file = file_.value_or("./sealane.toml");
    if (file == "-") {
      context.out() << StarterFile(starter);
      return ExitCode::kDone;
    }
    SEALANE_RETURN_IF_ERROR(WriteFile(file, StarterFile(starter), force_));
    Report(context, starter, file);
    return ExitCode::kDone;
  }

 private:
  Result<Starter> ReadOptions(const CommandContext& context) const {
    Starter starter;
    if (context.options().store) starter.store_url = *context.options().store;
    if (broker_) starter.broker_url = *broker_;
    // Whatever is wrong is told now, and not by the next command.
    SEALANE_RETURN_IF_ERROR(ParseStoreUrl(starter.store_url));
    SEALANE_RETURN_IF_ERROR(ParseBrokerUrl(starter.broker_url));
    if (const auto& schema = context.options().schema) {
      SEALANE_ASSIGN_OR_RETURN(starter.schema, CheckValue(SpecOf(Key::kStoreSchema), *schema));
    }
    return starter;
  }

  static void Report(CommandContext& context, const Starter& starter, const std::string& file) {
    const bool found = file == "./sealane.toml" || file == "sealane.toml";
    const std::string config = found ? std::string() : fmt::format(" --config {}", file);
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Text("file", file)
                           .Text("store", RedactUrl(starter.store_url))
                           .Text("broker", RedactUrl(starter.broker_url))
                           .Text("next", fmt::format("sealane migrate up{}", config))
                           .Finish()
                    << '\n';
      return;
    }
    context.out() << fmt::format("wrote {}: {} to {}\n\n", EscapeForTerminal(file),
                                 EscapeForTerminal(RedactUrl(starter.store_url)),
                                 EscapeForTerminal(RedactUrl(starter.broker_url)))
                  << StarterCode(starter) << '\n';
    // Without --store: the file says where it is.
    context.err() << fmt::format("next: sealane migrate up{0}\nthen: sealane relay{0}\n", EscapeForTerminal(config));
  }

  std::optional<std::string> broker_;
  std::optional<std::string> file_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInitCommand() {
  return std::make_unique<InitCommand>();
}

}  // namespace sealane::cli
