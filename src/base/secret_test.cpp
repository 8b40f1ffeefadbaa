#include "base/secret.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <type_traits>
#include <vector>

namespace {

/// What blocks of one chosen size held at the moment they were freed. A test chooses a size that
/// nothing else uses.
struct Freed {
  std::size_t size = 0;  // 0: nobody looks
  std::vector<std::string>* contents = nullptr;
};
Freed watched;

}  // namespace

// Every block carries its size in front, so that the plain delete knows it too. Not inlined: an
// optimiser that sees malloc in one and not in the other takes them for a mismatched pair.
[[gnu::noinline]] void* operator new[](std::size_t size) {
  constexpr std::size_t front = alignof(std::max_align_t);
  void* block = std::malloc(size + front);
  if (block == nullptr) throw std::bad_alloc{};
  std::memcpy(block, &size, sizeof size);
  return static_cast<char*>(block) + front;
}

[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  if (memory == nullptr) return;
  constexpr std::size_t front = alignof(std::max_align_t);
  char* block = static_cast<char*>(memory) - front;
  std::size_t size = 0;
  std::memcpy(&size, block, sizeof size);
  if (watched.size != 0 && size == watched.size) {
    watched.size = 0;  // the vector below may free blocks itself
    watched.contents->emplace_back(static_cast<const char*>(memory), size);
    watched.size = size;
  }
  std::free(block);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  operator delete[](memory);
}

namespace rocca {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::size_t odd_size = 7919;

/// Watches blocks of odd_size while it lives.
class Watch {
 public:
  Watch() {
    contents.reserve(16);
    watched = {odd_size, &contents};
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { watched = {}; }
  std::vector<std::string> contents;
};

const std::string text(odd_size, 'S');
const std::string wiped(odd_size, '\0');

TEST(Secret, TheWatchSeesMemoryThatIsNotWiped) {
  Watch watch;
  auto plain = std::make_unique<char[]>(odd_size);
  std::memcpy(plain.get(), text.data(), odd_size);
  plain.reset();
  EXPECT_THAT(watch.contents, ElementsAre(text));
}

TEST(Secret, IsWipedWhenItDies) {
  Watch watch;
  { const Secret secret{text}; }
  EXPECT_THAT(watch.contents, ElementsAre(wiped));
}

TEST(Secret, IsWipedWhenItIsReplaced) {
  Watch watch;
  Secret secret{text};
  secret = Secret{"other"};
  EXPECT_THAT(watch.contents, ElementsAre(wiped));
  Secret copied{text};
  copied = secret;
  EXPECT_THAT(watch.contents, AllOf(SizeIs(2), Each(wiped)));
}

TEST(Secret, ACopyIsWipedForItself) {
  Watch watch;
  {
    const Secret secret{text};
    const Secret copy = secret;  // NOLINT(performance-unnecessary-copy-initialization)
    EXPECT_EQ(copy.reveal(), text);
  }
  EXPECT_THAT(watch.contents, AllOf(SizeIs(2), Each(wiped)));
}

TEST(Secret, AMoveLeavesNothingBehind) {
  Watch watch;
  Secret secret{text};
  const Secret moved = std::move(secret);
  EXPECT_TRUE(secret.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.reveal(), text);
  EXPECT_THAT(watch.contents, IsEmpty());
}

TEST(Secret, TakingWipesTheSourceWithItsWholeRoom) {
  std::string source(100, 'S');
  source.resize(60);
  const char* memory =
      source.data();  // the string keeps it, so what lies there can still be looked at
  const Secret secret = Secret::take(std::move(source));
  EXPECT_EQ(secret.reveal(), std::string(60, 'S'));
  EXPECT_EQ(source.data(), memory);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(source.empty());
  EXPECT_EQ(std::string(memory, 100), std::string(100, '\0'));
}

TEST(Secret, PrintsAsStars) {
  const Secret secret{"hunter2"};
  EXPECT_EQ(fmt::format("{} and {}", secret, Secret{}), "*** and ***");
  std::ostringstream out;
  out << secret;
  EXPECT_EQ(out.str(), "***");
  EXPECT_EQ(testing::PrintToString(secret), "***");  // and a failing test shows no more
}

TEST(Secret, BecomesNoTextByItself) {
  static_assert(!std::is_convertible_v<Secret, std::string>);
  static_assert(!std::is_convertible_v<Secret, std::string_view>);
  static_assert(!std::is_constructible_v<std::string, Secret>);
  static_assert(!std::is_convertible_v<std::string, Secret>);
  static_assert(!std::is_convertible_v<const char*, Secret>);
}

TEST(Secret, ComparesContentAndSize) {
  EXPECT_EQ(Secret{"abc"}, Secret{"abc"});
  EXPECT_NE(Secret{"abc"}, Secret{"abd"});
  EXPECT_NE(Secret{"abc"}, Secret{"xbc"});
  EXPECT_NE(Secret{"abc"}, Secret{"ab"});
  EXPECT_EQ(Secret{}, Secret{""});
  EXPECT_TRUE(equal_in_constant_time(std::string_view{"a\0b", 3}, std::string_view{"a\0b", 3}));
  EXPECT_FALSE(equal_in_constant_time(std::string_view{"a\0b", 3}, std::string_view{"a\0c", 3}));
  EXPECT_FALSE(equal_in_constant_time("\x01", "\x81"));  // differences do not cancel out
  EXPECT_FALSE(equal_in_constant_time("\x01\x01", std::string_view{"\0\0", 2}));
}

}  // namespace
}  // namespace rocca
