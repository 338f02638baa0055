#include "sealane/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace sealane::detail {

void AssertionFailed(const char* condition, const char* sentence, const char* file, int line) {
  std::fprintf(stderr, "sealane: broken invariant: %s (%s) at %s:%d\n", sentence, condition, file, line);
  std::abort();
}

}  // namespace sealane::detail
