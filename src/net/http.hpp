#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::net {

struct Header {
  std::string name;
  std::string value;

  friend bool operator==(const Header&, const Header&) = default;
};

/// Header fields in the order they came; names are compared without case and may repeat.
class Headers {
 public:
  using value_type = Header;
  using const_iterator = std::vector<Header>::const_iterator;

  Headers() = default;
  Headers(std::initializer_list<Header> fields) : fields_(fields) {}

  void add(std::string name, std::string value) {
    fields_.push_back({std::move(name), std::move(value)});
  }
  void set(std::string_view name, std::string value);  // replaces all of that name
  std::optional<std::string_view> find(std::string_view name) const noexcept;  // the first
  std::vector<std::string_view> all(std::string_view name) const;
  bool empty() const noexcept { return fields_.empty(); }
  std::size_t size() const noexcept { return fields_.size(); }
  auto begin() const noexcept { return fields_.begin(); }
  auto end() const noexcept { return fields_.end(); }

 private:
  std::vector<Header> fields_;
};

enum class HttpVersion { Any, Http1, Http2 };

/// The parts of an absolute http(s) URL. Only what we send: no user info, no fragment.
struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // without brackets
  unsigned port = 0;   // the scheme's own if none was written
  std::string target;  // path and query, at least "/"

  static std::optional<Url> parse(std::string_view text);
  std::string origin() const;  // https://host:port, IPv6 in brackets
};

std::string to_string(const Url& url);

}  // namespace rocca::net
