#pragma once

#include <string>

#include "sealane/handler.hpp"

namespace cases {

/// A tenant that was looked up. There is no other way to get one, and nothing here loads or makes a case without one:
/// who forgets whose case it is does not compile.
class Tenant {
 public:
  /// Throws a SealaneException (`unknown_tenant`).
  static Tenant Resolve(sealane::HandlerTransaction& tx, const std::string& id);

  const std::string& id() const { return id_; }

 private:
  explicit Tenant(std::string id) : id_(std::move(id)) {}
  std::string id_;
};

}  // namespace cases
