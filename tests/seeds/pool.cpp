// Memory for lives. They are made of millions of small pieces, one thread each, and end with their
// process: a list of free pieces for each size is all they need, and a sixth of their time went to
// a general allocator. Libraries that ask for memory by themselves (OpenSSL, libyaml) get theirs
// here too. Not where a sanitizer watches memory.
//
// A life that goes on in a process of its own leaves alone what it inherited and gives back: the
// kernel would copy a whole page for the few bytes that put one piece of it into a list.

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

// glibc's own, for bigger pieces and for those that must be aligned.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_realloc(void* piece, std::size_t size);
void __libc_free(void* piece);
}

namespace {

constexpr std::size_t grain = 16;
constexpr std::size_t fine = 1024;                      // up to it there is a list for every grain,
constexpr std::size_t largest = std::size_t{16} << 10;  // and above four for each power of two
constexpr std::size_t unit = std::size_t{4} << 10;      // of memory with pieces of one size
constexpr std::size_t ahead = std::size_t{64} << 10;    // the kernel is asked for so much at once
constexpr std::size_t room = std::size_t{16} << 30;     // of addresses, not of memory
constexpr std::size_t sizes =
    fine / grain + 1 + 4 * (std::bit_width(largest) - std::bit_width(fine));

struct Free {
  Free* next;
};

struct Pool {
  std::array<Free*, sizes> free{};
  std::array<char*, sizes> at{};  // what was never used of the memory at hand
  std::array<char*, sizes> end{};
};

thread_local constinit Pool pool;
constinit std::atomic<std::uintptr_t> begin = 0;
constinit std::atomic<std::size_t> taken = 0;
constinit std::atomic<std::size_t> there = 0;  // what the kernel has given of it
constinit std::uint8_t* kinds = nullptr;       // of the pieces in each unit
constinit std::uintptr_t own = 0;              // what lies before it was inherited

struct Kind {
  std::size_t which;
  std::size_t size;
};

constexpr Kind kind_of(std::size_t size) {
  if (size <= fine) {
    const std::size_t which = size == 0 ? 1 : (size + grain - 1) / grain;
    return {which, which * grain};
  }
  const auto width = static_cast<std::size_t>(std::bit_width(size - 1));
  const std::size_t quarter = (size - 1) >> (width - 3) & 3;
  return {fine / grain + 1 + 4 * (width - std::bit_width(fine)) + quarter, (5 + quarter)
                                                                               << (width - 3)};
}

constexpr std::array<std::size_t, sizes> size_of_kind = [] {
  std::array<std::size_t, sizes> all{};
  for (std::size_t size = 1; size <= largest; size += grain) {
    const Kind kind = kind_of(size);
    all[kind.which] = kind.size;
  }
  return all;
}();

void go_on_in_child() {
  pool = {};
  // What the kernel has given ahead would be copied.
  taken = there.load(std::memory_order_relaxed);
  own = begin.load(std::memory_order_relaxed) + taken.load(std::memory_order_relaxed);
}

void* map(std::size_t size) {
  return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
              -1, 0);
}

std::uintptr_t whole() {
  const std::uintptr_t known = begin.load(std::memory_order_acquire);
  if (known != 0) return known;
  // The first piece is asked for long before there is a second thread.
  void* memory = map(room);
  void* table = map(room / unit);
  if (memory == MAP_FAILED || table == MAP_FAILED) return 0;
  kinds = static_cast<std::uint8_t*>(table);
  begin.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_release);
  pthread_atfork(nullptr, nullptr, go_on_in_child);
  return begin;
}

bool is_ours(const void* piece) {
  const std::uintptr_t first = begin.load(std::memory_order_relaxed);
  return first != 0 && reinterpret_cast<std::uintptr_t>(piece) - first < room;
}

std::size_t which_of(const void* piece) {
  return kinds[(reinterpret_cast<std::uintptr_t>(piece) - begin.load(std::memory_order_relaxed)) /
               unit];
}

/// Memory for some pieces of a size: little, because most sizes are few, and what nobody uses of it
/// is touched by nobody. The kernel gives much at once: one call instead of a fault for each unit.
void* from_new_units(Kind kind) {
  const std::uintptr_t first = whole();
  const std::size_t size = std::clamp(std::bit_ceil(kind.size * 16), unit, ahead);
  const std::size_t offset = taken.fetch_add(size);
  if (first == 0 || offset + size > room) return __libc_malloc(kind.size);
  std::size_t given = there.load(std::memory_order_relaxed);
  while (given < offset + size)
    if (there.compare_exchange_weak(given, given + ahead))
      madvise(reinterpret_cast<void*>(first + given), ahead, MADV_POPULATE_WRITE);
  std::memset(kinds + offset / unit, static_cast<int>(kind.which), size / unit);
  char* piece = reinterpret_cast<char*>(first + offset);
  pool.at[kind.which] = piece + kind.size;
  pool.end[kind.which] = piece + size;
  return piece;
}

/// Nothing, if there is none.
void* take(std::size_t size) noexcept {
  if (size > largest) return __libc_malloc(size);
  const Kind kind = kind_of(size);
  if (Free* piece = pool.free[kind.which]) {
    pool.free[kind.which] = piece->next;
    return piece;
  }
  char* piece = pool.at[kind.which];
  if (static_cast<std::size_t>(pool.end[kind.which] - piece) < kind.size)
    return from_new_units(kind);
  pool.at[kind.which] = piece + kind.size;
  return piece;
}

void* take_or_throw(std::size_t size) {
  void* piece = take(size);
  if (piece == nullptr) throw std::bad_alloc{};
  return piece;
}

void give(void* piece) noexcept {
  if (!is_ours(piece)) return __libc_free(piece);
  if (reinterpret_cast<std::uintptr_t>(piece) < own) return;
  const std::size_t which = which_of(piece);
  pool.free[which] = new (piece) Free{pool.free[which]};
}

}  // namespace

void* operator new(std::size_t size) {
  return take_or_throw(size);
}
void* operator new[](std::size_t size) {
  return take_or_throw(size);
}
void operator delete(void* piece) noexcept {
  give(piece);
}
void operator delete[](void* piece) noexcept {
  give(piece);
}
void operator delete(void* piece, std::size_t) noexcept {
  give(piece);
}
void operator delete[](void* piece, std::size_t) noexcept {
  give(piece);
}

extern "C" {

void* malloc(std::size_t size) {
  return take(size);
}
void free(void* piece) {
  give(piece);
}
void* calloc(std::size_t count, std::size_t size) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, size, &all)) return nullptr;
  void* piece = take(all);
  return piece == nullptr ? nullptr : std::memset(piece, 0, all);
}
void* realloc(void* piece, std::size_t size) {
  if (piece == nullptr) return take(size);
  if (!is_ours(piece)) return __libc_realloc(piece, size);
  const std::size_t had = size_of_kind[which_of(piece)];
  if (size <= had && size > 0) return piece;
  void* larger = take(size);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, piece, size < had ? size : had);
  give(piece);
  return larger;
}

}  // extern "C"
