#pragma once

#include "sealane/retry_policy.hpp"
