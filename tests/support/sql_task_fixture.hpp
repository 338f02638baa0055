#pragma once

#include <memory>

#include "support/task_fixture.hpp"

namespace sealane::testing {

/// A file of its own.
std::unique_ptr<TaskFixture> MakeSqliteTaskFixture();
/// A database of its own.
std::unique_ptr<TaskFixture> MakePostgresTaskFixture();

}  // namespace sealane::testing
