#include "text/answer.hpp"

#include "base/error.hpp"

namespace rocca::text {

Value parse_answer(std::string_view body, std::string_view name, const Limits& limits) {
  try {
    return parse_json(body, name, limits);
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;
    throw Error(Fault::Rejected, error.message()).hint(error.hint());
  }
}

}  // namespace rocca::text
