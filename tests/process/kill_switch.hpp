#pragma once

// Ends a process with SIGKILL at a counted system call, so that a test can walk through every moment of a program's
// life without timers. Linked into a victim program, it stands in front of the C library's calls that talk to a
// database (send, recv, write, pwrite64, fdatasync, ...) and counts them once armed.

namespace sealane::testing {

/// From now on counts; dies instead of making call number `deadly` when `before`, or right after making it.
void ArmKillSwitch(long deadly, bool before);
/// Stops counting and returns how many calls were seen.
long DisarmKillSwitch();

}  // namespace sealane::testing
