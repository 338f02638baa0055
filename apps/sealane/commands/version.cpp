#include "commands/version.hpp"

#include <ostream>

#include <fmt/format.h>

#include "kafka/kafka_probe.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::cli {
namespace {

#if defined(__clang__)
constexpr std::string_view kCompiler = "clang " __clang_version__;
#else
constexpr std::string_view kCompiler = "gcc " __VERSION__;
#endif

class VersionCommand final : public Command {
 public:
  std::string_view path() const override { return "version"; }
  std::string_view summary() const override { return "show the versions of sealane and its libraries"; }
  std::vector<std::string_view> examples() const override { return {"sealane version", "sealane version -o json"}; }
  std::vector<OptionSpec> Options() override { return {}; }

  Result<ExitCode> Run(CommandContext& context) override {
    if (context.is_table()) {
      context.out() << fmt::format("sealane {}\ncompiler {}\nlibpq {}\nsqlite {}\nlibrdkafka {}\n", SEALANE_VERSION,
                                   kCompiler, postgres::ClientVersion(), sqlite::LibraryVersion(),
                                   KafkaLibraryVersion());
      return ExitCode::kDone;
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Text("version", SEALANE_VERSION)
                         .Text("compiler", kCompiler)
                         .Text("libpq", postgres::ClientVersion())
                         .Text("sqlite", sqlite::LibraryVersion())
                         .Text("librdkafka", KafkaLibraryVersion())
                         .Finish()
                  << '\n';
    return ExitCode::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> MakeVersionCommand() {
  return std::make_unique<VersionCommand>();
}

}  // namespace sealane::cli
