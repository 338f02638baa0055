#pragma once

#include <string>

namespace sealane {

/// Makes an empty file that its owner alone can read and write, unless there is one: the mode of a file that exists
/// stays. Follows symbolic links. Failures are not reported: the next open of the file fails with the reason.
///
/// The mode is set when the file is made, so there is no moment at which others can open it, and the process's umask,
/// which all threads share, is left alone.
void MakePrivateFile(const std::string& path);

}  // namespace sealane
