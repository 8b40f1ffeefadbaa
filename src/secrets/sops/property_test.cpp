#include "base/encoding.hpp"
#include "base/error.hpp"
#include "secrets/sops/sops.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca::secrets::sops {
namespace {

using text::Value;

rc::Gen<std::string> any_text() {
  return rc::gen::oneOf(
      rc::gen::element<std::string>("", "yes", "0123", "1e3", "a: b", "# c", "two\nlines\n", "ü😀",
                                    " x ", "ENC[x]", "\t", "\\n"),
      rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~')));
}

std::string any_key() {
  return *rc::gen::nonEmpty(
             rc::gen::container<std::string>(rc::gen::elementOf(std::string{"abcdef_. "}))) +
         "k";
}

Value any_value(int depth, bool json) {
  switch (*rc::gen::inRange(0, depth > 0 ? 9 : 6)) {
    case 0:
      return Value::null();
    case 1:
      return Value::boolean(*rc::gen::arbitrary<bool>());
    case 2:
      return Value::integer(*rc::gen::arbitrary<std::int64_t>());
    case 3:
      return json ? Value::floating(*rc::gen::inRange(-1000, 1000) + 0.5)
                  : Value::floating(*rc::gen::arbitrary<double>());
    case 4:
    case 5:
      return Value::string(*any_text());
    case 6: {
      Value list = Value::list();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
        Value item = any_value(depth - 1, json);
        if (!json && *rc::gen::inRange(0, 3) == 0) item.comments().before.push_back(" in a list");
        list.append(std::move(item));
      }
      return list;
    }
    default: {
      Value map = Value::map();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
        const std::string key = any_key();
        if (map.find(key) != nullptr) continue;
        map.set(key, any_value(depth - 1, json));
        if (!json && *rc::gen::inRange(0, 3) == 0)
          map.entries().back().comments().beside = " beside";
        if (!json && *rc::gen::inRange(0, 3) == 0)
          map.entries().back().comments().before.push_back(" before");
      }
      return map;
    }
  }
}

Value any_root(bool json) {
  Value root = Value::map();
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i)
    root.set(any_key() + std::to_string(i), any_value(3, json));
  return root;
}

struct Keys {
  SeededEntropy entropy{11};
  VirtualClock clock;
  age::Identity identity = age::Identity::generate(entropy);
};

Selection any_selection() {
  Selection selection;
  selection.rule = *rc::gen::element(Rule::UnencryptedSuffix, Rule::EncryptedSuffix,
                                     Rule::UnencryptedRegex, Rule::EncryptedRegex,
                                     Rule::UnencryptedCommentRegex, Rule::EncryptedCommentRegex);
  selection.pattern = *rc::gen::element<std::string>("k", "_k1", "^a", "before", "k[12]$");
  selection.mac_only_encrypted = *rc::gen::arbitrary<bool>();
  return selection;
}

RC_GTEST_PROP(SopsProperty, WhatIsEncryptedComesBack, ()) {
  Keys keys;
  const Format format = *rc::gen::element(Format::Yaml, Format::Json);
  std::vector<Value> documents{any_root(format == Format::Json)};
  if (format == Format::Yaml && *rc::gen::arbitrary<bool>()) documents.push_back(any_root(false));
  const Plain plain(format, documents);
  const Recipe recipe{Recipients::age({keys.identity.recipient()->text()}), any_selection(),
                      *rc::gen::element(2u, 4u), "  "};
  std::string sealed;
  try {
    sealed = encrypt(plain, recipe, keys.clock, keys.entropy);
  } catch (const Error& error) {
    // Refused on purpose: a comment rule that matches what a sealed comment happens to look like.
    RC_PRE(error.message().find("could then not be read back") == std::string::npos);
    throw;
  }
  RC_LOG() << plain.text().reveal() << sealed;
  const File file = File::parse(sealed, format, "f");
  const Secret key = file.data_key({keys.identity});
  const Plain back = file.decrypt(key);
  RC_ASSERT(back.documents() == documents);
  RC_ASSERT(back.text() == plain.text());
  // The same content again gives the same values; only date and MAC are new.
  const std::string again = file.with_content(plain, key, keys.clock, keys.entropy);
  const auto mac = [](const std::string& text) {
    return text.find(text.find("\"sops\"") == std::string::npos ? "sops:" : "\"sops\"");
  };
  RC_ASSERT(again.substr(0, mac(again)) == sealed.substr(0, mac(sealed)));
}

RC_GTEST_PROP(SopsProperty, DotenvComesBack, (const std::vector<bool>& lines)) {
  Keys keys;
  std::string env;
  int number = 0;
  for (const bool comment : lines)
    env += comment ? "#c " + to_hex(*any_text()) + "\n"
                   : "K" + std::to_string(number++) + "=" + to_hex(*any_text()) +
                         *rc::gen::element<std::string>("", " ", "\\n", "=x") + "\n";
  const std::string sealed =
      encrypt(Plain::parse(env, Format::Dotenv, "p"),
              {Recipients::age({keys.identity.recipient()->text()}), {}, 4, "\t"}, keys.clock,
              keys.entropy);
  const File file = File::parse(sealed, Format::Dotenv, "f");
  RC_ASSERT(file.decrypt(file.data_key({keys.identity})).text().reveal() == env);
}

RC_GTEST_PROP(SopsProperty, BinaryComesBack, (const std::string& bytes)) {
  Keys keys;
  const std::string sealed =
      encrypt(Plain::parse(bytes, Format::Binary, "p"),
              {Recipients::age({keys.identity.recipient()->text()}), {}, 4, "\t"}, keys.clock,
              keys.entropy);
  const File file = File::parse(sealed, Format::Binary, "f");
  RC_ASSERT(file.decrypt(file.data_key({keys.identity})).text().reveal() == bytes);
}

RC_GTEST_PROP(SopsProperty, AChangedByteIsNeverTakenForAnother, ()) {
  Keys keys;
  const std::string plain = "a: one\nb: {c: 2, d_unencrypted: x}\n";
  const std::string sealed =
      encrypt(Plain::parse(plain, Format::Yaml, "p"),
              {Recipients::age({keys.identity.recipient()->text()}), {}, 4, "\t"}, keys.clock,
              keys.entropy);
  const File file = File::parse(sealed, Format::Yaml, "f");
  const Secret key = file.data_key({keys.identity});
  std::string broken = sealed;
  const std::size_t at = *rc::gen::inRange<std::size_t>(0, sealed.find("sops:"));
  broken[at] = static_cast<char>(broken[at] ^ *rc::gen::inRange(1, 128));
  bool opened = false;
  std::string text;
  try {
    text = File::parse(broken, Format::Yaml, "f").decrypt(key).text().reveal();
    opened = true;
  } catch (const Error&) {
  }
  // Blanks and the names of keys in clear are not under the MAC; values are.
  if (opened) {
    const auto values = [](const std::string& of) {
      std::string out;
      for (const char* word : {"one", "2", "x"})
        out += of.find(word) == std::string::npos ? '-' : '+';
      return out;
    };
    RC_ASSERT(values(text) == "+++");
  }
}

}  // namespace
}  // namespace rocca::secrets::sops
