#pragma once

#include <string>

namespace sealane::bench {

/// What one run of one way to move all events brought.
struct Lap {
  double rate = 0;      ///< events per second
  double cpu_us = 0;    ///< processor time of the process per event, the servers left out
  double peak_mib = 0;  ///< the most memory the process ever had
};

/// Runs this program again with other arguments, which are words for a shell, and reads the lap that it tells. A
/// process of its own does not find the heap as another way has left it.
Lap RunAgain(const std::string& arguments);
/// What such a process says at its end.
void Tell(const Lap& lap);

/// VmHWM of this process.
double PeakMemoryMib();

}  // namespace sealane::bench
