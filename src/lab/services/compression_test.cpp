#include "lab/services/compression.hpp"

#include <gmock/gmock.h>
#include <zstd.h>

namespace rocca::lab {
namespace {

std::string text_of_many_lines() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

struct Kind {
  const char* name;
  std::string (*pack)(const std::string&);
};

class Unpacking : public testing::TestWithParam<Kind> {
 protected:
  const std::string text = text_of_many_lines();
  const std::string packed = GetParam().pack(text);
  std::unique_ptr<Decompressor> unpack = Decompressor::make(GetParam().name);
  std::string out;

  bool feed(std::string_view bytes) {
    return unpack->feed(bytes, [this](std::string_view piece) { out += piece; });
  }
};

TEST_P(Unpacking, GivesBackWhatWasPackedWhateverThePieces) {
  for (std::size_t i = 0; i < packed.size(); i += 1000)
    ASSERT_TRUE(feed(std::string_view(packed).substr(i, 1000)));
  EXPECT_TRUE(unpack->complete());
  EXPECT_EQ(out, text);
}

TEST_P(Unpacking, SeesThatTheEndIsMissing) {
  ASSERT_TRUE(feed(std::string_view(packed).substr(0, packed.size() / 2)));
  EXPECT_FALSE(unpack->complete());
}

TEST_P(Unpacking, RefusesWhatIsNoSuchFile) {
  EXPECT_FALSE(feed("QFI\xfb, which is no compressed file at all"));
}

TEST_P(Unpacking, TakesSeveralFilesInARowAsOne) {
  ASSERT_TRUE(feed(packed + packed));
  EXPECT_TRUE(unpack->complete());
  EXPECT_EQ(out, text + text);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Unpacking,
    testing::Values(Kind{"gz", [](const std::string& text) { return gzip(text, "a.log", 1); }},
                    Kind{"zst", zstd}),
    [](const auto& row) { return row.param.name; });

TEST(Gzip, NamesItsFile) {
  const std::string packed = gzip("x", "UPID:pve1:", 0x01020304);
  EXPECT_EQ(packed.substr(0, 10), std::string("\x1f\x8b\x08\x08\x04\x03\x02\x01\x00\x03", 10));
  EXPECT_EQ(packed.substr(10, 11), std::string("UPID:pve1:\0", 11));
}

TEST(Decompressor, IsNotMadeForWhatTheLabCannotUnpack) {
  EXPECT_EQ(Decompressor::make("xz"), nullptr);
}

}  // namespace
}  // namespace rocca::lab
