#include "command.hpp"
#include "commands/config.hpp"
#include "commands/emit.hpp"
#include "commands/messages_get.hpp"
#include "commands/messages_list.hpp"
#include "commands/migrate.hpp"
#include "commands/version.hpp"

namespace sealane::cli {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeMigratePlanCommand());
  commands.push_back(MakeMigrateUpCommand());
  commands.push_back(MakeMigrateStatusCommand());
  commands.push_back(MakeEmitCommand());
  commands.push_back(MakeMessagesListCommand());
  commands.push_back(MakeMessagesGetCommand());
  commands.push_back(MakeConfigPrintCommand());
  commands.push_back(MakeConfigCheckCommand());
  commands.push_back(MakeConfigDocumentCommand());
  commands.push_back(MakeVersionCommand());
  return commands;
}

}  // namespace sealane::cli
