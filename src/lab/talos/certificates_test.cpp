#include "lab/talos/certificates.hpp"

#include "base/encoding.hpp"
#include "base/handle.hpp"
#include "lab/sim/pki.hpp"

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace rocca::lab::talos {
namespace {

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Handle<X509, X509_free>;
using Bio = Handle<BIO, BIO_free_all>;

Bio reader(std::string_view text) {
  return Bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

/// As OpenSSL reads both by itself.
void expect_pair(const net::Identity& identity, int kind) {
  const Bio certificate_in = reader(identity.certificate_pem);
  const Certificate certificate{PEM_read_bio_X509(certificate_in.get(), nullptr, nullptr, nullptr)};
  const Bio key_in = reader(identity.key_pem.reveal());
  const Key key{PEM_read_bio_PrivateKey(key_in.get(), nullptr, nullptr, nullptr)};
  ASSERT_TRUE(certificate && key);
  EXPECT_EQ(EVP_PKEY_get_base_id(key.get()), kind);
  EXPECT_EQ(X509_check_private_key(certificate.get(), key.get()), 1);
}

class CertificatesTest : public testing::Test {
 protected:
  Instant now{std::chrono::seconds{1'800'000'000}};
  SeededEntropy entropy{7};
  Leaf leaf{{}, "node", {"node", "10.0.0.7"}};
};

TEST_F(CertificatesTest, LeavesOfBothKindsBelongToTheirKeysAndTheirAuthority) {
  const SigningAuthority authority = make_authority("talos", entropy, now);
  for (const bool elliptic : {false, true}) {
    leaf.elliptic = elliptic;
    const auto identity = sign_leaf(authority, leaf, entropy, now);
    ASSERT_TRUE(identity);
    expect_pair(*identity, elliptic ? EVP_PKEY_EC : EVP_PKEY_ED25519);
    const net::Tls tls = net::Tls::authority(authority.certificate_pem);
    EXPECT_EQ(refuse_server(identity->certificate_pem, tls, "10.0.0.7", now), std::nullopt);
    EXPECT_NE(refuse_server(identity->certificate_pem, tls, "10.0.0.8", now), std::nullopt);
  }
}

TEST_F(CertificatesTest, NobodysLeafIsNobodysElse) {
  const SigningAuthority authority = make_authority("talos", entropy, now);
  const net::Identity identity = sign_by_nobody(leaf, entropy, now);
  expect_pair(identity, EVP_PKEY_ED25519);
  EXPECT_NE(refuse_server(identity.certificate_pem, net::Tls::authority(authority.certificate_pem),
                          "10.0.0.7", now),
            std::nullopt);
}

TEST_F(CertificatesTest, TheSameChanceNameAndHourMakeTheSameOnce) {
  const SigningAuthority authority = make_authority("talos", entropy, now);
  const SigningAuthority other = make_authority("talos", entropy, now);
  const auto sign = [&](const SigningAuthority& by, const Leaf& what, Instant when) {
    SeededEntropy same{3};
    const std::string text = sign_leaf(by, what, same, when)->certificate_pem;
    // Who goes on drawing must not notice whether it was known.
    return text + to_hex(same.bytes(4));
  };
  const std::string first = sign(authority, leaf, now);
  EXPECT_EQ(sign(authority, leaf, now), first);
  EXPECT_NE(sign(other, leaf, now), first);
  EXPECT_NE(sign(authority, leaf, now + std::chrono::hours{1}), first);
  Leaf another = leaf;
  another.names.back() = "10.0.0.8";
  EXPECT_NE(sign(authority, another, now), first);
  const auto nobody = [&](std::uint64_t seed) {
    SeededEntropy same{seed};
    const std::string text = sign_by_nobody(leaf, same, now).certificate_pem;
    return text + to_hex(same.bytes(4));
  };
  EXPECT_EQ(nobody(3), nobody(3));
  EXPECT_NE(nobody(3), nobody(4));
}

TEST_F(CertificatesTest, WhatIsNoAuthoritySignsNothing) {
  EXPECT_EQ(sign_leaf({"no certificate", "no key"}, leaf, entropy, now), std::nullopt);
}

}  // namespace
}  // namespace rocca::lab::talos
