#include "secrets/age/age.hpp"

#include "base/encoding.hpp"
#include "base/units.hpp"
#include "secrets/age/armor.hpp"
#include "secrets/age/bech32.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace rocca::secrets::age {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

SeededEntropy seeded(std::uint64_t seed = 1) {
  return SeededEntropy(seed);
}

template <class Act>
Error error_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Fault::Bug, "");
}

template <class Act>
std::string failure_of(Act&& act) {
  try {
    act();
  } catch (const AgeError& error) {
    return to_string(error.failure());
  }
  return "success";
}

RC_GTEST_PROP(Bech32, ReadsWhatItWrites, (const std::string& data)) {
  const auto parts = from_bech32(to_bech32("age1x-", data));
  RC_ASSERT(parts.has_value());
  RC_ASSERT(parts->prefix == "age1x-");
  RC_ASSERT(parts->data == data);
}

RC_GTEST_PROP(Bech32, OneChangedCharacterIsFound, (const std::string& data)) {
  std::string text = to_bech32("age", data);
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  const char other = *rc::gen::elementOf(std::string("qpzry9x8gf2tvdw0s3jn54khce6mua7lb"));
  RC_PRE(text[at] != other);
  text[at] = other;
  RC_ASSERT(!from_bech32(text));
}

TEST(Bech32, OneCaseOnly) {
  std::string text = to_bech32("age", "0123456789");
  text.back() = static_cast<char>(std::toupper(text.back()));
  text[5] = 'Q';
  EXPECT_FALSE(from_bech32(text));
}

TEST(AgeKeys, GeneratedKeysSurviveTheirText) {
  SeededEntropy entropy = seeded();
  const Identity identity = Identity::generate(entropy);
  EXPECT_THAT(identity.recipient()->text(), StartsWith("age1"));
  const Identity again = Identity::parse(identity.text().reveal());
  EXPECT_EQ(again.recipient()->text(), identity.recipient()->text());
  EXPECT_EQ(Recipient::parse(identity.recipient()->text()), *identity.recipient());
}

TEST(AgeKeys, ASeedIsAKey) {
  SeededEntropy one = seeded(7);
  SeededEntropy two = seeded(7);
  EXPECT_EQ(Identity::generate(one).text(), Identity::generate(two).text());
}

TEST(AgeKeys, TheKeyFileIsTheOneOfAgeKeygen) {
  SeededEntropy entropy = seeded();
  const Identity identity = Identity::generate(entropy);
  const Secret text = key_file(identity, *parse_instant("2026-11-16T03:04:05.5Z"));
  EXPECT_EQ(text.reveal(),
            "# created: 2026-11-16T03:04:05Z\n# public key: " + identity.recipient()->text() +
                "\n" + std::string(identity.text().reveal()) + "\n");
  EXPECT_THAT(parse_identities(text.reveal(), "keys.txt"), SizeIs(1));
}

TEST(AgeKeys, AFileMayHoldSeveralWithCommentsBlanksAndCrlf) {
  SeededEntropy entropy = seeded();
  std::string text = "# mine\r\n\r\n";
  for (int i = 0; i < 3; ++i)
    text += std::string(Identity::generate(entropy).text().reveal()) + "\r\n";
  EXPECT_THAT(parse_identities(text, "keys.txt"), SizeIs(3));
}

struct BadKey {
  std::string name;
  std::string text;
  std::string says;
};

class BadIdentity : public testing::TestWithParam<BadKey> {};

TEST_P(BadIdentity, IsNamedWithItsLineAndNeverRepeated) {
  const Error error =
      error_of([&] { parse_identities("# one\n" + GetParam().text + "\n", "keys.txt"); });
  EXPECT_EQ(error.fault(), Fault::Usage);
  EXPECT_THAT(error.render(), HasSubstr(GetParam().says));
  if (!GetParam().text.empty()) {
    EXPECT_THAT(error.render(), HasSubstr("keys.txt:2"));
    EXPECT_THAT(error.render(), Not(HasSubstr(GetParam().text)));
  }
}

constexpr char good_key[] =
    "AGE-SECRET-KEY-1EGTZVFFV20835NWYV6270LXYVK2VKNX2MMDKWYKLMGR48UAWX40Q2P2LM0";

INSTANTIATE_TEST_SUITE_P(
    All, BadIdentity,
    testing::Values(
        BadKey{"Nothing", "", "holds no identity"},
        BadKey{"Recipient", "age1lzd99uklcjnc0e7d860axevet2cz99ce9pq6tzuzd05l5nr28ams36nvun",
               "a recipient, not a secret key"},
        BadKey{"OneLetterWrong", std::string(good_key).replace(30, 1, "Q"), "checksum"},
        BadKey{"CutOff", std::string(good_key).substr(0, 60), "checksum"},
        BadKey{"LowerCase",
               "age-secret-key-1egtzvffv20835nwyv6270lxyvk2vknx2mmdkwyklmgr48uawx40q2p2lm0",
               "in capitals"},
        BadKey{"Plugin", "AGE-PLUGIN-YUBIKEY-1QQQQQQQQ", "plugins are not supported"},
        BadKey{"Text", "my secret password", "no age identity"}),
    [](const auto& row) { return row.param.name; });

class BadRecipient : public testing::TestWithParam<BadKey> {};

TEST_P(BadRecipient, IsNamed) {
  const Error error = error_of([&] { Recipient::parse(GetParam().text); });
  EXPECT_EQ(error.fault(), Fault::Usage);
  EXPECT_THAT(error.render(), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRecipient,
    testing::Values(
        BadKey{"Secret", good_key, "a secret key, not a recipient"},
        BadKey{"Wrong", "age1lzd99uklcjnc0e7d860axevet2cz99ce9pq6tzuzd05l5nr28ams36nvum",
               "checksum"},
        BadKey{"Plugin", "age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t",
               "the age plugin `yubikey`"},
        BadKey{"Ecdsa", "ecdsa-sha2-nistp256 AAAA", "no age recipient"},
        BadKey{"SshOther", "ssh-dss AAAAB3NzaC1kc3MAAACBAP", "`ssh-dss` cannot be used"},
        BadKey{"SshDamaged", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID+Wi8WZ", "damaged"},
        BadKey{"SshNotBase64", "ssh-ed25519 !!!", "damaged"}),
    [](const auto& row) { return row.param.name; });

RC_GTEST_PROP(Age, ReadsWhatItWrites, (const std::string& text, bool armor, std::uint64_t seed)) {
  SeededEntropy entropy(seed);
  const Identity identity = Identity::generate(entropy);
  const std::string file = encrypt(text, {*identity.recipient()}, entropy, armor);
  RC_ASSERT(looks_like_age(file));
  RC_ASSERT(decrypt(file, {identity}).reveal() == text);
}

RC_GTEST_PROP(Age, SizesAroundChunksInAnyPieces, ()) {
  SeededEntropy entropy(*rc::gen::arbitrary<std::uint64_t>());
  const Identity identity = Identity::generate(entropy);
  const auto chunks = *rc::gen::inRange<std::size_t>(0, 4);
  const auto more = *rc::gen::inRange<std::size_t>(0, 3);
  const std::string text = entropy.bytes(chunks * 65536 + more);
  const bool armor = *rc::gen::arbitrary<bool>();
  const auto step = *rc::gen::inRange<std::size_t>(1, 70'000);
  std::string file;
  Encryptor encryptor(
      {*identity.recipient()}, entropy, [&](std::string_view part) { file += part; }, armor);
  for (std::size_t at = 0; at < text.size(); at += step)
    encryptor.write(std::string_view(text).substr(at, step));
  encryptor.finish();
  std::string back;
  Decryptor decryptor({identity}, [&](std::string_view part) { back += part; });
  for (std::size_t at = 0; at < file.size(); at += step)
    decryptor.write(std::string_view(file).substr(at, step));
  decryptor.finish();
  RC_ASSERT(back == text);
}

RC_GTEST_PROP(Age, NoBitCanBeTurned, ()) {
  SeededEntropy entropy(*rc::gen::arbitrary<std::uint64_t>());
  const Identity identity = Identity::generate(entropy);
  std::string file = encrypt("a secret", {*identity.recipient()}, entropy);
  const auto at = *rc::gen::inRange<std::size_t>(0, file.size());
  const auto bit = *rc::gen::inRange(0, 8);
  file[at] = static_cast<char>(file[at] ^ (1 << bit));
  RC_ASSERT_THROWS_AS(decrypt(file, {identity}), AgeError);
}

RC_GTEST_PROP(Age, NoEndCanBeCutOff, ()) {
  SeededEntropy entropy(*rc::gen::arbitrary<std::uint64_t>());
  const Identity identity = Identity::generate(entropy);
  const std::string file =
      encrypt("a secret", {*identity.recipient()}, entropy, *rc::gen::arbitrary<bool>());
  const auto size = *rc::gen::inRange<std::size_t>(0, file.size() - 1);
  RC_ASSERT_THROWS_AS(decrypt(file.substr(0, size), {identity}), AgeError);
}

TEST(Age, EveryRecipientOpensIt) {
  SeededEntropy entropy = seeded();
  std::vector<Identity> identities;
  std::vector<Recipient> recipients;
  for (int i = 0; i < 5; ++i) {
    identities.push_back(Identity::generate(entropy));
    recipients.push_back(*identities.back().recipient());
  }
  const std::string file = encrypt("for five", recipients, entropy);
  for (const Identity& identity : identities)
    EXPECT_EQ(decrypt(file, {identity}).reveal(), "for five");
}

TEST(Age, AStrangerIsToldWhatTheFileWants) {
  SeededEntropy entropy = seeded();
  const std::string file = encrypt("x", {*Identity::generate(entropy).recipient()}, entropy);
  const Error error = error_of([&] { decrypt(file, {Identity::generate(entropy)}); });
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_EQ(error.message(),
            "none of 1 identity opens the file (it is encrypted to 1 recipient of type X25519)");
}

TEST(Age, PassphrasesOpenAndWrongOnesDoNot) {
  SeededEntropy entropy = seeded();
  const std::string file =
      encrypt("x", {Recipient::passphrase(Secret("correct horse"), 10)}, entropy);
  EXPECT_EQ(decrypt(file, {Identity::passphrase(Secret("correct horse"))}).reveal(), "x");
  const auto wrong = [&] { decrypt(file, {Identity::passphrase(Secret("battery staple"))}); };
  EXPECT_EQ(failure_of(wrong), "no match");
  EXPECT_EQ(error_of(wrong).message(), "the passphrase does not open the file");
  EXPECT_EQ(error_of([&] { decrypt(file, {Identity::generate(entropy)}); }).message(),
            "the file is protected by a passphrase, and none was given");
}

TEST(Age, AWorkFactorOverTheLimitIsRefusedBeforeAnyWork) {
  SeededEntropy entropy = seeded();
  const std::string file = encrypt("x", {Recipient::passphrase(Secret("p"), 12)}, entropy);
  const auto strict = [&] { decrypt(file, {Identity::passphrase(Secret("p"), 11)}); };
  EXPECT_EQ(failure_of(strict), "header failure");
  bool asked = false;
  const auto ask = [&](std::string_view) {
    asked = true;
    return Secret("p");
  };
  EXPECT_EQ(failure_of([&] { decrypt(file, {Identity::passphrase(AskPassphrase(ask), 11)}); }),
            "header failure");
  EXPECT_FALSE(asked);
}

TEST(Age, APassphraseStandsAlone) {
  SeededEntropy entropy = seeded();
  const Recipient passphrase = Recipient::passphrase(Secret("p"), 10);
  const Recipient key = *Identity::generate(entropy).recipient();
  EXPECT_THAT(error_of([&] {
                encrypt("x", {passphrase, key}, entropy);
              }).message(),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(error_of([&] {
                encrypt("x", {passphrase, passphrase}, entropy);
              }).message(),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(error_of([&] { encrypt("x", {}, entropy); }).message(),
              HasSubstr("at least one recipient"));
}

// Made for this test: a key of `age-keygen -pq` and "read-only" sealed to it by age 1.3.1.
constexpr const char* hybrid_key =
    "AGE-SECRET-KEY-PQ-1V6UHDV7J8VX2QJVZVGGJLHU3WP49WUPCZ8838KNM57VV7PDVKL4QSN55D6";
constexpr const char* hybrid_file = R"(-----BEGIN AGE ENCRYPTED FILE-----
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IG1sa2VtNzY4eDI1NTE5IEwwYXlBSDhE
M3ZkV3VmSURiUnFBVEZETEJENTJNQmtKY3MycFJXNENHMXMvM3JZUXYxa29yL1ZD
QjlQTG1XU2tCZGRiczFpUzJlbFl1YmU1Tk9lWEo5UUh1blMyUnJpeE5yL2FMK25v
aFNoalBFUmlJWGw0cSt6RUJlWmdwa3d3UXUramR0MlExR0JMaHN4cmR4MUlPckRJ
VUMwejNSQkU5bXNjZFVMZGR4SXVnMitLOSsySllrMjVKMUpsekpnVGJ1VXEyazdG
VVVtRkkwNHVpU01XZ0t2YklEWHJUUEFoUFZMbVh0VW91WUtIMExUYXNDRTNTTkF3
ZUxYdG5mQTZWUjZTR0VZSXE2VjVmYjNFNDQ3YzBWbUNSQjBFc0xxNHZUcitFekZF
cExJYy91Vkd3MWRKZDdyL2xiQlRFYkVXbEhHOWI4eVBaMzVia01lTUd5ajl4RVkz
QUVUMFBVY1QycnJRbStQcFVrMGRQUHk1eEFNUG1vdzRrVkhpZTM5dHV6N1RITGtw
ZXczS1g4eFBwR3h1WHV3SlpaY0pNNElEOWxhQXA0SXJUc2xJNmdVNnMzMU5LejJB
aGlpMDB1YW5qVFFXd0NtaE5jSDRjVDM5L2xKaXgzajFteFpHUFgvYzlCdFA5dzk3
cGcxQ1A0dGE5MXFmYzd5OWw1bm5KdHF3RWFLMHdPU0ZsUlgxcTZWQ2F0dXprQWJv
ZFNiOGlKZ2JlV3N1NHhFbmZwK3dIU25Wa3NRelZLc0VSZHFwOGpwYkJoZlhjNkV0
Qkh5bE5wNXhOR3lhRTE4dXp0WEluR28vczFMNFQyRU5XZFgrMnhQZ3NFUUthYzRF
UTBzZ3JiNUF5eEVuVllaMXpQb3BUem8yWDlCVVJxc29hSGZDY0IxRTFidGE2ZlB4
RzlTMC90ZmxFTTVESTdrQjdOTUR5SEZDcmh6MlBqYjFCZEZVSmFxVHNDbi9YMUpO
UmZTZDlYZm0wMm1YNmlxSTZKQnJXM1RLUVZzUDJBNlo5SWQzVnB0UlFPRzZZRHZD
Ky8vT29kekhyRUp5ZTVqQjRzN1hIN0R5U3JPWENDdTMrcDY4YklqQkZKSTBwb292
SlNsSkpMNUpsbm5WZkliVkx2K3E2dWhHOTlGNE9IUDFzVm1MVG5BWHNvbUN3QWta
U096SldZQTlZNG5wakJqZExUL0lrd1NlQ1o0WmFqYVoya2gvYW01RlprVFc2NnEv
SHRkS1NkamhST0p1TEx3QkdLdmtqbnZOUUxONjRaTmQwa29Gak5iNUNkM1NWZHhN
RUlaenFEMlZhcmZYenk1MFI2QmhHNDdaanpnT1JPbTdMd2lOQUFuS1lQQy9WQktW
eTRkd0lIL2FmYXI0a1llK0taakY3bm9teVdjZW1NZlJ6bjRHQ2Vpa3I4Y2VlWGVl
NmhHSXl3MWFpQXArQkdmUi9ZbnJLWDdiUmFaR1NodmZDZ2R3TVgxYmZTbkw5cDJu
MkdFdzdsNUJTV2tjTjlaNUt2NmFDTU1WNklSVDBtNTkvTzBRVTV4Tmo0ZzVOUzNK
VHFqeG5uWlRXWGdFRWZmYUpjSVcvY2dQTFY4Ni9VNWJVMVEvc1FHTkU2bWVBNUhN
T3FVVWpLSDcyRzFOeXE3Rm9tZkJ1b0IrTmNXN0VkS1ZES2tielpmMVp2cnllcXBy
Q2xjdmFJa2s2anhPSGh4ZURwWTRaTG9ZWEY4cFlvU05RS3k4R0R0ZG9ZbW13Qnhx
S1drUjBCQU5xc0ZqT1ZPd21wYm1TQUdIU1ZLeWdsdE5Fb3ZiYTFNdTd1bEhuYWl1
NFBQalBpaWg1TVF0Q0R4ZGtuWEFHODJvK21Yd1RHUnRoSzZvN0wzTUZQaWNKQ0F1
aU5lZXBnc1IweG5OUjBaaU5pdjFPajNQc0o3VEIwbkJGSjhGZ3lyNnB1LzVGbk1V
c213dHNhNkJhOFh6U1ROcTZWK2UrOG0zNHlNOWs5ME1TK0pCS1J4SmEvYnFaQQpH
d3dhQ0dURlB6aGVSOE90d25DUGYwMWF3WW85b3Q5YkZGTnhzQmhTQkIwCi0tLSBl
bGdCU28wNThLRW5vMDdsOEFBOGxjOGl2L0FlRWd3VnBLV1dtVTZsdmFBCudbOWXh
d13vHI5MP8G3L4qP/irA+7xLX+3HsdAsMJolZZLx8LAVaZNQ
-----END AGE ENCRYPTED FILE-----
)";

TEST(Age, PostQuantumAndOthersAreNotMixed) {
  SeededEntropy entropy = seeded();
  const Recipient hybrid = *Identity::parse(hybrid_key).recipient();
  const Recipient key = *Identity::generate(entropy).recipient();
  EXPECT_THAT(error_of([&] {
                encrypt("x", {key, hybrid}, entropy);
              }).message(),
              HasSubstr("cannot be mixed"));
}

TEST(Age, HybridKeysOpenWhatAgeWroteToThem) {
  const Identity identity = Identity::parse(hybrid_key);
  EXPECT_EQ(identity.text().reveal(), hybrid_key);
  EXPECT_THAT(identity.recipient()->text(), StartsWith("age1pq1"));
  EXPECT_EQ(decrypt(hybrid_file, {identity}).reveal(), "read-only");
  std::string other = hybrid_file;
  other[200] = other[200] == 'A' ? 'B' : 'A';
  EXPECT_THROW(decrypt(other, {identity}), Error);
  SeededEntropy entropy = seeded();
  EXPECT_EQ(failure_of([&] { decrypt(hybrid_file, {Identity::generate(entropy)}); }), "no match");
}

TEST(Age, NothingIsEncryptedToAHybridKey) {
  SeededEntropy entropy = seeded();
  const Recipient recipient = Recipient::parse(Identity::parse(hybrid_key).recipient()->text());
  EXPECT_EQ(error_of([&] { encrypt("x", {recipient}, entropy); }).fault(), Fault::Usage);
}

TEST(Age, AChangedHeaderIsAnHmacFailure) {
  SeededEntropy entropy = seeded();
  const Identity identity = Identity::generate(entropy);
  std::string file = encrypt("x", {*identity.recipient()}, entropy);
  const std::size_t end = file.find("\n---");
  file.insert(end, "\n-> added arg\n");
  EXPECT_EQ(failure_of([&] { decrypt(file, {identity}); }), "HMAC failure");
}

TEST(Age, PlaintextGoesOutOnlyAfterItsChunkWasChecked) {
  SeededEntropy entropy = seeded();
  const Identity identity = Identity::generate(entropy);
  const std::string text = entropy.bytes(2 * 65536 + 10);
  std::string file = encrypt(text, {*identity.recipient()}, entropy);
  file[file.size() - 1000] ^= 1;  // in the second chunk
  std::string released;
  const auto read = [&] {
    Decryptor decryptor({identity}, [&](std::string_view part) { released += part; });
    decryptor.write(file);
    decryptor.finish();
  };
  EXPECT_EQ(failure_of(read), "payload failure");
  EXPECT_TRUE(released == text.substr(0, 65536)) << released.size();
}

TEST(Age, NeverHoldsMoreThanAChunkOrTwo) {
  SeededEntropy entropy = seeded();
  const Identity identity = Identity::generate(entropy);
  const std::string piece = entropy.bytes(10'000);
  for (const bool armor : {false, true}) {
    std::size_t given = 0;
    std::size_t released = 0;
    Decryptor decryptor({identity}, [&](std::string_view part) { released += part.size(); });
    const auto pass_on = [&](std::string_view part) { decryptor.write(part); };
    Encryptor encryptor({*identity.recipient()}, entropy, pass_on, armor);
    for (int i = 0; i < 400; ++i) {
      encryptor.write(piece);
      given += piece.size();
      // Whatever the size: what waits in both together is under three chunks.
      ASSERT_LE(given - released, 3u * 65536u);
    }
    encryptor.finish();
    decryptor.finish();
    EXPECT_EQ(released, given);
  }
}

TEST(Age, AProtectedKeyFileAsksOnceAndOpens) {
  SeededEntropy entropy = seeded();
  const Identity identity = Identity::generate(entropy);
  const std::string file = encrypt(key_file(identity, Instant{}).reveal(),
                                   {Recipient::passphrase(Secret("p"), 10)}, entropy, true);
  std::vector<std::string> asked;
  const auto ask = [&](std::string_view what) {
    asked.emplace_back(what);
    return Secret("p");
  };
  const auto found = parse_identities(file, "keys.age", ask);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found.front().text(), identity.text());
  EXPECT_THAT(asked, testing::ElementsAre("keys.age"));

  const Error nobody = error_of([&] { parse_identities(file, "keys.age"); });
  EXPECT_EQ(nobody.message(),
            "keys.age is protected by a passphrase, and there is no terminal to ask for it");
  const Error wrong = error_of(
      [&] { parse_identities(file, "keys.age", [](std::string_view) { return Secret("q"); }); });
  EXPECT_EQ(wrong.message(), "the passphrase does not open keys.age");
}

TEST(Age, AKeyFileThatOthersMayReadIsWarnedOf) {
  SeededEntropy entropy = seeded();
  MemoryFiles files;
  const Secret text = key_file(Identity::generate(entropy), Instant{});
  files.write("open.txt", text.reveal(), 0644);
  files.write("closed.txt", text.reveal(), 0600);
  Diagnostics problems;
  EXPECT_THAT(load_identities(files, "closed.txt", {}, problems), SizeIs(1));
  EXPECT_TRUE(problems.empty());
  EXPECT_THAT(load_identities(files, "open.txt", {}, problems), SizeIs(1));
  ASSERT_THAT(problems.problems(), SizeIs(1));
  EXPECT_EQ(problems.problems().front().message, "the key file may be read by others (mode 0644)");
  EXPECT_EQ(error_of([&] { load_identities(files, "none.txt", {}, problems); }).fault(),
            Fault::NotFound);
}

constexpr char ssh_key[] = R"(-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACA/lovFmcNm13waXLP1hArbQsz9/TpHp0uqR1h1hhSbzQAAAIgCXDMIAlwz
CAAAAAtzc2gtZWQyNTUxOQAAACA/lovFmcNm13waXLP1hArbQsz9/TpHp0uqR1h1hhSbzQ
AAAEBJdWTJ8dC0OnMcwy4gQ96sp6KG8GE9EiyhFGhKldKiST+Wi8WZw2bXfBpcs/WECttC
zP39OkenS6pHWHWGFJvNAAAABFRlc3QB
-----END OPENSSH PRIVATE KEY-----
)";

TEST(AgeSsh, AnEd25519KeyOpensWhatWasWrittenToIt) {
  SeededEntropy entropy = seeded();
  const auto identities = parse_identities(ssh_key, "id_ed25519");
  ASSERT_THAT(identities, SizeIs(1));
  const Recipient recipient = Recipient::parse(identities.front().recipient()->text() + " me@home");
  EXPECT_EQ(recipient.kind(), KeyKind::SshEd25519);
  const std::string file =
      encrypt("ssh", {recipient, *Identity::generate(entropy).recipient()}, entropy);
  EXPECT_EQ(decrypt(file, identities).reveal(), "ssh");
}

TEST(AgeSsh, AHalfThatDoesNotFitIsRefused) {
  std::string text = ssh_key;
  text.replace(text.find("JdWTJ8dC0"), 1, "K");  // inside the seed
  EXPECT_THAT(error_of([&] { parse_identities(text, "id"); }).message(),
              HasSubstr("do not belong together"));
}

}  // namespace
}  // namespace rocca::secrets::age
