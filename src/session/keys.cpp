#include "session/keys.hpp"

#include "base/error.hpp"
#include "secrets/sops/identities.hpp"

namespace rocca::session {

namespace sops = secrets::sops;

const std::vector<secrets::age::Identity>& Keys::identities() {
  if (found_) return identities_;
  Diagnostics problems;
  sops::FoundIdentities found = sops::find_identities(sources_.environment, sources_.files,
                                                      sources_.run, sources_.ask, problems);
  if (sources_.report) sources_.report(problems);
  identities_ = std::move(found.identities);
  searched_ = std::move(found.searched);
  found_ = true;
  return identities_;
}

Secret Keys::data_key(const sops::File& file) {
  if (!identities().empty()) return file.data_key(identities_);
  try {
    return file.data_key(identities_);
  } catch (const Error& error) {
    std::string message = error.message() + "; there is no age key here. Looked for:";
    for (const std::string& place : searched_) message += "\n  " + place;
    throw Error(error.fault(), std::move(message))
        .hint("copy the key file of the machine that made it, or set SOPS_AGE_KEY_FILE");
  }
}

}  // namespace rocca::session
