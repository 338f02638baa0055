#include "postgres/postgres_store.hpp"
