#include "text/valid.hpp"

#include "base/visible.hpp"
#include "text/source.hpp"

namespace rocca::text {

Value with_valid_text(Value value) {
  if (value.is_list()) {
    for (Value& item : value.items()) item = with_valid_text(std::move(item));
  } else if (value.is_map()) {
    for (Entry& entry : value.entries()) {
      if (!is_valid_utf8(entry.key)) entry.key = valid_utf8(entry.key);
      entry.value = with_valid_text(std::move(entry.value));
    }
  } else if (value.is_string() && !is_valid_utf8(value.text())) {
    return Value::string(valid_utf8(value.text()), value.style());
  }
  return value;
}

}  // namespace rocca::text
