#pragma once

#include <string>

namespace rocca::cli {

/// `--speed FACTOR` of a lab. Throws Usage.
double parse_speed(const std::string& text);

}  // namespace rocca::cli
