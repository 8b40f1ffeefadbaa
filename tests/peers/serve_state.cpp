// Two state servers of Terraform's `http` protocol, the one that the contract of our `http` Store
// is tested with: for the real tofu, and for rocca beside it.
//
//   serve_state          prints two lines, NAME ADDRESS (the lock is at ADDRESS/lock), and serves
//                        until its input ends
//
// Each line of input is a question, answered by one line:
//   lock NAME            the lock info that is held there, or -
//   seen NAME            every request since the last question: METHOD TARGET, parted by |

#include "base/strings.hpp"
#include "state/terraform_test_server.hpp"
#include "text/json.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <map>

namespace {

using rocca::state::test::TerraformServer;

struct Served {
  explicit Served(TerraformServer::Habits habits) : server(std::move(habits)) {}
  TerraformServer server;
  std::size_t told = 0;
};

std::string answer(Served& served, const std::string& verb) {
  if (verb == "lock") {
    const auto lock = served.server.lock();
    if (!lock) return "-";
    return rocca::text::emit_json(rocca::text::parse_json(*lock, "lock info"));
  }
  std::vector<std::string> lines;
  for (const auto& seen = served.server.seen(); served.told < seen.size(); ++served.told)
    lines.push_back(seen[served.told].method + " " + seen[served.told].target);
  return rocca::join(lines, "|");
}

}  // namespace

int main() {
  // One lets a holder lock again what it holds, as few do; the other does not, as most.
  std::map<std::string, std::unique_ptr<Served>> all;
  all["plain"] = std::make_unique<Served>(TerraformServer::Habits{});
  all["renewing"] = std::make_unique<Served>(TerraformServer::Habits{.relock = true});
  for (const auto& [name, served] : all) fmt::print("{} {}\n", name, served->server.address());
  std::fflush(stdout);
  std::string verb;
  std::string name;
  while (std::cin >> verb >> name) {
    const auto found = all.find(name);
    fmt::print("{}\n", found == all.end() ? "?" : answer(*found->second, verb));
    std::fflush(stdout);
  }
}
