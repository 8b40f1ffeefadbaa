#include "scaffold/gitops.hpp"

#include "scaffold/gitops_templates.hpp"

namespace rocca::spec {

namespace {

// What a folder of the cluster needs before it can work is said in one place: dependsOn of its
// Kustomization in flux/. A Kustomization with `wait` is ready when all that is in it works; what
// is checked by a webhook (MetalLB's pools, issuers) is one of its own behind it, and tried again
// soon, because a webhook may answer a little later than its Pod is ready.
constexpr GitopsTemplate templates[] = {
    {"README.md", R"(# What runs in the cluster

Flux keeps the cluster as this repository says. `flux/` is its root (`handover.flux.path: flux` in the
cluster's spec) and says what comes after what; everything else is a folder of its own.

    flux/            what is brought, in which order
    infrastructure/  MetalLB, cert-manager, Longhorn, External Secrets, Traefik
    apps/site/       a small site: several replicas, each filled by git-sync

Before the first push, change what is marked with `CHANGE`:

    grep -rn CHANGE .

What the cluster's own spec must have for it: `addons.longhorn: true` and the extensions iscsi-tools and
util-linux-tools. Secrets go in encrypted (SOPS, with `handover.flux.decryption`) or come through External
Secrets. The repository that holds cluster.yaml is another one, and Flux never sees it.

Every object here is one that Kubernetes, Flux and cert-manager take by their own definitions. What could not be
checked before you, because its definitions were not at hand, and shows only in a cluster:

    infrastructure/metallb-pool      IPAddressPool, L2Advertisement: MetalLB's own kinds
    infrastructure/cert-manager      the values of its chart
    infrastructure/longhorn          the values of its chart
    infrastructure/external-secrets  the values of its chart
    infrastructure/traefik           the values of its chart
)"},
    {"flux/kustomization.yaml", R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - infrastructure.yaml
  - apps.yaml
)"},
    {"flux/infrastructure.yaml", R"(# MetalLB first; its pool only once its webhook can be asked.
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: metallb
  namespace: flux-system
spec:
  interval: 1h
  retryInterval: 30s
  timeout: 5m
  path: ./infrastructure/metallb
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: flux-system
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: metallb-pool
  namespace: flux-system
spec:
  dependsOn:
    - name: metallb
  interval: 1h
  # MetalLB's Pods are ready before its webhook listens: that is no failure, only too early.
  retryInterval: 10s
  timeout: 3m
  path: ./infrastructure/metallb-pool
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: flux-system
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: cert-manager
  namespace: flux-system
spec:
  interval: 1h
  retryInterval: 30s
  timeout: 5m
  path: ./infrastructure/cert-manager
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: flux-system
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: cert-manager-issuer
  namespace: flux-system
spec:
  dependsOn:
    - name: cert-manager
  interval: 1h
  retryInterval: 10s
  timeout: 3m
  path: ./infrastructure/cert-manager-issuer
  prune: true
  sourceRef:
    kind: GitRepository
    name: flux-system
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: longhorn
  namespace: flux-system
spec:
  interval: 1h
  retryInterval: 30s
  timeout: 15m
  path: ./infrastructure/longhorn
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: flux-system
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: external-secrets
  namespace: flux-system
spec:
  interval: 1h
  retryInterval: 30s
  timeout: 5m
  path: ./infrastructure/external-secrets
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: flux-system
---
# Traefik's Service gets an address only from a pool.
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: traefik
  namespace: flux-system
spec:
  dependsOn:
    - name: metallb-pool
  interval: 1h
  retryInterval: 30s
  timeout: 5m
  path: ./infrastructure/traefik
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: flux-system
)"},
    {"flux/apps.yaml", R"(apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: site
  namespace: flux-system
spec:
  dependsOn:
    - name: traefik
    - name: cert-manager-issuer
  interval: 10m
  retryInterval: 1m
  timeout: 5m
  path: ./apps/site
  prune: true
  sourceRef:
    kind: GitRepository
    name: flux-system
  healthChecks:
    - apiVersion: apps/v1
      kind: Deployment
      name: site
      namespace: site
)"},
    {"apps/site/kustomization.yaml", R"(apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - server.yaml
  - deployment.yaml
  - service.yaml
)"},
    {"apps/site/namespace.yaml", R"(apiVersion: v1
kind: Namespace
metadata:
  name: site
  labels:
    pod-security.kubernetes.io/enforce: restricted
)"},
    {"apps/site/server.yaml", R"(apiVersion: v1
kind: ConfigMap
metadata:
  name: site-server
  namespace: site
data:
  default.conf: |
    server {
      listen 8080;
      root /git/site;
    }
)"},
    {"apps/site/deployment.yaml",
     R"(# Each replica has its own copy: git-sync fills an emptyDir before the server begins, and follows the branch.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: site
  namespace: site
spec:
  replicas: 3
  selector:
    matchLabels:
      app.kubernetes.io/name: site
  template:
    metadata:
      labels:
        app.kubernetes.io/name: site
    spec:
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 65533
        runAsGroup: 65533
        fsGroup: 65533
        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: site
      initContainers:
        - name: fetch
          image: registry.k8s.io/git-sync/git-sync:v4.7.1
          args:
            - --repo=https://git.example/ann/site  # CHANGE: the repository with the site's files
            - --ref=main
            - --depth=1
            - --root=/git
            - --link=site
            - --one-time
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: files
              mountPath: /git
            - name: scratch
              mountPath: /tmp
      containers:
        - name: server
          image: docker.io/nginxinc/nginx-unprivileged:1.29-alpine
          ports:
            - name: http
              containerPort: 8080
          readinessProbe:
            httpGet:
              path: /
              port: http
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: 64Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: files
              mountPath: /git
              readOnly: true
            - name: server
              mountPath: /etc/nginx/conf.d
              readOnly: true
            - name: scratch
              mountPath: /tmp
        - name: follow
          image: registry.k8s.io/git-sync/git-sync:v4.7.1
          args:
            - --repo=https://git.example/ann/site  # CHANGE: the same
            - --ref=main
            - --depth=1
            - --root=/git
            - --link=site
            - --period=60s
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: 128Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: files
              mountPath: /git
            - name: scratch
              mountPath: /tmp
      volumes:
        - name: files
          emptyDir: {}
        - name: scratch
          emptyDir: {}
        - name: server
          configMap:
            name: site-server
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: site
  namespace: site
spec:
  minAvailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: site
)"},
    {"apps/site/service.yaml", R"(apiVersion: v1
kind: Service
metadata:
  name: site
  namespace: site
spec:
  selector:
    app.kubernetes.io/name: site
  ports:
    - name: http
      port: 80
      targetPort: http
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: site
  namespace: site
  annotations:
    cert-manager.io/cluster-issuer: home
spec:
  ingressClassName: traefik
  tls:
    - hosts:
        - site.home  # CHANGE: a name that leads to Traefik's address
      secretName: site-tls
  rules:
    - host: site.home
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: site
                port:
                  name: http
)"},
    {".gitignore", R"(# Nothing in clear text that is to be encrypted.
*.age
*.agekey
*.dec.yaml
)"},
};

}  // namespace

std::vector<NewFile> gitops_files(const std::string& folder) {
  std::vector<NewFile> all;
  const auto add = [&](std::span<const GitopsTemplate> some) {
    for (const GitopsTemplate& one : some)
      all.push_back({folder + "/" + one.path, one.text, 0644, false});
  };
  add(templates);
  add(infrastructure_templates());
  return all;
}

}  // namespace rocca::spec
