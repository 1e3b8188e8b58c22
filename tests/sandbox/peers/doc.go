// Package peers starts the tools that plumbline lives beside, as their real controllers: Flux's
// source-controller, kustomize-controller, helm-controller and notification-controller, and Argo CD's application
// controller and repo server with Redis, and its notifications controller. They are processes that follow Git and write to a control plane of package kube.
//
// In goes a control plane; out comes a Peer, whose objects (GitRepositories and Kustomizations, or
// Applications) are applied by the caller. Their CRDs come from their modules. Each program has
// the ServiceAccount that its own manifests give it, in flux-system or argocd, and may do all, as
// there. They are built at first use, which takes minutes: no sandbox starts them by itself.
package peers
