#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "sealane/result.hpp"

#include "config/settings.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/route_desk.hpp"
#include "ops/task_desk.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::cli {

/// How the desks of a store are opened.
struct DeskOpeners {
  std::function<Result<std::unique_ptr<RouteDesk>>()> routes;
  std::function<Result<std::unique_ptr<OutboxStore>>()> messages;
  std::function<Result<std::unique_ptr<DeadLetters>>()> letters;
  std::function<Result<std::unique_ptr<InboxDesk>>()> inbox;
  std::function<Result<std::unique_ptr<TaskDesk>>()> tasks;
};
/// Those of the store that a section names. Whoever watches must not be a burden: no statement on PostgreSQL takes
/// longer than kLookMax, whatever the section allows. SQLite knows no such limit.
DeskOpeners OpenersOf(const Settings& store);
inline constexpr std::chrono::milliseconds kLookMax{5'000};

/// What the dashboard looks at a store through: opened when first needed, and anew after a failure, because a
/// connection that broke does not come back. One thread.
class Desks {
 public:
  explicit Desks(DeskOpeners open) : open_(std::move(open)) {}

  /// Each asks its desk something, for example `Routes([](RouteDesk& desk) { return desk.Look(); })`.
  template <class Question>
  auto Routes(const Question& ask) {
    return With(routes_, open_.routes, ask);
  }
  template <class Question>
  auto Messages(const Question& ask) {
    return With(messages_, open_.messages, ask);
  }
  template <class Question>
  auto Letters(const Question& ask) {
    return With(letters_, open_.letters, ask);
  }
  template <class Question>
  auto Inbox(const Question& ask) {
    return With(inbox_, open_.inbox, ask);
  }
  template <class Question>
  auto Tasks(const Question& ask) {
    return With(tasks_, open_.tasks, ask);
  }

 private:
  template <class Desk, class Question>
  static auto With(std::unique_ptr<Desk>& desk, const std::function<Result<std::unique_ptr<Desk>>()>& open,
                   const Question& ask) -> decltype(ask(*desk)) {
    if (!desk) {
      SEALANE_ASSIGN_OR_RETURN(desk, open());
    }
    auto answer = ask(*desk);
    if (!answer && answer.error().kind() == ErrorKind::kUnavailable) desk.reset();
    return answer;
  }

  const DeskOpeners open_;
  std::unique_ptr<RouteDesk> routes_;
  std::unique_ptr<OutboxStore> messages_;
  std::unique_ptr<DeadLetters> letters_;
  std::unique_ptr<InboxDesk> inbox_;
  std::unique_ptr<TaskDesk> tasks_;
};

}  // namespace sealane::cli
