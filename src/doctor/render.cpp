#include "base/strings.hpp"
#include "base/visible.hpp"
#include "doctor/checkup.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

namespace rocca::doctor {

namespace {

const char* sign(Grade grade) {
  switch (grade) {
    case Grade::Good:
      return "ok  ";
    case Grade::Note:
      return "    ";
    case Grade::Warning:
      return "warn";
    case Grade::Bad:
      return "BAD ";
    case Grade::Skipped:
      return "skip";
  }
  return "    ";
}

const char* colour_of(Grade grade) {
  switch (grade) {
    case Grade::Good:
      return "\x1b[32m";
    case Grade::Warning:
      return "\x1b[33m";
    case Grade::Bad:
      return "\x1b[31m";
    default:
      return "\x1b[2m";
  }
}

std::string line(const Finding& finding, bool colour) {
  constexpr std::size_t indent = 17;
  const std::string mark =
      colour ? fmt::format("{}{}\x1b[0m", colour_of(finding.grade), sign(finding.grade))
             : sign(finding.grade);
  std::string text =
      fmt::format("{}  {:<9}  {}\n", mark, finding.check, visible(finding.text, indent + 2));
  for (const std::string& fix : finding.fix)
    text += fmt::format("{:{}}{}\n", "", indent, visible(fix, indent));
  return text;
}

}  // namespace

std::string render_text(const Checkup& checkup, bool colour) {
  std::string text;
  std::size_t bad = 0, warnings = 0;
  std::string skipped;
  for (const Finding& finding : checkup.findings) {
    bad += finding.grade == Grade::Bad;
    warnings += finding.grade == Grade::Warning;
    if (finding.grade == Grade::Skipped) {
      skipped += (skipped.empty() ? "" : ", ") + finding.check;
      continue;
    }
    text += line(finding, colour);
  }
  if (!skipped.empty())
    text += line({"", Grade::Skipped, "not looked at: " + skipped, {}, false}, colour);
  if (bad > 0)
    text += fmt::format("\n{} to mend{}\n", plural(bad, "thing"),
                        warnings > 0 ? fmt::format(", {}", plural(warnings, "warning")) : "");
  else
    text += fmt::format("\nready{}\n",
                        warnings > 0 ? fmt::format(", with {}", plural(warnings, "warning")) : "");
  return text;
}

text::Value to_value(const Checkup& checkup) {
  text::Value root = text::Value::map();
  root.set("healthy", text::Value::boolean(checkup.healthy()));
  root.set("version", checkup.version
                          ? text::Value::string(rocca::to_string(checkup.version->version))
                          : text::Value::null());
  text::Value findings = text::Value::list();
  for (const Finding& finding : checkup.findings) {
    text::Value row = text::Value::map();
    row.set("check", text::Value::string(finding.check));
    row.set("grade", text::Value::string(to_string(finding.grade)));
    row.set("text", text::Value::string(finding.text));
    text::Value fix = text::Value::list();
    for (const std::string& line : finding.fix) fix.append(text::Value::string(line));
    row.set("fix", std::move(fix));
    findings.append(std::move(row));
  }
  root.set("findings", std::move(findings));
  return root;
}

}  // namespace rocca::doctor
