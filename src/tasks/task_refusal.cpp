#include "tasks/task_refusal.hpp"

#include <fmt/format.h>

namespace sealane {

Error TaskFenced(const ClaimedTask& claimed) {
  return Error(ErrorKind::kFenced, "task_fenced",
               fmt::format("attempt {} of task {} is not the one that counts any more", claimed.attempt,
                           claimed.id.ToString()))
      .WithHint("the lease ended and another dispatcher took over; make lease_margin longer if this happens often");
}

AttemptReport InterruptedAttempt() {
  AttemptReport report;
  report.verdict = AttemptVerdict::kUnknown;
  report.code = "interrupted";
  report.message = "the lease ended and nobody had said how the attempt went";
  return report;
}

}  // namespace sealane
