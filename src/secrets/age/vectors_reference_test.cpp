#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "secrets/age/age.hpp"
#include "secrets/age/armor.hpp"
#include "secrets/age/format.hpp"
#include "secrets/age/stream.hpp"
#include "secrets/crypto.hpp"
#include "support/reference.hpp"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <map>

// Every file of vectors/age: a text header that says what must happen, an empty line, an age file.
namespace rocca::secrets::age {
namespace {

struct Vector {
  std::string name;
  std::multimap<std::string, std::string> keys;
  std::string body;

  std::string get(const std::string& key) const {
    const auto found = keys.find(key);
    return found == keys.end() ? "" : found->second;
  }
  bool armored() const { return get("armored") == "yes"; }
  bool post_quantum() const {
    const auto [begin, end] = keys.equal_range("identity");
    return std::any_of(begin, end, [](const auto& entry) {
      return entry.second.starts_with("AGE-SECRET-KEY-PQ-");
    });
  }
};

std::string inflate_all(const std::string& bytes) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw Error(Fault::Bug, "zlib");
  std::string text;
  std::string input = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  int state = Z_OK;
  while (state == Z_OK) {
    std::string part(1 << 16, '\0');
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(part, 0, part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END) throw Error(Fault::Bug, "the vector's zlib stream is damaged");
  return text;
}

Vector read_vector(const std::string& path) {
  const std::string text = test::read_file(path);
  Vector vector{std::filesystem::path(path).filename(), {}, {}};
  std::size_t at = 0;
  while (true) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) throw Error(Fault::Bug, path + " has no empty line");
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) break;
    const std::size_t colon = line.find(": ");
    vector.keys.emplace(line.substr(0, colon), line.substr(colon + 2));
  }
  vector.body = text.substr(at);
  if (vector.get("compressed") == "zlib") vector.body = inflate_all(vector.body);
  return vector;
}

std::vector<Vector> all_vectors() {
  std::vector<Vector> vectors;
  for (const std::string& path : test::reference_files("age")) vectors.push_back(read_vector(path));
  return vectors;
}

std::vector<Identity> identities_of(const Vector& vector) {
  std::vector<Identity> identities;
  for (const auto& [key, value] : vector.keys) {
    if (key == "identity") identities.push_back(Identity::parse(value));
    if (key == "passphrase") identities.push_back(Identity::passphrase(Secret(value)));
  }
  return identities;
}

struct Outcome {
  std::string result;
  std::string plaintext;  // what was given out, also before a failure
};

Outcome run(const Vector& vector, std::size_t step, Armor armor) {
  Outcome outcome;
  try {
    Decryptor decryptor(
        identities_of(vector), [&](std::string_view bytes) { outcome.plaintext += bytes; }, armor);
    for (std::size_t at = 0; at < vector.body.size(); at += step)
      decryptor.write(std::string_view(vector.body).substr(at, step));
    decryptor.finish();
    outcome.result = "success";
  } catch (const AgeError& error) {
    outcome.result = to_string(error.failure());
  }
  return outcome;
}

TEST(AgeVectors, EveryFileGivesItsResultAndPayload) {
  std::size_t hybrid = 0;
  for (const Vector& vector : all_vectors()) {
    SCOPED_TRACE(vector.name);
    hybrid += vector.post_quantum() ? 1 : 0;
    const Armor armor = vector.armored() ? Armor::Yes : Armor::No;
    // One piece, and pieces that end in the middle of lines and chunks.
    for (const std::size_t step : {vector.body.size() + 1, std::size_t{4093}}) {
      if (step == 4093 && vector.keys.contains("passphrase"))
        continue;  // a second scrypt run tells nothing new
      const Outcome outcome = run(vector, step, armor);
      EXPECT_EQ(outcome.result, vector.get("expect"));
      if (vector.keys.contains("payload"))
        EXPECT_EQ(to_hex(crypto::sha256(outcome.plaintext)), vector.get("payload"));
      else
        EXPECT_EQ(outcome.plaintext, "");
    }
    test::count_case();
  }
  std::printf("post-quantum vectors among them: %zu\n", hybrid);
}

TEST(AgeVectors, ArmorIsRecognisedWhereItIsRight) {
  for (const Vector& vector : all_vectors()) {
    if (vector.get("expect") != "success" || vector.keys.contains("passphrase")) continue;
    SCOPED_TRACE(vector.name);
    EXPECT_EQ(run(vector, 1000, Armor::Auto).result, "success");
    test::count_case();
  }
}

/// The binary age file inside, or nothing where the armor is broken.
std::optional<std::string> bare(const Vector& vector) {
  if (!vector.armored()) return vector.body;
  std::string bytes;
  try {
    ArmorReader reader([&](std::string_view part) { bytes += part; });
    reader.write(vector.body);
    reader.finish();
  } catch (const AgeError&) {
    return std::nullopt;
  }
  return bytes;
}

TEST(AgeVectors, HeadersAreWrittenBackAsTheyWere) {
  for (const Vector& vector : all_vectors()) {
    const std::string expect = vector.get("expect");
    const auto file = bare(vector);
    if (expect == "header failure" || !file) continue;
    SCOPED_TRACE(vector.name);
    HeaderReader reader;
    reader.write(*file);
    ASSERT_TRUE(reader.done());
    EXPECT_EQ(encode_header(parse_header(reader.text())), reader.text());
    test::count_case();
  }
}

TEST(AgeVectors, ArmorIsWrittenBackAsItWas) {
  for (const Vector& vector : all_vectors()) {
    if (vector.get("expect") != "success" || !vector.armored()) continue;
    SCOPED_TRACE(vector.name);
    std::string text;
    ArmorWriter writer([&](std::string_view part) { text += part; });
    writer.write(*bare(vector));
    writer.finish();
    // CRLF, outer white space and a missing last newline are read, but never written.
    EXPECT_EQ(trim(text), trim(replace_all(vector.body, "\r\n", "\n")));
    test::count_case();
  }
}

TEST(AgeVectors, PayloadsAreWrittenBackAsTheyWere) {
  for (const Vector& vector : all_vectors()) {
    if (vector.get("expect") != "success") continue;
    SCOPED_TRACE(vector.name);
    const std::string file = *bare(vector);
    HeaderReader reader;
    const std::string_view payload = std::string_view(file).substr(reader.write(file));
    const Secret file_key = Secret::take(*from_hex(vector.get("file key")));
    const Secret key = payload_key(file_key, payload.substr(0, nonce_size));
    std::string plaintext;
    StreamReader open(key, [&](std::string_view part) { plaintext += part; });
    open.write(payload.substr(nonce_size));
    open.finish();
    std::string sealed;
    StreamWriter seal(key, [&](std::string_view part) { sealed += part; });
    for (std::size_t at = 0; at < plaintext.size(); at += 10'007)
      seal.write(std::string_view(plaintext).substr(at, 10'007));
    seal.finish();
    EXPECT_TRUE(sealed == payload.substr(nonce_size));
    test::count_case();
  }
}

}  // namespace
}  // namespace rocca::secrets::age
