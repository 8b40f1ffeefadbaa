#pragma once

// A far side whose every text is an attack on the terminal that shows it, and the scan that finds
// what got through.

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "net/transport.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::scenarios {

/// Sets the title, clears the screen, forges lines, colours by C1, reverses the reading order.
inline const std::string hostile_text =
    "\x1b]0;PWNED\a\x1b[2J\x1b[1;1H\r\nFORGED: Nothing to do\nFORGED\u0085FORGED\u2028FORGED "
    "\u009b31m\u202eevil\u202c \u2066x\u2069\u200f\b\x7f\ttab";

/// The first place of an output that a terminal must not get; empty: none. Our own colours and, on
/// a terminal, the live table's cursor moves are taken out first.
inline std::string find_attack(const std::string& output, bool terminal = false) {
  static const std::regex colours{"\x1b\\[(0|1|2|31|32|33|36)m"};
  static const std::regex clearing{"(\x1b\\[[0-9]+A)?\r\x1b\\[J"};
  std::string clean = std::regex_replace(output, colours, "");
  if (terminal) clean = std::regex_replace(clean, clearing, "");
  std::size_t number = 0;
  for (const std::string& line : split(clean, '\n')) {
    ++number;
    const auto told = [&](const char* what) {
      return fmt::format("line {}: {}: {}", number, what, visible(line));
    };
    // Text of several lines is indented; nothing that stands further left is foreign.
    if (line.substr(0, 4).find('F') != std::string::npos && trim(line).starts_with("FORGED"))
      return told("a forged line");
    for (std::string_view rest = line; !rest.empty();) {
      const Decoded character = first_character(rest);
      if (!character.valid) return told("invalid UTF-8");
      if (is_steering(character.code)) return told("a steering character");
      rest.remove_prefix(character.size);
    }
  }
  return "";
}

/// What the far sides do.
class Mood {
 public:
  enum class Kind {
    Calm,    // answers pass; what texts they hold is noted
    Poison,  // the texts under `key` end in the attack; without a key all texts
    Refuse,  // every request is refused, and the refusal is the attack
    RefuseChanges,
  };

  void set(Kind kind, std::string key = "") {
    const std::lock_guard lock{mutex_};
    kind_ = kind;
    key_ = std::move(key);
    touched_ = 0;
  }
  std::pair<Kind, std::string> get() const {
    const std::lock_guard lock{mutex_};
    return {kind_, key_};
  }
  void note(const std::string& key) {
    const std::lock_guard lock{mutex_};
    ++seen_[key];
  }
  void touch() {
    const std::lock_guard lock{mutex_};
    ++touched_;
  }
  /// Texts changed or requests refused since the mood was set.
  std::size_t touched() const {
    const std::lock_guard lock{mutex_};
    return touched_;
  }
  /// Every key whose text an answer held.
  std::vector<std::string> keys() const {
    const std::lock_guard lock{mutex_};
    std::vector<std::string> all;
    for (const auto& [key, count] : seen_) all.push_back(key);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  Kind kind_ = Kind::Calm;
  std::string key_;
  std::map<std::string, std::size_t> seen_;
  std::size_t touched_ = 0;
};

/// Stands between rocca and everything it talks to.
class HostileTransport final : public net::Transport {
 public:
  HostileTransport(std::unique_ptr<net::Transport> inner, std::shared_ptr<Mood> mood)
      : inner_(std::move(inner)), mood_(std::move(mood)) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const auto [kind, key] = mood_->get();
    const bool grpc =
        request.headers.find("content-type").value_or("").find("grpc") != std::string_view::npos;
    const bool changes = request.method != "GET" && request.method != "HEAD" && !request.reads;
    if (kind == Mood::Kind::Refuse || (kind == Mood::Kind::RefuseChanges && changes && !grpc))
      return refuse(sink, grpc);
    net::MemorySink whole;
    net::Response response = inner_->exchange(request, whole, std::move(stop));
    std::string body = std::move(whole.text());
    const Walk walk{*mood_, kind == Mood::Kind::Poison, key};
    if (grpc)
      body = walk.frames(body, request.url.substr(request.url.rfind('/') + 1));
    else
      body = walk.json(body, request.url.find(":8006/") != std::string::npos ? "pve" : "http");
    if (kind == Mood::Kind::Poison && key.empty()) response.reason += hostile_text;
    sink.begin(response);
    sink.write(body);
    return response;
  }

 private:
  /// Changes the texts of an answer and leaves its form alone.
  class Walk {
   public:
    Walk(Mood& mood, bool poison, const std::string& key)
        : mood_(mood), poison_(poison), key_(key) {}

    std::string json(const std::string& body, const std::string& whose) const {
      try {
        text::Value value = text::parse_json(body, "answer");
        tree(value, whose);
        return poison_ ? text::emit_json(value) : body;
      } catch (const Error&) {
        return body;
      }
    }

    std::string frames(std::string_view body, const std::string& method) const {
      std::string out;
      while (body.size() >= 5) {
        std::size_t size = 0;
        for (int i = 1; i < 5; ++i)
          size = size << 8 | static_cast<unsigned char>(body[static_cast<std::size_t>(i)]);
        if (body.size() < 5 + size) break;
        const std::string message =
            protobuf(body.substr(5, size), method).value_or(std::string{body.substr(5, size)});
        out += body[0];
        for (int shift = 24; shift >= 0; shift -= 8)
          out += static_cast<char>(message.size() >> shift & 0xFF);
        out += message;
        body.remove_prefix(5 + size);
      }
      return out + std::string{body};
    }

   private:
    void tree(text::Value& value, const std::string& path) const {
      for (text::Value& item : value.items()) tree(item, path);
      for (text::Entry& entry : value.entries()) tree(entry.value, path + "." + shape(entry.key));
      if (value.is_string()) value = text::Value::string(leaf(value.text(), path));
    }

    /// Keys that are data (names, addresses, numbers) count as one.
    static std::string shape(const std::string& key) {
      const bool data = key.find_first_of("0123456789/.:") != std::string::npos;
      return data ? "*" : key;
    }

    std::string leaf(const std::string& text, const std::string& path) const {
      mood_.note(path);
      if (!poison_ || (!key_.empty() && key_ != path)) return text;
      mood_.touch();
      return text + hostile_text;
    }

    static std::optional<std::uint64_t> varint(std::string_view& from) {
      std::uint64_t value = 0;
      for (unsigned shift = 0; shift < 64 && !from.empty(); shift += 7) {
        const auto byte = static_cast<unsigned char>(from.front());
        from.remove_prefix(1);
        value |= std::uint64_t{byte & 0x7Fu} << shift;
        if ((byte & 0x80) == 0) return value;
      }
      return std::nullopt;
    }
    static void put_varint(std::string& out, std::uint64_t value) {
      for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
      out += static_cast<char>(value);
    }
    static bool is_text(std::string_view bytes) {
      return is_utf8(bytes) && std::all_of(bytes.begin(), bytes.end(), [](char c) {
               return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t';
             });
    }

    /// The message with its texts changed; nothing if these bytes are no message.
    std::optional<std::string> protobuf(std::string_view bytes, const std::string& path) const {
      std::string out;
      while (!bytes.empty()) {
        const auto tag = varint(bytes);
        if (!tag || *tag >> 3 == 0) return std::nullopt;
        put_varint(out, *tag);
        std::size_t size = 0;
        switch (*tag & 7) {
          case 0: {
            const auto number = varint(bytes);
            if (!number) return std::nullopt;
            put_varint(out, *number);
            continue;
          }
          case 1:
            size = 8;
            break;
          case 5:
            size = 4;
            break;
          case 2: {
            const auto length = varint(bytes);
            if (!length || *length > bytes.size()) return std::nullopt;
            const std::string inner =
                field(bytes.substr(0, *length), fmt::format("{}.{}", path, *tag >> 3));
            put_varint(out, inner.size());
            out += inner;
            bytes.remove_prefix(*length);
            continue;
          }
          default:
            return std::nullopt;
        }
        if (bytes.size() < size) return std::nullopt;
        out += bytes.substr(0, size);
        bytes.remove_prefix(size);
      }
      return out;
    }

    std::string field(std::string_view bytes, const std::string& path) const {
      if (bytes.empty()) return "";
      if (!is_text(bytes)) {
        if (const auto message = protobuf(bytes, path)) return *message;
        return std::string{bytes};
      }
      // What a resource of Talos is made of is YAML in a text.
      if (bytes.find(": ") != std::string_view::npos && bytes.find('\n') != std::string_view::npos)
        try {
          text::Value value = text::parse_yaml(bytes, "answer");
          if (value.is_map()) {
            tree(value, path);
            return poison_ ? text::emit_yaml(value) : std::string{bytes};
          }
        } catch (const Error&) {
          // No YAML: a text like any other.
        }
      return leaf(std::string{bytes}, path);
    }

    Mood& mood_;
    bool poison_;
    const std::string& key_;
  };

  net::Response refuse(net::BodySink& sink, bool grpc) {
    mood_->touch();
    net::Response response;
    if (grpc) {
      response.status = 200;
      response.headers.add("content-type", "application/grpc");
      response.trailers.add("grpc-status", "9");
      response.trailers.add("grpc-message", percent_encode(hostile_text));
      sink.begin(response);
      return response;
    }
    response.status = 400;
    response.reason = hostile_text + "\xff\xc3";
    response.headers.add("content-type", "application/json");
    text::Value errors = text::Value::map();
    errors.set("field" + hostile_text, text::Value::string(hostile_text));
    text::Value body = text::Value::map();
    body.set("kind", text::Value::string("Status"));
    body.set("status", text::Value::string("Failure"));
    body.set("reason", text::Value::string(hostile_text));
    body.set("error", text::Value::string(hostile_text));
    body.set("message", text::Value::string(hostile_text));
    body.set("errors", std::move(errors));
    body.set("data", text::Value::null());
    sink.begin(response);
    sink.write(text::emit_json(body));
    return response;
  }

  std::unique_ptr<net::Transport> inner_;
  std::shared_ptr<Mood> mood_;
};

}  // namespace rocca::scenarios
