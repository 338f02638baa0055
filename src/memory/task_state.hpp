#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/task_desk.hpp"
#include "tasks/task_store.hpp"

namespace sealane::memory {

using TaskName = std::tuple<std::string, std::string, std::string, std::string>;  // tenant, target, operation, key
TaskName NameOf(const Task& task);

struct BegunAttempt : TaskAttempt {
  std::int64_t claim = 0;  ///< of the claim that began it
};

/// A task and everything dispatchers and operators have written about it.
struct TaskRecord {
  std::int64_t place = 0;  ///< in the order of enqueueing
  NewTask task;
  Timestamp created_at{};
  TaskState state = TaskState::kPending;
  std::int64_t claims = 0;
  std::int32_t attempts = 0;
  std::int32_t tries = 0;
  bool in_doubt = false;
  Timestamp due_at{};  ///< kept during an attempt, so that a release leaves no trace
  std::optional<Timestamp> lease_until = {};
  std::optional<Timestamp> ended_at = {};
  std::optional<std::int32_t> status = {};  ///< this and the next two: of the last attempt that ended
  std::string error_code = {};
  std::string error_message = {};
  std::vector<BegunAttempt> tried = {};

  bool is_over() const { return state == TaskState::kSucceeded || state == TaskState::kDiscarded; }
  bool waits() const { return state == TaskState::kPending || state == TaskState::kFailed; }
  /// When it may be claimed, were there no other tasks; empty: it may not.
  std::optional<Timestamp> claimable_at() const { return waits() ? std::optional(due_at) : lease_until; }
  /// Whether this claim is the one that counts.
  bool is_at(const ClaimedTask& claimed) const { return state == TaskState::kSending && claims == claimed.claim; }
  /// Writes down how the attempt of that claim went. One that somebody has said something about is left alone.
  void CloseAttempt(std::int64_t claim, const AttemptReport& report, Timestamp now);
};

/// What a dispatcher said about a target that it finds down.
struct OutageRecord {
  Timestamp since{};
  Timestamp next_probe_at{};
  std::string code = {};
  std::string message = {};
};

struct TaskTables {
  std::map<std::int64_t, TaskRecord> tasks = {};  ///< by place
  std::map<TaskName, std::int64_t> place_of_name = {};
  std::map<EventId, std::int64_t> place_of = {};
  std::int64_t last_place = 0;
  std::map<std::string, TargetPause> pauses = {};                            ///< by target
  std::map<std::pair<std::string, std::string>, OutageRecord> outages = {};  ///< by target and dispatcher

  void Add(NewTask task, Timestamp now);
  /// Null when there is none.
  TaskRecord* Find(const EventId& id);
  /// Those that may be claimed now or later, in the order of enqueueing: none that waits for an earlier one with its
  /// order key.
  std::vector<TaskRecord*> Claimable();
  void Erase(const EventId& id);
};

}  // namespace sealane::memory
