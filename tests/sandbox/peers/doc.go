// Package peers starts the tools that run next to plumbline, with their real controllers: Flux's source-controller,
// kustomize-controller, helm-controller and notification-controller, and Argo CD's application controller and repo
// server with Redis, and its notifications controller. They are processes that follow Git and write to a control plane
// of package kube.
//
// It takes a control plane and returns a Peer, whose objects (GitRepositories and Kustomizations, or Applications) the
// caller applies. Their CRDs come from their modules. Each program has the ServiceAccount of its own manifests, in
// flux-system or argocd, with all permissions, as there. They are built at first use, which takes minutes: no sandbox
// starts them by itself.
package peers
