#include "memory/memory_store.hpp"
