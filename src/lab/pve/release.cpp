#include "lab/pve/release.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

Release Release::v8_4() {
  return {"8.4.21", "8.4", "2606ac850d46da29", "9.2.0", "6.8.12-20-pve", 8};
}

Release Release::v9() {
  return {"9.1.9", "9.1", "ee7bad0a3d1546c9", "10.1.2", "6.17.4-2-pve", 9};
}

Release Release::v9_2() {
  Release release{"9.2.11", "9.2", "5ac30304265fbd8e", "10.2.1", "6.17.13-4-pve", 9};
  release.normalises_tags_on_create = true;
  return release;
}

Release Release::parse(const std::string& text) {
  if (text == "8.4" || text == "8") return v8_4();
  if (text == "9" || text == "9.1") return v9();
  if (text == "9.2") return v9_2();
  throw Error(Fault::Usage, fmt::format("the lab does not play Proxmox VE '{}'", text))
      .hint("use 8.4, 9.1 or 9.2");
}

}  // namespace rocca::lab::pve
