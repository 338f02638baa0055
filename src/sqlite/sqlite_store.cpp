#include "sqlite/sqlite_store.hpp"
