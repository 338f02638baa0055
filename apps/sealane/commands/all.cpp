#include "command.hpp"
#include "commands/completion.hpp"
#include "commands/config.hpp"
#include "commands/consume.hpp"
#include "commands/dashboard.hpp"
#include "commands/dead.hpp"
#include "commands/demo.hpp"
#include "commands/doctor.hpp"
#include "commands/emit.hpp"
#include "commands/forward.hpp"
#include "commands/inbox.hpp"
#include "commands/init.hpp"
#include "commands/man.hpp"
#include "commands/messages_get.hpp"
#include "commands/messages_list.hpp"
#include "commands/migrate.hpp"
#include "commands/receive.hpp"
#include "commands/relay.hpp"
#include "commands/route.hpp"
#include "commands/tasks.hpp"
#include "commands/tenants.hpp"
#include "commands/version.hpp"

namespace sealane::cli {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeInitCommand());
  commands.push_back(MakeMigratePlanCommand());
  commands.push_back(MakeMigrateUpCommand());
  commands.push_back(MakeMigrateStatusCommand());
  commands.push_back(MakeEmitCommand());
  commands.push_back(MakeMessagesListCommand());
  commands.push_back(MakeMessagesGetCommand());
  commands.push_back(MakeMessagesRerouteCommand());
  commands.push_back(MakeRelayCommand());
  commands.push_back(MakeConsumeCommand());
  commands.push_back(MakeForwardCommand());
  commands.push_back(MakeReceiveCommand());
  commands.push_back(MakeInboxStatusCommand());
  commands.push_back(MakeInboxPositionCommand());
  commands.push_back(MakeInboxListCommand());
  commands.push_back(MakeInboxParkedCommand());
  commands.push_back(MakeInboxGapsCommand());
  commands.push_back(MakeInboxShowCommand());
  commands.push_back(MakeInboxRetryCommand());
  commands.push_back(MakeInboxSkipCommand());
  commands.push_back(MakeInboxAcceptGapCommand());
  commands.push_back(MakeInboxPauseCommand());
  commands.push_back(MakeInboxUnpauseCommand());
  commands.push_back(MakeInboxResumeCommand());
  commands.push_back(MakeInboxRemoveCommand());
  commands.push_back(MakeInboxGrantsCommand());
  commands.push_back(MakeInboxGrantCommand());
  commands.push_back(MakeInboxRevokeCommand());
  commands.push_back(MakeTasksRunCommand());
  commands.push_back(MakeTasksEnqueueCommand());
  commands.push_back(MakeTasksListCommand());
  commands.push_back(MakeTasksShowCommand());
  commands.push_back(MakeTasksRetryCommand());
  commands.push_back(MakeTasksDiscardCommand());
  commands.push_back(MakeTasksTargetsCommand());
  commands.push_back(MakeTasksPauseCommand());
  commands.push_back(MakeTasksResumeCommand());
  commands.push_back(MakeDeadListCommand());
  commands.push_back(MakeDeadShowCommand());
  commands.push_back(MakeDeadRetryCommand());
  commands.push_back(MakeDeadDiscardCommand());
  commands.push_back(MakeDeadSkipCommand());
  commands.push_back(MakeDeadRerouteCommand());
  commands.push_back(MakeRouteListCommand());
  commands.push_back(MakeRouteAddCommand());
  commands.push_back(MakeRoutePauseCommand());
  commands.push_back(MakeRouteResumeCommand());
  commands.push_back(MakeRouteRemoveCommand());
  commands.push_back(MakeRouteRebaseCommand());
  commands.push_back(MakeTenantsListCommand());
  commands.push_back(MakeTenantsPauseCommand());
  commands.push_back(MakeTenantsResumeCommand());
  commands.push_back(MakeTenantsLimitCommand());
  commands.push_back(MakeTenantsWeightCommand());
  commands.push_back(MakeDashboardCommand());
  commands.push_back(MakeDoctorCommand());
  commands.push_back(MakeCompletionCommand());
  commands.push_back(MakeManCommand());
  commands.push_back(MakeConfigPrintCommand());
  commands.push_back(MakeConfigCheckCommand());
  commands.push_back(MakeConfigDocumentCommand());
  commands.push_back(MakeDemoCommand());
  commands.push_back(MakeHastyRelayCommand());
  commands.push_back(MakeVersionCommand());
  return commands;
}

}  // namespace sealane::cli
