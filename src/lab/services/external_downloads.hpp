#pragma once

#include "lab/services/web.hpp"

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rocca::net {
class Transport;
}

namespace rocca::lab {

/// Real servers from which hosts of the simulation may download: those that were named, and no
/// others. A name that leads outside wins over a simulated one.
class Outside {
 public:
  /// Runs something in the world's thread, now or a little later.
  using Post = std::function<void(std::function<void()>)>;

  /// `hosts` are HOST or HOST:PORT. Throws Error(Usage) for anything else.
  Outside(std::unique_ptr<net::Transport> transport, const std::vector<std::string>& hosts,
          Post post);
  ~Outside();  // ends what is under way; its `done` is not called any more
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  bool leads_to(std::string_view url) const;

  struct Order {
    std::string method = "GET";  // or HEAD: only what the server says about it
    std::string url;
    bool verify = true;
    std::string compression;  // what Proxmox was told that it is packed with
  };
  struct Fetched {
    WebFile file;  // status, size, digests, what is in it; no bytes
    std::string name;
    std::string host;     // host:port of the last one that was asked
    std::string trouble;  // there was no answer
  };
  /// Follows redirects, as far as they stay on hosts that were named. `done` comes by `post`.
  void fetch(Order order, std::function<void(Fetched)> done, std::stop_token stop);

 private:
  struct Host {
    std::string name;
    std::optional<unsigned> port;
  };
  struct Errand {
    bool over = false;
    std::jthread thread;
  };
  Fetched run(const Order& order, std::stop_token stop) const;

  std::unique_ptr<net::Transport> transport_;
  std::vector<Host> hosts_;
  Post post_;
  std::list<Errand> errands_;  // touched in the world's thread only
};

/// What a file is by its first bytes, and by the path of an Image Factory it came from.
ImageFacts examine_image(std::string_view beginning, std::string_view path);

}  // namespace rocca::lab
