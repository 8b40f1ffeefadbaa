#pragma once

#include "base/clock.hpp"
#include "lab/kube/api.hpp"

#include <string>

namespace rocca::lab::kube {

/// The request for a serving certificate that a kubelet makes: base64 of PEM, as it stands in a
/// CertificateSigningRequest. Its key is thrown away: nobody connects to simulated kubelets.
std::string certificate_request(const Kubelet& kubelet);

/// Signs a CertificateSigningRequest with a cluster's CA as kube-controller-manager does: the
/// request's subject, names and key, its usages, a year. Base64 of PEM; "" if it cannot be.
std::string sign_request(const text::Value& request, const std::string& authority_pem,
                         const std::string& key_pem, Instant now);

}  // namespace rocca::lab::kube
