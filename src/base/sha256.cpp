#include "base/sha256.hpp"

#include <memory>

#include <openssl/evp.h>

#include "sealane/assert.hpp"

namespace sealane {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// Looking the algorithm up by name on every call costs more than hashing a small payload, so it is fetched once; the
// context is kept per thread.
const EVP_MD* Algorithm() {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  SEALANE_ASSERT(algorithm != nullptr, "OpenSSL provides SHA-256");
  return algorithm;
}

}  // namespace

Sha256Digest Sha256(std::string_view bytes) {
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  SEALANE_ASSERT(context != nullptr, "OpenSSL hands out a digest context");
  Sha256Digest digest{};
  unsigned int size = 0;
  const bool ok = EVP_DigestInit_ex(context.get(), Algorithm(), nullptr) == 1 &&
                  EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1 &&
                  EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  SEALANE_ASSERT(ok && size == digest.size(), "SHA-256 of bytes in memory cannot fail");
  return digest;
}

}  // namespace sealane
