#include "sealane/assert.hpp"

#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "base/log.hpp"

namespace sealane::detail {

void AssertionFailed(const char* condition, const char* sentence, const char* file, int line) {
  std::fprintf(stderr, "sealane: broken invariant: %s (%s) at %s:%d\n", sentence, condition, file, line);
  std::fprintf(stderr, "sealane: the last log lines of this process, oldest first:\n");
  std::fflush(stderr);
  Logger::Instance().WriteRecentTo(STDERR_FILENO);
  std::abort();
}

}  // namespace sealane::detail
