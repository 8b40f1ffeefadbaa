#include "net/date.hpp"

#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::net {

namespace {

constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

}  // namespace

std::optional<Instant> parse_http_date(std::string_view text) {
  if (text.size() != 29 || !text.ends_with(" GMT") || text.substr(3, 2) != ", ")
    return std::nullopt;
  const auto month = std::find(months.begin(), months.end(), text.substr(8, 3));
  if (month == months.end()) return std::nullopt;
  return parse_instant(fmt::format("{}-{:02}-{}T{}Z", text.substr(12, 4),
                                   month - months.begin() + 1, text.substr(5, 2),
                                   text.substr(17, 8)));
}

std::string to_http_date(Instant instant) {
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::seconds>(instant - day)};
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     days.at(std::chrono::weekday{day}.c_encoding()), unsigned{date.day()},
                     months.at(unsigned{date.month()} - 1), int{date.year()}, time.hours().count(),
                     time.minutes().count(), time.seconds().count());
}

}  // namespace rocca::net
