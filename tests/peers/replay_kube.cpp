// Replays recordings of a Kubernetes API on the lab, for the differential test:
//
//   replay_kube
//
// reads one recording per line of standard input (JSON, the format of tests/reference/kube) and
// answers each with one line: a list with the differences of every step.

#include "base/error.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/replay_cluster.hpp"
#include "text/json.hpp"

#include <cstdio>
#include <iostream>
#include <string>

int main() {
  using namespace rocca;
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    text::Value answer = text::Value::list();
    try {
      const text::Value recording = lab::kube::read_json(line).value;
      for (const auto& [step, problems] : lab::kube::ReplayCluster{recording}.run()) {
        text::Value one = text::Value::list();
        for (const std::string& problem : problems) one.append(text::Value::string(problem));
        answer.append(std::move(one));
      }
    } catch (const lab::kube::BadJson& bad) {
      std::fputs(("the recording is not JSON: " + bad.message + "\n").c_str(), stderr);
      return 1;
    } catch (const Error& error) {
      std::fputs(error.render().c_str(), stderr);
      return 1;
    }
    std::cout << text::emit_json(answer) << "\n" << std::flush;
  }
}
