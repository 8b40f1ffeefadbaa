#include "engine/resource.hpp"

namespace rocca::engine {

const char* to_string(Action action) noexcept {
  switch (action) {
    case Action::None:
      return "none";
    case Action::Create:
      return "create";
    case Action::Update:
      return "update";
    case Action::Replace:
      return "replace";
    case Action::Destroy:
      return "destroy";
  }
  return "none";
}

const char* sign_of(Action action) noexcept {
  switch (action) {
    case Action::None:
      return " ";
    case Action::Create:
      return "+";
    case Action::Update:
      return "~";
    case Action::Replace:
      return "-/+";
    case Action::Destroy:
      return "-";
  }
  return " ";
}

std::string kind_of(std::string_view address) {
  return std::string(address.substr(0, address.find('/')));
}

}  // namespace rocca::engine
