#include "lab/pve/failure.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

std::string Failure::task_text() const {
  if (status == 500) return message;
  std::string text = fmt::format("{} {}", status, message);
  if (errors.empty()) return text;
  text += "\n";
  for (const auto& [name, problem] : errors) text += fmt::format("{}: {}\n", name, problem);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void die(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  throw Failure{500, std::move(message), {}, true};
}

void refuse_parameter(std::string name, std::string text) {
  refuse_parameters({{std::move(name), std::move(text)}});
}

void refuse_parameters(std::map<std::string, std::string> errors) {
  throw Failure{400, "Parameter verification failed.", std::move(errors), true};
}

void deny(const std::string& what) {
  throw Failure{
      403,
      what.empty() ? "Permission check failed" : fmt::format("Permission check failed ({})", what),
      {},
      true};
}

}  // namespace rocca::lab::pve
