#include "secrets/pem_cleanup.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/pem.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace rocca::secrets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string sample() {
  std::string der;
  for (int i = 0; i < 150; ++i) der += static_cast<char>(i * 7);
  return std::string(to_pem("CERTIFICATE", der).reveal());
}

template <class Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

struct Mess {
  std::string name;
  std::string text;
  std::vector<std::string> mended;
};

class DirtyPem : public testing::TestWithParam<Mess> {};

TEST_P(DirtyPem, IsCleanedAndSaid) {
  const Cleaned cleaned = clean_pem(GetParam().text, "TLS_CERT");
  EXPECT_EQ(cleaned.text.reveal(), sample());
  EXPECT_EQ(cleaned.mended, GetParam().mended);
}

INSTANTIATE_TEST_SUITE_P(
    All, DirtyPem,
    testing::Values(
        Mess{"Right", sample(), {}},
        Mess{"LiteralNewlines", replace_all(sample(), "\n", "\\n"), {"literal \\n"}},
        Mess{"Quoted",
             "\"" + replace_all(sample(), "\n", "\\n") + "\"",
             {"quotes around it", "literal \\n"}},
        Mess{"Crlf", replace_all(sample(), "\n", "\r\n"), {"CRLF line ends"}},
        Mess{"FoldedIntoBlanks", replace_all(sample(), "\n", " "), {"line breaks and blanks"}},
        Mess{"Indented", replace_all(sample(), "\n", "\n    "), {"line breaks and blanks"}},
        Mess{"NoLastNewline", std::string(trim(sample())), {"line breaks and blanks"}},
        Mess{"Base64", to_base64(sample()), {"base64 around it"}},
        Mess{"Base64Twice",
             to_base64(to_base64(sample())),
             {"base64 around it", "base64 around base64"}},
        Mess{"Base64Wrapped",
             to_base64(sample()).insert(76, "\n").insert(20, " "),
             {"base64 around it"}},
        Mess{"Base64OfCrlf",
             to_base64(replace_all(sample(), "\n", "\r\n")),
             {"base64 around it", "CRLF line ends"}}),
    [](const auto& row) { return row.param.name; });

struct Beyond {
  std::string name;
  std::string text;
  std::string says;
};

class HopelessPem : public testing::TestWithParam<Beyond> {};

TEST_P(HopelessPem, IsRefusedWithTheReason) {
  EXPECT_EQ(message_of([&] { clean_pem(GetParam().text, "TLS_CERT"); }),
            "TLS_CERT: " + GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    All, HopelessPem,
    testing::Values(
        Beyond{"Empty", " \n", "it is empty"},
        Beyond{"Words", "no key at all!", "it is neither PEM (`-----BEGIN …`) nor base64 of it"},
        Beyond{"OtherBase64", to_base64("hello world, this is text!"),
               "it is base64, but of something that is no PEM"},
        Beyond{"CutOff", sample().substr(0, 120),
               "the block `CERTIFICATE` (line 1) has no -----END line: it was cut off"},
        Beyond{"WrongEnd", replace_all(sample(), "END CERTIFICATE", "END PRIVATE KEY"),
               "the block begins as `CERTIFICATE` (line 1) and ends as something else"},
        Beyond{"OddCharacter", sample().replace(100, 1, "*"),
               "line 3 of the block `CERTIFICATE` holds `*`, which is no base64"},
        Beyond{"OneCharacterLost", sample().erase(100, 1).erase(100, 1).erase(100, 1),
               "the block `CERTIFICATE` (line 1) is not complete base64: characters are missing"},
        Beyond{"TextBefore", "subject=CN=x\n" + sample(),
               "line 1 is text outside of the PEM blocks"},
        Beyond{"TextAfter", sample() + "oops\n", "line 7 is text outside of the PEM blocks"}),
    [](const auto& row) { return row.param.name; });

TEST(CleanPem, ChainsStayChains) {
  const Cleaned cleaned = clean_pem(replace_all(sample() + sample(), "\n", "\\n"), "CA");
  EXPECT_EQ(cleaned.text.reveal(), sample() + sample());
}

RC_GTEST_PROP(CleanPem, EveryKeySurvivesEveryMess, (const std::string& der)) {
  RC_PRE(!der.empty());
  const std::string right(to_pem("EC PRIVATE KEY", der).reveal());
  std::string text = right;
  if (*rc::gen::arbitrary<bool>()) text = replace_all(text, "\n", "\r\n");
  if (*rc::gen::arbitrary<bool>()) text = replace_all(replace_all(text, "\r", "\\r"), "\n", "\\n");
  for (int layers = *rc::gen::inRange(0, 3); layers > 0; --layers) text = to_base64(text);
  RC_ASSERT(clean_pem(text, "key").text.reveal() == right);
}

TEST(CleanBase64, IsMadeCanonical) {
  const std::string bytes = "\xfb\xff-secret-of-32-bytes-..........";
  ASSERT_EQ(bytes.size(), 32u);
  const std::string right = to_base64(bytes);
  EXPECT_THAT(clean_base64(right, "cluster.secret", 32).mended, IsEmpty());
  const std::string url = replace_all(replace_all(right, "+", "-"), "/", "_");
  for (const std::string& text :
       {" " + right + "\n", right.substr(0, right.size() - 1), url, to_base64(right),
        to_base64(right + "\n"), right.substr(0, 10) + "\\n" + right.substr(10)}) {
    SCOPED_TRACE(text);
    const Cleaned cleaned = clean_base64(text, "cluster.secret", 32);
    EXPECT_EQ(cleaned.text.reveal(), right);
    EXPECT_THAT(cleaned.mended, Not(IsEmpty()));
  }
  EXPECT_EQ(message_of([&] { clean_base64("abc!", "cluster.secret", 32); }),
            "cluster.secret: it is not base64");
  EXPECT_EQ(message_of([&] { clean_base64(to_base64("short"), "cluster.secret", 32); }),
            "cluster.secret: it holds 5 bytes where 32 are needed");
}

TEST(CleanLine, TakesAwayWhatStoresAndEditorsAdd) {
  for (const char* text : {"token", "token\n", " token ", "\r\ntoken\r\n", "\ttoken"})
    EXPECT_EQ(clean_line(text, "proxmox.token").text.reveal(), "token");
  EXPECT_TRUE(clean_line("a b", "x").mended.empty());
  EXPECT_EQ(clean_line("a\n", "x").mended.size(), 1u);
}

TEST(CleanLine, RefusesWhatIsNoLineAndShowsNothingOfIt) {
  for (const char* text : {"", " \n", "canary\nsecond", "canary\r\nsecond", "cana\x01ry"}) {
    try {
      clean_line(text, "proxmox.token");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      EXPECT_THAT(error.message(), testing::StartsWith("proxmox.token: "));
      EXPECT_THAT(error.render(), testing::Not(testing::HasSubstr("cana")));
    }
  }
}

}  // namespace
}  // namespace rocca::secrets
