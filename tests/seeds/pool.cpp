// Memory for lives. They are made of millions of small pieces, one thread each, and end with their
// process: a list of free pieces for each size is all they need, and a sixth of their time went to
// a general allocator. Not where a sanitizer watches memory.

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t grain = 16;
constexpr std::size_t largest = 1024;                // bigger pieces come from malloc
constexpr std::size_t page = std::size_t{64} << 10;  // of pieces of one size
constexpr std::size_t room = std::size_t{16} << 30;  // of addresses, not of memory
constexpr std::size_t sizes = largest / grain + 1;

struct Free {
  Free* next;
};

/// The start of a page says how large its pieces are.
struct alignas(grain) PageHead {
  std::size_t size;
};

struct Pool {
  std::array<Free*, sizes> free{};
  std::array<char*, sizes> at{};  // what was never used of the page at hand
  std::array<char*, sizes> end{};
};

thread_local constinit Pool pool;
constinit std::atomic<std::uintptr_t> begin = 0;
constinit std::atomic<std::size_t> taken = 0;

std::uintptr_t whole() {
  const std::uintptr_t known = begin.load(std::memory_order_relaxed);
  if (known != 0) return known;
  void* memory = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) & ~(page - 1);
  std::uintptr_t none = 0;
  if (begin.compare_exchange_strong(none, first)) return first;
  munmap(memory, room);
  return none;
}

bool is_ours(const void* piece) {
  const std::uintptr_t first = begin.load(std::memory_order_relaxed);
  return first != 0 && reinterpret_cast<std::uintptr_t>(piece) - first < room - page;
}

void* from_malloc(std::size_t size) {
  void* piece = std::malloc(size);
  if (piece == nullptr) throw std::bad_alloc{};
  return piece;
}

void* from_new_page(std::size_t which) {
  const std::uintptr_t first = whole();
  const std::size_t offset = taken.fetch_add(page);
  if (first == 0 || offset + 2 * page > room) return from_malloc(which * grain);
  char* start = reinterpret_cast<char*>(first + offset);
  new (start) PageHead{which};
  char* piece = start + sizeof(PageHead);
  pool.at[which] = piece + which * grain;
  pool.end[which] = start + page;
  return piece;
}

void* take(std::size_t size) {
  if (size > largest) return from_malloc(size);
  const std::size_t which = size == 0 ? 1 : (size + grain - 1) / grain;
  if (Free* piece = pool.free[which]) {
    pool.free[which] = piece->next;
    return piece;
  }
  char* piece = pool.at[which];
  if (static_cast<std::size_t>(pool.end[which] - piece) < which * grain)
    return from_new_page(which);
  pool.at[which] = piece + which * grain;
  return piece;
}

void give(void* piece) noexcept {
  if (!is_ours(piece)) return std::free(piece);
  const auto start = reinterpret_cast<std::uintptr_t>(piece) & ~(page - 1);
  const std::size_t which = reinterpret_cast<const PageHead*>(start)->size;
  pool.free[which] = new (piece) Free{pool.free[which]};
}

}  // namespace

void* operator new(std::size_t size) {
  return take(size);
}
void* operator new[](std::size_t size) {
  return take(size);
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
