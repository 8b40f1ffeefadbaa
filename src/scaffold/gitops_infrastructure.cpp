#include "scaffold/gitops_templates.hpp"

namespace rocca::spec {

namespace {

constexpr GitopsTemplate templates[] = {
    {"infrastructure/metallb/kustomization.yaml", R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - release.yaml
)"},
    {"infrastructure/metallb/namespace.yaml", R"(apiVersion: v1
kind: Namespace
metadata:
  name: metallb-system
  labels:
    # Its speakers use their node's own network.
    pod-security.kubernetes.io/enforce: privileged
)"},
    {"infrastructure/metallb/release.yaml", R"(apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata:
  name: metallb
  namespace: metallb-system
spec:
  interval: 12h
  url: https://metallb.github.io/metallb
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: metallb
  namespace: metallb-system
spec:
  interval: 1h
  releaseName: metallb
  chart:
    spec:
      chart: metallb
      version: 0.16.1
      sourceRef:
        kind: HelmRepository
        name: metallb
  install:
    crds: CreateReplace
    remediation:
      retries: 3
  upgrade:
    crds: CreateReplace
    remediation:
      retries: 3
)"},
    {"infrastructure/metallb-pool/kustomization.yaml",
     R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - pool.yaml
)"},
    {"infrastructure/metallb-pool/pool.yaml", R"(apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: home
  namespace: metallb-system
spec:
  addresses:
    - 192.168.1.240-192.168.1.250  # CHANGE: free addresses of the nodes' own subnet, outside of DHCP
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata:
  name: home
  namespace: metallb-system
spec:
  ipAddressPools:
    - home
)"},
    {"infrastructure/cert-manager/kustomization.yaml",
     R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - release.yaml
)"},
    {"infrastructure/cert-manager/namespace.yaml", R"(apiVersion: v1
kind: Namespace
metadata:
  name: cert-manager
)"},
    {"infrastructure/cert-manager/release.yaml", R"(apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata:
  name: jetstack
  namespace: cert-manager
spec:
  interval: 12h
  url: https://charts.jetstack.io
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: cert-manager
  namespace: cert-manager
spec:
  interval: 1h
  releaseName: cert-manager
  chart:
    spec:
      chart: cert-manager
      version: v1.19.6
      sourceRef:
        kind: HelmRepository
        name: jetstack
  install:
    crds: CreateReplace
    remediation:
      retries: 3
  upgrade:
    crds: CreateReplace
    remediation:
      retries: 3
  values:
    crds:
      enabled: true
)"},
    {"infrastructure/cert-manager-issuer/kustomization.yaml",
     R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - issuer.yaml
)"},
    {"infrastructure/cert-manager-issuer/issuer.yaml",
     R"(# An authority of the home's own; one that browsers know needs ACME and a domain.
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata:
  name: self-signed
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: home-ca
  namespace: cert-manager
spec:
  isCA: true
  commonName: home-ca
  secretName: home-ca
  privateKey:
    algorithm: ECDSA
    size: 256
  issuerRef:
    kind: ClusterIssuer
    name: self-signed
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata:
  name: home
spec:
  ca:
    secretName: home-ca
)"},
    {"infrastructure/longhorn/kustomization.yaml", R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - release.yaml
)"},
    {"infrastructure/longhorn/namespace.yaml", R"(apiVersion: v1
kind: Namespace
metadata:
  name: longhorn-system
  labels:
    # Talos enforces `baseline`; Longhorn mounts its nodes' disks.
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/warn: privileged
)"},
    {"infrastructure/longhorn/release.yaml", R"(apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata:
  name: longhorn
  namespace: longhorn-system
spec:
  interval: 12h
  url: https://charts.longhorn.io
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: longhorn
  namespace: longhorn-system
spec:
  interval: 1h
  timeout: 10m
  releaseName: longhorn
  chart:
    spec:
      chart: longhorn
      version: 1.10.1
      sourceRef:
        kind: HelmRepository
        name: longhorn
  install:
    crds: CreateReplace
    remediation:
      retries: 3
  upgrade:
    crds: CreateReplace
    remediation:
      retries: 3
  values:
    # As `addons.longhorn` of the cluster's spec prepares the nodes.
    csi:
      kubeletRootDir: /var/lib/kubelet
    defaultSettings:
      defaultDataPath: /var/lib/longhorn
      defaultReplicaCount: 2
    persistence:
      defaultClassReplicaCount: 2
    # A hook that only `helm upgrade` runs; Flux compares versions by itself.
    preUpgradeChecker:
      jobEnabled: false
)"},
    {"infrastructure/external-secrets/kustomization.yaml",
     R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - release.yaml
)"},
    {"infrastructure/external-secrets/namespace.yaml", R"(apiVersion: v1
kind: Namespace
metadata:
  name: external-secrets
)"},
    {"infrastructure/external-secrets/release.yaml",
     R"(# The same names as `handover.externalSecrets`: where rocca brought it, Flux takes it over.
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata:
  name: external-secrets
  namespace: external-secrets
spec:
  interval: 12h
  url: https://charts.external-secrets.io
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: external-secrets
  namespace: external-secrets
spec:
  interval: 1h
  releaseName: external-secrets
  chart:
    spec:
      chart: external-secrets
      version: 2.9.0
      sourceRef:
        kind: HelmRepository
        name: external-secrets
  install:
    crds: CreateReplace
    remediation:
      retries: 3
  upgrade:
    crds: CreateReplace
    remediation:
      retries: 3
  values:
    installCRDs: true
)"},
    {"infrastructure/traefik/kustomization.yaml", R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - release.yaml
)"},
    {"infrastructure/traefik/namespace.yaml", R"(apiVersion: v1
kind: Namespace
metadata:
  name: traefik
)"},
    {"infrastructure/traefik/release.yaml", R"(apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata:
  name: traefik
  namespace: traefik
spec:
  interval: 12h
  url: https://traefik.github.io/charts
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: traefik
  namespace: traefik
spec:
  interval: 1h
  releaseName: traefik
  chart:
    spec:
      chart: traefik
      version: 41.3.0
      sourceRef:
        kind: HelmRepository
        name: traefik
  install:
    crds: CreateReplace
    remediation:
      retries: 3
  upgrade:
    crds: CreateReplace
    remediation:
      retries: 3
  values:
    deployment:
      replicas: 2
)"},
};

}  // namespace

std::span<const GitopsTemplate> infrastructure_templates() {
  return templates;
}

}  // namespace rocca::spec
