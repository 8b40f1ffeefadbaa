#include "state/sealing.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace rocca::state {

Sealing age_sealing(std::vector<secrets::age::Recipient> recipients,
                    std::function<std::vector<secrets::age::Identity>()> identities,
                    Entropy& entropy) {
  Sealing sealing;
  sealing.seal = [recipients = std::move(recipients), &entropy](std::string_view clear) {
    return secrets::age::encrypt(clear, recipients, entropy);
  };
  // An identity may be a passphrase or a hardware key: the user is asked once.
  const auto known = std::make_shared<std::optional<std::vector<secrets::age::Identity>>>();
  sealing.open = [identities = std::move(identities), known](std::string_view sealed) {
    if (!*known) *known = identities();
    return std::string{secrets::age::decrypt(sealed, **known).reveal()};
  };
  return sealing;
}

}  // namespace rocca::state
