#include "secrets/x509.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "secrets/ecdsa.hpp"
#include "secrets/pem.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const Instant now = *parse_instant("2026-11-16T03:04:05.250Z");
const Instant whole_now = *parse_instant("2026-11-16T03:04:05Z");

template <class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

struct KeyRow {
  std::string name;
  KeyAlgorithm algorithm;
  unsigned bits;
  std::string label;
  std::string description;
};

class Keys : public testing::TestWithParam<KeyRow> {};

TEST_P(Keys, ComeFromTheSeedAndSurviveTheirText) {
  SeededEntropy one(5);
  SeededEntropy two(5);
  const PrivateKey key = PrivateKey::generate(GetParam().algorithm, one, GetParam().bits);
  EXPECT_EQ(PrivateKey::generate(GetParam().algorithm, two, GetParam().bits).pem(), key.pem());
  EXPECT_THAT(std::string(key.pem().reveal()),
              StartsWith("-----BEGIN " + GetParam().label + "-----\n"));
  EXPECT_EQ(key.description(), GetParam().description);
  const PrivateKey again = PrivateKey::parse(key.pem().reveal(), "the key");
  EXPECT_EQ(again.pem(), key.pem());
  EXPECT_EQ(again.public_key(), key.public_key());
}

INSTANTIATE_TEST_SUITE_P(
    All, Keys,
    testing::Values(KeyRow{"Ed25519", KeyAlgorithm::Ed25519, 0, "ED25519 PRIVATE KEY", "Ed25519"},
                    KeyRow{"EcdsaP256", KeyAlgorithm::EcdsaP256, 0, "EC PRIVATE KEY",
                           "ECDSA secp256r1"},
                    KeyRow{"Rsa", KeyAlgorithm::Rsa, 2048, "RSA PRIVATE KEY", "RSA 2048"}),
    [](const auto& row) { return row.param.name; });

TEST(Keys, WrongTextsAreNamedAndNotRepeated) {
  SeededEntropy entropy(1);
  const std::string pem(PrivateKey::generate(KeyAlgorithm::EcdsaP256, entropy).pem().reveal());
  const auto parse = [](const std::string& text) {
    return message_of([&] { PrivateKey::parse(text, "certs.k8s.key"); });
  };
  EXPECT_EQ(parse(""), "certs.k8s.key is not valid PEM: it is empty");
  EXPECT_EQ(parse("hello"),
            "certs.k8s.key is not valid PEM: it does not begin with a -----BEGIN …----- line");
  EXPECT_EQ(parse(pem + pem),
            "certs.k8s.key is not valid PEM: it holds 2 blocks where one is meant");
  EXPECT_EQ(parse(pem.substr(0, 100)),
            "certs.k8s.key is not valid PEM: the -----END EC PRIVATE KEY----- line is missing");
  EXPECT_EQ(parse(std::string(to_pem("EC PRIVATE KEY", "nonsense").reveal())),
            "certs.k8s.key is labelled `EC PRIVATE KEY`, but its content is no such key");
  EXPECT_EQ(parse(mint_authority(Authority::Etcd, now, entropy).certificate.pem),
            "certs.k8s.key holds a `CERTIFICATE` where a private key is meant");
}

struct AuthorityRow {
  std::string name;
  Authority authority;
  std::vector<std::string> subject;
  std::string key;
};

class Authorities : public testing::TestWithParam<AuthorityRow> {};

TEST_P(Authorities, HaveTheShapeOfTalos) {
  SeededEntropy entropy(3);
  const CertifiedKey made = mint_authority(GetParam().authority, now, entropy);
  const Certificate& c = made.certificate;
  EXPECT_EQ(c.subject, GetParam().subject);
  EXPECT_EQ(c.issuer, GetParam().subject);
  EXPECT_EQ(c.key, GetParam().key);
  EXPECT_EQ(c.not_before, whole_now);
  EXPECT_EQ(c.not_after, whole_now + std::chrono::hours(87600));
  EXPECT_TRUE(c.authority);
  EXPECT_EQ(c.path_length, std::nullopt);
  EXPECT_THAT(c.key_usage, ElementsAre("digital_signature", "key_cert_sign"));
  EXPECT_THAT(c.extended_key_usage, ElementsAre("serverAuth", "clientAuth"));
  EXPECT_EQ(c.subject_key_id.size(), 20u);
  EXPECT_LE(c.serial.size(), 16u);
  EXPECT_THAT(c.dns_names, IsEmpty());
  EXPECT_TRUE(c.belongs_to(made.key));
  EXPECT_TRUE(c.issued_by(c));
}

INSTANTIATE_TEST_SUITE_P(
    All, Authorities,
    testing::Values(AuthorityRow{"Os", Authority::Os, {"O=talos"}, "Ed25519"},
                    AuthorityRow{
                        "Kubernetes", Authority::Kubernetes, {"O=kubernetes"}, "ECDSA secp256r1"},
                    AuthorityRow{"Aggregator", Authority::Aggregator, {}, "ECDSA secp256r1"},
                    AuthorityRow{"Etcd", Authority::Etcd, {"O=etcd"}, "ECDSA secp256r1"}),
    [](const auto& row) { return row.param.name; });

TEST(Ecdsa, SignsAsTheExampleOfRfc6979) {
  // A.2.5, the key and "sample" with SHA-256; wrapped as SEC 1 without its public part.
  const std::string scalar =
      *from_hex("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721");
  const std::string der =
      *from_hex("30310201010420") + scalar + *from_hex("a00a06082a8648ce3d030107");
  const PrivateKey key = PrivateKey::parse(to_pem("EC PRIVATE KEY", der).reveal(), "the example");
  EXPECT_EQ(to_hex(sign_p256(key, "sample")),
            "3046022100efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
            "022100f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8");
}

TEST(Ecdsa, ASeedIsACertificate) {
  SeededEntropy one(11);
  SeededEntropy two(11);
  EXPECT_EQ(mint_authority(Authority::Etcd, now, one).certificate.pem,
            mint_authority(Authority::Etcd, now, two).certificate.pem);
}

TEST(Leaves, ATalosClientCarriesItsRolesSorted) {
  SeededEntropy entropy(3);
  const CertifiedKey os = mint_authority(Authority::Os, now, entropy);
  const CertifiedKey made = mint_talos_client(os, {"os:reader", "os:admin"}, now, entropy);
  EXPECT_THAT(made.certificate.subject, ElementsAre("O=os:admin", "O=os:reader"));
  EXPECT_EQ(made.certificate.not_after, whole_now + std::chrono::hours(8760));
  EXPECT_EQ(made.certificate.authority_key_id, os.certificate.subject_key_id);
  EXPECT_TRUE(made.certificate.issued_by(os.certificate));
  EXPECT_TRUE(made.certificate.belongs_to(made.key));
  EXPECT_FALSE(made.certificate.belongs_to(os.key));
  EXPECT_FALSE(made.certificate.issued_by(mint_authority(Authority::Os, now, entropy).certificate));
}

TEST(Leaves, AnApiServerIsKnownByAllItsNames) {
  SeededEntropy entropy(3);
  const CertifiedKey ca = mint_authority(Authority::Kubernetes, now, entropy);
  const std::vector<IpAddress> addresses{*IpAddress::parse("10.0.0.20"),
                                         *IpAddress::parse("fd00::1")};
  const CertifiedKey made = mint_leaf(
      ca, kube_apiserver({"kubernetes", "kubernetes.default.svc"}, addresses), now, entropy);
  EXPECT_THAT(made.certificate.subject, ElementsAre("O=kube-master", "CN=kube-apiserver"));
  EXPECT_THAT(made.certificate.dns_names, ElementsAre("kubernetes", "kubernetes.default.svc"));
  EXPECT_EQ(made.certificate.addresses, addresses);
  EXPECT_THAT(made.certificate.extended_key_usage, ElementsAre("serverAuth"));
  EXPECT_THAT(made.certificate.key_usage, ElementsAre("digital_signature", "key_encipherment"));
  EXPECT_FALSE(made.certificate.authority);
  EXPECT_TRUE(made.certificate.issued_by(ca.certificate));
}

TEST(Leaves, EtcdPeersAreServersAndClients) {
  SeededEntropy entropy(3);
  const CertifiedKey ca = mint_authority(Authority::Etcd, now, entropy);
  const CertifiedKey made =
      mint_leaf(ca, etcd_server("cp-1", {"cp-1"}, {*IpAddress::parse("10.0.0.11")}), now, entropy);
  EXPECT_THAT(made.certificate.extended_key_usage, ElementsAre("serverAuth", "clientAuth"));
}

TEST(Certificates, SeveralInOneTextAreAllRead) {
  SeededEntropy entropy(3);
  const std::string one = mint_authority(Authority::Os, now, entropy).certificate.pem;
  const std::string two = mint_authority(Authority::Etcd, now, entropy).certificate.pem;
  const auto all = Certificate::parse_all(one + two, "ca");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].pem, one);
  EXPECT_EQ(all[1].pem, two);
}

TEST(Certificates, ADamagedOneIsNamed) {
  SeededEntropy entropy(3);
  std::string pem = mint_authority(Authority::Os, now, entropy).certificate.pem;
  EXPECT_THAT(message_of([&] {
                Certificate::parse(std::string(to_pem("CERTIFICATE", "x").reveal()),
                                   "certs.os.crt");
              }),
              HasSubstr("certs.os.crt is labelled as a certificate, but its content is none"));
  pem.replace(pem.find("CERTIFICATE"), 11, "EC PRIVATE KEY");
  pem.replace(pem.rfind("CERTIFICATE"), 11, "EC PRIVATE KEY");
  EXPECT_THAT(message_of([&] { Certificate::parse(pem, "certs.os.crt"); }),
              HasSubstr("certs.os.crt holds a `EC PRIVATE KEY` where a certificate is meant"));
}

}  // namespace
}  // namespace rocca::secrets
