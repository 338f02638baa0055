#include "dashboard/desks.hpp"

#include <algorithm>

#include "config/units.hpp"
#include "store_factory.hpp"

namespace sealane::cli {

DeskOpeners OpenersOf(const Settings& store) {
  const auto bounded = std::make_shared<Settings>(store);
  const auto allowed = store.Duration(Key::kStoreStatementTimeout);
  if (allowed.count() == 0 || allowed > kLookMax) {
    bounded->At(Key::kStoreStatementTimeout).value = FormatDuration(kLookMax);
  }
  return {.routes = [bounded] { return OpenRouteDesk(*bounded); },
          .messages = [bounded] { return OpenOutboxStore(*bounded); },
          .letters = [bounded] { return OpenDeadLetters(*bounded); },
          .inbox = [bounded] { return OpenInboxDesk(*bounded); },
          .tasks = [bounded] { return OpenTaskDesk(*bounded); }};
}

}  // namespace sealane::cli
