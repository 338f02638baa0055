#pragma once

#include <string>
#include <string_view>

#include <sqlite3.h>

#include "ops/operator_action.hpp"

namespace sealane::sqlite {

/// Writes an audit record with the operating system's user, the host and the program, in the transaction of the
/// change.
Status NoteAudit(sqlite3* connection, std::string_view action, std::string target, const OperatorAction& why);

}  // namespace sealane::sqlite
