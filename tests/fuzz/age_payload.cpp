#include "secrets/age/stream.hpp"

#include <cstdint>
#include <cstdlib>
#include <optional>

// A payload that was sealed and then changed as the input says is refused; one that was not is
// given back. What goes out is always a beginning of what went in.
using namespace rocca::secrets::age;

namespace {

struct Opened {
  std::string text;
  bool whole = false;
};

Opened open(std::string_view sealed, std::size_t step) {
  const rocca::Secret key(std::string(32, 'k'));
  Opened opened;
  try {
    StreamReader reader(key, [&](std::string_view part) { opened.text += part; });
    for (std::size_t at = 0; at < sealed.size(); at += step) reader.write(sealed.substr(at, step));
    reader.finish();
    opened.whole = true;
  } catch (const AgeError& error) {
    if (error.failure() != Failure::Payload) std::abort();
  }
  return opened;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  // Two bytes of length beyond a chunk or two, four for the place of a change, one for the change,
  // one for its kind.
  const auto at = [&](std::size_t i) { return static_cast<std::size_t>(data[i]); };
  std::string text(reinterpret_cast<const char*>(data), size);
  text.resize((at(0) % 3) * chunk_size + at(1), 'x');
  std::string sealed;
  const rocca::Secret key(std::string(32, 'k'));
  StreamWriter writer(key, [&](std::string_view part) { sealed += part; });
  writer.write(text);
  writer.finish();
  if (const Opened right = open(sealed, 1 + at(7) * 300); !right.whole || right.text != text)
    std::abort();

  std::string changed = sealed;
  const std::size_t place = (at(2) | at(3) << 8 | at(4) << 16) % sealed.size();
  switch (at(5) % 4) {
    case 0:
      changed[place] = static_cast<char>(changed[place] ^ static_cast<char>(data[6]));
      break;
    case 1:
      changed.resize(place);
      break;
    case 2:
      changed.append(reinterpret_cast<const char*>(data), size);
      break;
    default:
      changed.erase(place, 1 + at(6));
      break;
  }
  const Opened opened = open(changed, 4096);
  if (opened.whole != (changed == sealed)) std::abort();
  if (!text.starts_with(opened.text)) std::abort();
  open(std::string_view(reinterpret_cast<const char*>(data), size), size);
  return 0;
}
