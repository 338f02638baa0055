#include "core/histogram.hpp"

#include <algorithm>
#include <cstddef>

namespace sealane {

void Histogram::Add(double seconds) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts[static_cast<std::size_t>(bucket)];
  ++total;
  sum += seconds;
}

}  // namespace sealane
