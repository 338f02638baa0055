#include "connect/journal_keeper.hpp"

#include <utility>

#include "base/log.hpp"

namespace sealane {
namespace {

// Longer than a publisher waits before it tries again.
constexpr std::chrono::milliseconds kStepPause{25};

}  // namespace

void JournalKeeper::RunOnce(std::stop_token stop) const {
  const JournalRetention retention{.age_max = std::chrono::ceil<std::chrono::seconds>(options_.retention),
                                   .step_pause = kStepPause};
  const auto swept = SweepJournal(options_.journal, retention, clock_, std::move(stop));
  if (!swept) {
    LogWarning(
        "a journal could not be swept, tried again later",
        {{"journal", options_.journal.path}, {"code", swept.error().code()}, {"error", swept.error().ToString()}});
    return;
  }
  if (swept->messages == 0) return;
  LogInfo("old messages removed from a journal",
          {{"journal", options_.journal.path}, {"messages", swept->messages}, {"bytes", swept->bytes}});
}

void JournalKeeper::Run(std::stop_token stop) const {
  bool go_on = clock_.SleepFor(options_.first, stop);
  while (go_on) {
    RunOnce(stop);
    go_on = clock_.SleepFor(options_.interval, stop);
  }
}

}  // namespace sealane
