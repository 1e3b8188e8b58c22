package upgrade

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// leaseName is what Karpenter's replicas elect their leader by
// (sigs.k8s.io/karpenter pkg/operator/options/options.go, leader-election-name).
const leaseName = "karpenter-leader-election"

// Leads says whether a pod of a Deployment's newest template leads: a replica
// can be ready while one of the version before still does the work, since a
// leader that ends does not give up its lease. Where the election is off each
// replica works. It reads past the cache.
func Leads(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (observe.Readiness, error) {
	whole, pods, err := readReplicas(ctx, reader, deployment)
	if err != nil || electsNone(whole) {
		return observe.Readiness{Ready: err == nil}, err
	}
	_, is, err := leader(ctx, reader, whole, pods)
	return is, err
}

// OneLeads says whether a Deployment that is not complete serves all the same: no
// pod of an earlier template is left, and one that is ready leads, or all do where
// the election is off. The message names a replica that is missing, and why.
func OneLeads(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (observe.Readiness, error) {
	message := observe.RolledOut(deployment).Message
	if !observe.Partly(deployment) {
		return observe.Readiness{Message: message}, nil
	}
	whole, pods, err := readReplicas(ctx, reader, deployment)
	if err != nil {
		return observe.Readiness{}, err
	}
	if !electsNone(whole) {
		leads, is, err := leader(ctx, reader, whole, pods)
		if err != nil {
			return observe.Readiness{}, err
		}
		if is.Ready && !ready(leads) {
			is = observe.Readiness{Message: fmt.Sprintf("pod/%s leads, and is not ready", leads.Name)}
		}
		if !is.Ready {
			return observe.Readiness{Message: message + "; " + is.Message}, nil
		}
	}
	if missing := worst(pods); missing != nil {
		message += "; " + describe(missing)
	}
	return observe.Readiness{Ready: true, Message: message}, nil
}

// leader is the pod that holds the lease, and whether it is one of the newest
// template that goes on.
func leader(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment, pods []corev1.Pod) (*corev1.Pod, observe.Readiness, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return nil, observe.Readiness{}, fmt.Errorf("read lease %s: %w", leaseName, err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, observe.Readiness{Message: "no replica of deployment/" + deployment.Name + " leads yet"}, nil
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	pod := podOn(pods, host)
	if pod == nil {
		return nil, observe.Readiness{Message: fmt.Sprintf("lease %s is held by %s, which is gone, until it runs out", leaseName, host)}, nil
	}
	if has, want := image(pod.Spec.Containers), image(deployment.Spec.Template.Spec.Containers); has != want {
		return pod, observe.Readiness{Message: fmt.Sprintf("pod/%s still leads, with image %s", pod.Name, has)}, nil
	}
	if pod.DeletionTimestamp != nil {
		return pod, observe.Readiness{Message: fmt.Sprintf("pod/%s still leads, and is terminating", pod.Name)}, nil
	}
	return pod, observe.Readiness{Ready: true}, nil
}

// podOn is the pod whose processes see a host name: that of its node where it is on
// the host's network.
func podOn(pods []corev1.Pod, host string) *corev1.Pod {
	for i := range pods {
		spec := &pods[i].Spec
		onHost := spec.HostNetwork && (spec.NodeName == host || strings.HasPrefix(spec.NodeName, host+"."))
		if hostname(pods[i].Name) == host || spec.Hostname == host || onHost {
			return &pods[i]
		}
	}
	return nil
}

// hostname is what the processes of a pod see of its name: a host name has 63 characters at
// the most (truncatePodHostnameIfNeeded in k8s.io/kubernetes pkg/kubelet/kubelet_pods.go).
func hostname(pod string) string {
	const most = 63
	if len(pod) <= most {
		return pod
	}
	return strings.TrimRight(pod[:most], "-.")
}
