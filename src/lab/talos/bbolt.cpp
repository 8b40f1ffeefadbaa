#include "lab/talos/bbolt.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <vector>

namespace rocca::lab::talos {

namespace {

// Layout after go.etcd.io/bbolt: little-endian structs at the start of 4 KiB pages.
constexpr std::size_t page_size = 4096;
constexpr std::size_t page_header = 16;
constexpr std::size_t element_size = 16;
constexpr std::uint32_t magic = 0xED0CDAED;
constexpr std::uint16_t branch_page = 0x01, leaf_page = 0x02, meta_page = 0x04,
                        freelist_page = 0x10;
constexpr std::uint32_t bucket_element = 0x01;

template <class Number>
void put(std::string& out, std::size_t at, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    out[at + i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

template <class Number>
Number get(std::string_view in, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(in[at + i])) << (8 * i);
  return static_cast<Number>(value);
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ull;
  }
  return hash;
}

struct Element {
  std::uint32_t flags = 0;
  std::string key, value;
};

std::string leaf(std::uint64_t id, const std::vector<Element>& elements) {
  std::size_t size = page_header + elements.size() * element_size;
  std::size_t data = size;
  for (const Element& each : elements) size += each.key.size() + each.value.size();
  std::string page((size + page_size - 1) / page_size * page_size, '\0');
  put<std::uint64_t>(page, 0, id);
  put<std::uint16_t>(page, 8, leaf_page);
  put<std::uint16_t>(page, 10, static_cast<std::uint16_t>(elements.size()));
  put<std::uint32_t>(page, 12, static_cast<std::uint32_t>(page.size() / page_size - 1));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::size_t at = page_header + i * element_size;
    put<std::uint32_t>(page, at, elements[i].flags);
    put<std::uint32_t>(page, at + 4, static_cast<std::uint32_t>(data - at));
    put<std::uint32_t>(page, at + 8, static_cast<std::uint32_t>(elements[i].key.size()));
    put<std::uint32_t>(page, at + 12, static_cast<std::uint32_t>(elements[i].value.size()));
    page.replace(data, elements[i].key.size(), elements[i].key);
    data += elements[i].key.size();
    page.replace(data, elements[i].value.size(), elements[i].value);
    data += elements[i].value.size();
  }
  return page;
}

std::string meta(std::uint64_t id, std::uint64_t root, std::uint64_t pages) {
  std::string page(page_size, '\0');
  put<std::uint64_t>(page, 0, id);
  put<std::uint16_t>(page, 8, meta_page);
  const std::size_t at = page_header;
  put<std::uint32_t>(page, at, magic);
  put<std::uint32_t>(page, at + 4, 2);
  put<std::uint32_t>(page, at + 8, page_size);
  put<std::uint64_t>(page, at + 16, root);
  put<std::uint64_t>(page, at + 32, 2);      // the free list
  put<std::uint64_t>(page, at + 40, pages);  // high-water mark
  put<std::uint64_t>(page, at + 48, id);     // transaction
  put<std::uint64_t>(page, at + 56, fnv1a(std::string_view(page).substr(at, 56)));
  return page;
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  std::optional<Buckets> read() {
    std::optional<std::uint64_t> root;
    std::uint64_t newest = 0;
    for (std::size_t page = 0; page < 2; ++page) {
      const std::size_t at = page * page_size + page_header;
      if (file_.size() < (page + 1) * page_size || get<std::uint32_t>(file_, at) != magic ||
          get<std::uint64_t>(file_, at + 56) != fnv1a(file_.substr(at, 56)))
        continue;
      const auto transaction = get<std::uint64_t>(file_, at + 48);
      if (root && transaction <= newest) continue;
      newest = transaction;
      root = get<std::uint64_t>(file_, at + 16);
    }
    if (!root) return std::nullopt;
    std::vector<Element> top;
    if (!walk(*root * page_size, top, 0)) return std::nullopt;
    Buckets buckets;
    for (const Element& each : top) {
      if ((each.flags & bucket_element) == 0 || each.value.size() < 16) continue;
      std::vector<Element> inner;
      const auto page = get<std::uint64_t>(each.value, 0);
      if (page != 0) {
        if (!walk(page * page_size, inner, 0)) return std::nullopt;
      } else {
        Reader inline_page(std::string_view(each.value).substr(16));
        if (!inline_page.walk(0, inner, 0)) return std::nullopt;
      }
      auto& bucket = buckets[each.key];
      for (Element& pair : inner) bucket[pair.key] = std::move(pair.value);
    }
    return buckets;
  }

 private:
  bool walk(std::uint64_t at, std::vector<Element>& out, unsigned depth) {
    if (depth > 32 || at + page_header > file_.size()) return false;
    const auto flags = get<std::uint16_t>(file_, at + 8);
    const auto count = get<std::uint16_t>(file_, at + 10);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t element = at + page_header + i * element_size;
      if (element + element_size > file_.size()) return false;
      if (flags == branch_page) {
        if (!walk(get<std::uint64_t>(file_, element + 8) * page_size, out, depth + 1)) return false;
        continue;
      }
      const std::size_t key = element + get<std::uint32_t>(file_, element + 4);
      const std::size_t key_size = get<std::uint32_t>(file_, element + 8);
      const std::size_t value_size = get<std::uint32_t>(file_, element + 12);
      if (key + key_size + value_size > file_.size()) return false;
      out.push_back({get<std::uint32_t>(file_, element), std::string(file_.substr(key, key_size)),
                     std::string(file_.substr(key + key_size, value_size))});
    }
    return flags == branch_page || flags == leaf_page;
  }

  std::string_view file_;
};

}  // namespace

std::string write_bbolt(const Buckets& buckets) {
  std::string pages;
  std::uint64_t next = 4;
  std::vector<Element> top;
  for (const auto& [name, pairs] : buckets) {
    std::vector<Element> elements;
    for (const auto& [key, value] : pairs) elements.push_back({0, key, value});
    const std::string page = leaf(next, elements);
    std::string header(16, '\0');
    put<std::uint64_t>(header, 0, next);
    top.push_back({bucket_element, name, std::move(header)});
    next += page.size() / page_size;
    pages += page;
  }
  std::string freelist(page_size, '\0');
  put<std::uint64_t>(freelist, 0, 2);
  put<std::uint16_t>(freelist, 8, freelist_page);
  const std::string root = leaf(3, top);
  return meta(0, 3, next) + meta(1, 3, next) + freelist + root + pages;
}

std::optional<Buckets> read_bbolt(std::string_view file) {
  return Reader(file).read();
}

std::string with_digest(std::string file) {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  EVP_Digest(file.data(), file.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return file.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace rocca::lab::talos
