#pragma once

#include "lab/sim/world.hpp"
#include "net/http.hpp"

#include <functional>
#include <string>

namespace rocca::lab::flux {

/// A request of a program that runs in the simulated cluster, to whatever answers in the simulated
/// network. Certificates are taken as they are. Status 0: nobody answered, and the body says why.
void ask_inside(World& world, const std::string& method, const std::string& url,
                net::Headers headers, std::string body,
                std::function<void(int status, std::string body)> then);

}  // namespace rocca::lab::flux
