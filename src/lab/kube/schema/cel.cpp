#include "lab/kube/schema/cel.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace rocca::lab::kube {

using text::Kind;
using text::Value;

namespace {

struct Beyond {};  // a form we do not know
struct Failed {};  // an error of the rule itself, such as a field that is not there

class Evaluator {
 public:
  Evaluator(std::string_view text, const Value& self, const Value* old_self)
      : text_(text), self_(self), old_(old_self) {}

  Value run() {
    Value out = choice();
    blanks();
    if (at_ != text_.size()) throw Beyond{};
    return out;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(std::string_view word) {
    blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string identifier() {
    blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  static bool truth(const Value& value) {
    const auto bit = value.as_bool();
    if (!bit) throw Failed{};
    return *bit;
  }

  Value choice() {
    Value test = either();
    if (!take("?")) return test;
    Value yes = quiet([&] { return choice(); });
    if (!take(":")) throw Beyond{};
    Value no = quiet([&] { return choice(); });
    return truth(test) ? yes : no;
  }

  /// An operand whose failure counts only if it is needed.
  template <class Ask>
  Value quiet(Ask ask) {
    try {
      return ask();
    } catch (const Failed&) {
      failed_ = true;
      return Value::null();
    }
  }

  Value either() {
    Value left = both();
    while (take("||")) {
      const std::size_t begin = at_;
      static_cast<void>(begin);
      const bool known = left.as_bool() == true;
      Value right = known ? quiet([&] { return both(); }) : both();
      left = Value::boolean(known || truth(right));
    }
    return left;
  }

  Value both() {
    Value left = relation();
    while (take("&&")) {
      const bool known = left.as_bool() == false;
      Value right = known ? quiet([&] { return relation(); }) : relation();
      left = Value::boolean(!known && truth(right));
    }
    return left;
  }

  Value relation() {
    Value left = sum();
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(op)) continue;
      const Value right = sum();
      const std::string_view sign = op;
      if (sign == "==") return Value::boolean(left == right);
      if (sign == "!=") return Value::boolean(!(left == right));
      int order = 0;
      if (left.is_string() && right.is_string()) {
        order = left.text().compare(right.text());
      } else {
        const auto a = left.as_float();
        const auto b = right.as_float();
        if (!a || !b) throw Failed{};
        order = *a < *b ? -1 : *a > *b ? 1 : 0;
      }
      return Value::boolean(sign == "<="   ? order <= 0
                            : sign == ">=" ? order >= 0
                            : sign == "<"  ? order < 0
                                           : order > 0);
    }
    blanks();
    if (text_.substr(at_).starts_with("in ") || text_.substr(at_).starts_with("in[")) {
      at_ += 2;
      const Value right = sum();
      if (right.is_map()) return Value::boolean(right.find(left.text()) != nullptr);
      return Value::boolean(std::find(right.items().begin(), right.items().end(), left) !=
                            right.items().end());
    }
    return left;
  }

  Value sum() {
    Value left = unary();
    for (;;) {
      blanks();
      const bool plus = at_ < text_.size() && text_[at_] == '+';
      const bool minus = at_ < text_.size() && text_[at_] == '-';
      if (!plus && !minus) return left;
      ++at_;
      const Value right = unary();
      if (plus && left.is_string() && right.is_string()) {
        left = Value::string(left.text() + right.text());
        continue;
      }
      const auto a = left.as_int();
      const auto b = right.as_int();
      if (!a || !b) throw Failed{};
      left = Value::integer(plus ? *a + *b : *a - *b);
    }
  }

  Value unary() {
    blanks();
    if (at_ < text_.size() && text_[at_] == '!' && !text_.substr(at_).starts_with("!=")) {
      ++at_;
      return Value::boolean(!truth(unary()));
    }
    return postfix();
  }

  Value postfix() {
    Value value = primary();
    for (;;) {
      blanks();
      if (take(".")) {
        const std::string name = identifier();
        blanks();
        if (at_ < text_.size() && text_[at_] == '(') {
          value = method(value, name);
          continue;
        }
        const Value* found = value.find(name);
        if (found == nullptr) throw Failed{};
        value = Value(*found);
      } else if (take("[")) {
        const Value key = choice();
        if (!take("]")) throw Beyond{};
        if (value.is_list()) {
          const auto index = key.as_uint();
          if (!index || *index >= value.size()) throw Failed{};
          value = Value(value.items()[*index]);
        } else {
          const Value* found = value.find(key.text());
          if (found == nullptr) throw Failed{};
          value = Value(*found);
        }
      } else {
        return value;
      }
    }
  }

  Value method(const Value& self, const std::string& name) {
    if (!take("(")) throw Beyond{};
    if (name == "size") {
      if (!take(")")) throw Beyond{};
      return size_of(self);
    }
    if (name != "startsWith" && name != "endsWith" && name != "contains") throw Beyond{};
    const Value what = choice();
    if (!take(")")) throw Beyond{};
    if (name == "startsWith") return Value::boolean(self.text().starts_with(what.text()));
    if (name == "endsWith") return Value::boolean(self.text().ends_with(what.text()));
    return Value::boolean(self.text().find(what.text()) != std::string::npos);
  }

  static Value size_of(const Value& value) {
    return Value::integer(
        static_cast<std::int64_t>(value.is_string() ? value.text().size() : value.size()));
  }

  Value primary() {
    blanks();
    if (at_ >= text_.size()) throw Beyond{};
    const char first = text_[at_];
    if (first == '(') {
      ++at_;
      Value inner = choice();
      if (!take(")")) throw Beyond{};
      return inner;
    }
    if (first == '\'' || first == '"') {
      const std::size_t end = text_.find(first, at_ + 1);
      if (end == std::string_view::npos) throw Beyond{};
      const std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
      if (inner.find('\\') != std::string_view::npos) throw Beyond{};
      at_ = end + 1;
      return Value::string(std::string(inner));
    }
    if (first == '[') {
      ++at_;
      Value list = Value::list();
      while (!take("]")) {
        list.append(choice());
        take(",");
      }
      return list;
    }
    if (std::isdigit(static_cast<unsigned char>(first)) != 0) {
      const std::size_t begin = at_;
      while (at_ < text_.size() &&
             (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.'))
        ++at_;
      return Value::plain(std::string(text_.substr(begin, at_ - begin)));
    }
    const std::string name = identifier();
    if (name == "true") return Value::boolean(true);
    if (name == "false") return Value::boolean(false);
    if (name == "null") return Value::null();
    if (name == "self" || name == "object") return self_;
    if (name == "oldSelf" || name == "oldObject") {
      if (old_ == nullptr) return Value::null();
      return *old_;
    }
    if (name == "has" && take("(")) {
      bool there = true;
      try {
        choice();
      } catch (const Failed&) {
        there = false;
        // The rest of the path was not read.
        while (at_ < text_.size() && text_[at_] != ')') ++at_;
      }
      if (!take(")")) throw Beyond{};
      return Value::boolean(there);
    }
    if (name == "size" && take("(")) {
      const Value inner = choice();
      if (!take(")")) throw Beyond{};
      return size_of(inner);
    }
    throw Beyond{};
  }

  std::string_view text_;
  const Value& self_;
  const Value* old_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<bool> cel_holds(std::string_view rule, const Value& self, const Value* old_self) {
  try {
    return Evaluator(rule, self, old_self).run().as_bool();
  } catch (const Beyond&) {
    return std::nullopt;
  } catch (const Failed&) {
    return false;
  }
}

}  // namespace rocca::lab::kube
