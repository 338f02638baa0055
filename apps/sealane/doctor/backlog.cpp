#include "doctor/backlog.hpp"

#include <functional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "inbox_view.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

using enum Finding::Level;

// What waits for longer than this is no longer only late.
constexpr std::chrono::minutes kLongWait{5};

std::string Counted(std::size_t count, std::string_view what) {
  return count >= kSeenMax ? fmt::format("{} {}s or more", count, what)
                           : fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Asks one desk. A user who may not look is no finding: relays and writers have no business there.
template <class Desk, class Facts>
void Look(const std::string& subject, Result<std::unique_ptr<Desk>> desk, std::vector<Finding>& findings,
          Result<Facts> (*ask)(Desk&), const std::function<std::vector<Finding>(const Facts&)>& judge) {
  const Result<Facts> facts = desk ? ask(**desk) : Result<Facts>(desk.error());
  if (facts) {
    for (Finding& finding : judge(*facts)) findings.push_back(std::move(finding));
  } else if (facts.error().code() != "not_permitted") {
    findings.push_back(FindingFromError(subject, facts.error()));
  }
}

// A consumer that applies nothing, or nothing that would be parked.
void JudgeHold(const std::string& subject, const InboxSummary& consumer, std::vector<Finding>& findings) {
  const std::string unpause = fmt::format("sealane inbox unpause --consumer {} --reason TEXT", consumer.consumer);
  if (consumer.pause) {
    findings.push_back({kNotice, "consumer_paused", subject,
                        fmt::format("consumer {} is paused: no event is applied", consumer.consumer),
                        fmt::format("by {} since {}: {}", consumer.pause->actor, ToRfc3339(consumer.pause->at),
                                    consumer.pause->reason),
                        unpause});
  }
  if (!consumer.hold) return;
  const bool open = consumer.hold->code == kCircuitOpen;
  findings.push_back(
      {kWrong, consumer.hold->code, subject,
       open ? fmt::format("the circuit breaker of consumer {} is open: no event is applied but for probes",
                          consumer.consumer)
            : fmt::format("consumer {} has parked so many events that it parks no more", consumer.consumer),
       consumer.hold->message,
       open ? unpause : fmt::format("sealane inbox parked --consumer {}", consumer.consumer)});
}

// Every stopped partition, with what resumes it; of very many only the first.
void JudgePositions(const std::string& subject, const InboxSummary& consumer, std::vector<Finding>& findings) {
  constexpr std::int64_t kShownMax = 10;
  const std::int64_t stopped = StoppedPartitions(consumer);
  std::int64_t shown = 0;
  for (const InboxPosition& position : consumer.partitions) {
    if (!position.stop || ++shown > kShownMax) continue;
    std::string symptom = fmt::format("consumer {} does not read partition {} of topic {} until an operator decides",
                                      consumer.consumer, position.partition.number, position.partition.topic);
    if (shown == kShownMax && stopped > kShownMax) symptom += fmt::format(", and {} others", stopped - kShownMax);
    findings.push_back({kWrong, "partition_stopped", subject, std::move(symptom),
                        fmt::format("{}: {}", position.stop->code, position.stop->message),
                        ResumeCommand(consumer.consumer, position)});
  }
}

Result<std::vector<DeadLetter>> FailedLetters(DeadLetters& desk) {
  return desk.List({.limit = kSeenMax});
}
Result<std::vector<InboxSummary>> Consumers(InboxDesk& desk) {
  return desk.Summaries();
}
Result<std::vector<TaskSummary>> DeadTasks(TaskDesk& desk) {
  return desk.List({.state = TaskState::kDead, .limit = kSeenMax});
}
Result<std::vector<TargetSummary>> Targets(TaskDesk& desk) {
  return desk.Targets();
}

}  // namespace

std::vector<Finding> JudgeDeadLetters(const std::string& subject, const std::vector<DeadLetter>& letters) {
  std::size_t dead = 0;
  std::size_t failed = 0;
  const DeadLetter* sample = nullptr;
  for (const DeadLetter& letter : letters) {
    // Somebody has decided about a skipped one.
    if (letter.skipped) continue;
    const bool is_dead = letter.state == ParkedState::kDead;
    (is_dead ? dead : failed) += 1;
    if (sample == nullptr || (is_dead && sample->state != ParkedState::kDead)) sample = &letter;
  }
  if (sample == nullptr) return {{kGood, "no_dead_letters", subject, "no event is set aside by a relay", {}, {}}};
  const std::string evidence =
      fmt::format("for example {}: {} ({})", sample->id.ToString(), sample->error_code, sample->error_message);
  if (dead > 0) {
    return {{kWrong, "dead_letters", subject, fmt::format("{} dead and wait for a person", Counted(dead, "event")),
             evidence, fmt::format("sealane dead show {}", sample->id.ToString())}};
  }
  return {{kNotice, "failed_events", subject,
           fmt::format("{} failed and will be tried again", Counted(failed, "event")), evidence,
           "sealane dead list"}};
}

std::vector<Finding> JudgeInbox(const std::string& subject, const std::vector<InboxSummary>& consumers,
                                Timestamp now) {
  std::vector<Finding> findings;
  for (const InboxSummary& consumer : consumers) {
    const InboxCounts& waiting = consumer.waiting;
    const auto since = consumer.oldest_parked_at
                           ? std::chrono::duration_cast<std::chrono::seconds>(now - *consumer.oldest_parked_at)
                           : std::chrono::seconds{0};
    const std::string evidence = fmt::format("{} set aside, {} dead, {} behind a gap, the oldest since {} s",
                                             waiting.parked, waiting.dead, waiting.gaps, since.count());
    const std::string next = fmt::format("sealane inbox parked --consumer {}", consumer.consumer);
    JudgePositions(subject, consumer, findings);
    JudgeHold(subject, consumer, findings);
    if (waiting.dead > 0) {
      findings.push_back({kWrong, "inbox_dead", subject,
                          fmt::format("consumer {} has events that wait for a person", consumer.consumer), evidence,
                          next});
    } else if (waiting.gaps > 0) {
      findings.push_back({kNotice, "inbox_gaps", subject,
                          fmt::format("consumer {} waits for versions that have not come", consumer.consumer),
                          evidence, fmt::format("sealane inbox gaps --consumer {}", consumer.consumer)});
    } else if (waiting.parked > 0) {
      findings.push_back({kNotice, "inbox_parked", subject,
                          since > kLongWait
                              ? fmt::format("consumer {} has not applied events for long", consumer.consumer)
                              : fmt::format("consumer {} has set events aside, which will be tried again; the reason "
                                            "may need a person",
                                            consumer.consumer),
                          evidence, next});
    } else if (StoppedPartitions(consumer) == 0) {
      findings.push_back({kGood,
                          "inbox",
                          subject,
                          fmt::format("consumer {} has nothing that waits for a person", consumer.consumer),
                          {},
                          {}});
    }
  }
  return findings;
}

std::vector<Finding> JudgeTasks(const std::string& subject, const std::vector<TaskSummary>& tasks) {
  if (tasks.empty()) return {};
  const TaskSummary& sample = tasks.front();
  return {{kWrong, "dead_tasks", subject, fmt::format("{} dead and wait for a person", Counted(tasks.size(), "task")),
           fmt::format("for example {} of target {}: {}", sample.id.ToString(), sample.target, sample.error_code),
           fmt::format("sealane tasks show {}", sample.id.ToString())}};
}

std::vector<Finding> JudgeTargets(const std::string& subject, const std::vector<TargetSummary>& targets) {
  std::vector<Finding> findings;
  for (const TargetSummary& target : targets) {
    const std::string waits = fmt::format("{} due", Counted(static_cast<std::size_t>(target.due), "task"));
    if (target.pause) {
      findings.push_back({kNotice, "target_paused", subject, fmt::format("target {} is paused", target.target),
                          fmt::format("by {}: {}; {}", target.pause->actor, target.pause->reason, waits),
                          fmt::format("sealane tasks resume {} --reason \"...\"", target.target)});
    } else if (target.down) {
      findings.push_back({kWrong, "target_down", subject,
                          fmt::format("target {} is down, its tasks wait", target.target),
                          fmt::format("{}: {}; {}", target.down->error_code, target.down->error_message, waits),
                          "sealane tasks targets"});
    }
  }
  return findings;
}

std::vector<Finding> ExamineBacklog(const std::string& subject, const Settings& store, Timestamp now) {
  std::vector<Finding> findings;
  Look<DeadLetters, std::vector<DeadLetter>>(subject, OpenDeadLetters(store), findings, FailedLetters,
                                             [&](const auto& letters) { return JudgeDeadLetters(subject, letters); });
  Look<InboxDesk, std::vector<InboxSummary>>(
      subject, OpenInboxDesk(store), findings, Consumers,
      [&](const auto& consumers) { return JudgeInbox(subject, consumers, now); });
  Look<TaskDesk, std::vector<TaskSummary>>(subject, OpenTaskDesk(store), findings, DeadTasks,
                                           [&](const auto& tasks) { return JudgeTasks(subject, tasks); });
  Look<TaskDesk, std::vector<TargetSummary>>(subject, OpenTaskDesk(store), findings, Targets,
                                             [&](const auto& targets) { return JudgeTargets(subject, targets); });
  return findings;
}

std::vector<std::string> ConsumersOf(const Settings& store) {
  std::vector<std::string> names;
  auto desk = OpenInboxDesk(store);
  if (!desk) return names;
  const auto summaries = (*desk)->Summaries();
  if (!summaries) return names;
  for (const InboxSummary& summary : *summaries) names.push_back(summary.consumer);
  return names;
}

}  // namespace sealane::cli
