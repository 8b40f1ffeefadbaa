#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace rocca::seeds {
namespace {

/// Takes, changes and gives back pieces of all sizes, and looks whether each still holds what was
/// put there.
class Pieces {
 public:
  bool work(unsigned steps) {
    for (unsigned i = 0; i < steps && good_; ++i) {
      const std::size_t size = 1 + word() % (word() % 8 == 0 ? 40000 : 2000);
      if (all_.size() < 500 || word() % 2 == 0) {
        take(size);
        continue;
      }
      Piece& piece = all_[word() % all_.size()];
      look(piece, piece.size);
      if (word() % 3 == 0) {
        piece.at = static_cast<unsigned char*>(std::realloc(piece.at, size));
        look(piece, std::min(piece.size, size));
        fill(piece, size);
      } else {
        std::free(piece.at);
        piece = all_.back();
        all_.pop_back();
      }
    }
    for (const Piece& piece : all_) look(piece, piece.size);
    return good_;
  }

 private:
  struct Piece {
    unsigned char* at;
    std::size_t size;
    unsigned char mark;
  };

  std::uint32_t word() { return (chance_ = chance_ * 1664525 + 1013904223) >> 8; }

  void take(std::size_t size) {
    const bool clean = word() % 2 == 0;
    Piece piece{static_cast<unsigned char*>(clean ? std::calloc(size, 1) : std::malloc(size)), size,
                0};
    good_ = good_ && reinterpret_cast<std::uintptr_t>(piece.at) % 16 == 0;
    if (clean) look(piece, size);
    fill(piece, size);
    all_.push_back(piece);
  }
  void fill(Piece& piece, std::size_t size) {
    piece.size = size;
    piece.mark = static_cast<unsigned char>(word());
    std::memset(piece.at, piece.mark, size);
  }
  void look(const Piece& piece, std::size_t size) {
    good_ = good_ && std::all_of(piece.at, piece.at + size,
                                 [&](unsigned char byte) { return byte == piece.mark; });
  }

  std::vector<Piece> all_;
  std::uint32_t chance_ = 1;
  bool good_ = true;
};

TEST(Pool, PiecesKeepWhatIsInThemAlsoInAChild) {
  Pieces pieces;
  ASSERT_TRUE(pieces.work(20000));
  const pid_t child = fork();
  if (child == 0) _exit(pieces.work(20000) ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(pieces.work(20000)) << "after the child";
}

TEST(Pool, WhatMustBeAlignedOrIsTooLargeComesFromElsewhere) {
  void* aligned = std::aligned_alloc(4096, 8192);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 4096, 0u);
  std::free(aligned);
  auto* large = static_cast<char*>(std::malloc(100000));
  std::memset(large, 7, 100000);
  large = static_cast<char*>(std::realloc(large, 50));
  EXPECT_EQ(large[49], 7);
  std::free(large);
}

}  // namespace
}  // namespace rocca::seeds
