#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane inbox status`: how each consumer stands.
std::unique_ptr<Command> MakeInboxStatusCommand();
/// `sealane inbox position`: where each consumer stands in each partition.
std::unique_ptr<Command> MakeInboxPositionCommand();
/// `sealane inbox list`: receipts, newest first.
std::unique_ptr<Command> MakeInboxListCommand();
/// `sealane inbox parked`: what consumers have set aside, longest waiting first.
std::unique_ptr<Command> MakeInboxParkedCommand();
/// `sealane inbox gaps`: the same, of what waits for an earlier version.
std::unique_ptr<Command> MakeInboxGapsCommand();
/// `sealane inbox show`: everything about one event.
std::unique_ptr<Command> MakeInboxShowCommand();
/// `sealane inbox retry`: tries one, or all that match, again now.
std::unique_ptr<Command> MakeInboxRetryCommand();
/// `sealane inbox skip`: gives one up; those behind it go on.
std::unique_ptr<Command> MakeInboxSkipCommand();
/// `sealane inbox accept-gap`: applies an event although earlier versions are missing.
std::unique_ptr<Command> MakeInboxAcceptGapCommand();
/// `sealane inbox pause`: no member applies events.
std::unique_ptr<Command> MakeInboxPauseCommand();
/// `sealane inbox unpause`: they go on, also those that hold by themselves.
std::unique_ptr<Command> MakeInboxUnpauseCommand();
/// `sealane inbox resume`: where partitions of a consumer go on.
std::unique_ptr<Command> MakeInboxResumeCommand();
/// `sealane inbox remove`: takes a consumer away with everything that the store has of it.
std::unique_ptr<Command> MakeInboxRemoveCommand();
/// `sealane inbox grants`: which database roles may work as which consumer.
std::unique_ptr<Command> MakeInboxGrantsCommand();
/// `sealane inbox grant`: lets a database role work as a consumer.
std::unique_ptr<Command> MakeInboxGrantCommand();
/// `sealane inbox revoke`: takes that back.
std::unique_ptr<Command> MakeInboxRevokeCommand();

}  // namespace sealane::cli
