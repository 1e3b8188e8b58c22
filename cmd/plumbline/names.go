package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// home is the namespace that the manifests make for the daemon.
const home = "plumbline-system"

// nameOf takes a NodeSync's name as kubectl does: prod, nodesync/prod or nodesyncs/prod.
func nameOf(arg string) (string, error) {
	kind, name, typed := strings.Cut(arg, "/")
	switch {
	case !typed:
		return arg, nil
	case !slices.Contains([]string{"nodesync", "nodesyncs", "nodesync.plumbline.dev", "nodesyncs.plumbline.dev"}, strings.ToLower(kind)):
		return "", fmt.Errorf("%s is no name of a NodeSync: give NAME or nodesync/NAME", arg)
	case name == "" || strings.Contains(name, "/"):
		return "", fmt.Errorf("%s names no NodeSync: give nodesync/NAME", arg)
	}
	return name, nil
}

// refOfArgument reads KIND/NAME of a definition, the kind as kubectl takes it.
func refOfArgument(arg string) (render.Ref, error) {
	kind, name, _ := strings.Cut(arg, "/")
	for _, known := range render.Kinds() {
		singular := strings.ToLower(known.GVK.Kind)
		if names := []string{singular, known.GVR.Resource, singular + "." + known.GVK.Group, known.CRD}; name != "" && slices.Contains(names, strings.ToLower(kind)) {
			return render.Ref{Kind: known.GVK.Kind, Name: name}, nil
		}
	}
	return render.Ref{}, fmt.Errorf("%q is no definition: give NodePool/NAME or EC2NodeClass/NAME", arg)
}

// nodeSyncWord names a NodeSync in messages, however it was named.
func nodeSyncWord(arg string) string {
	if name, err := nameOf(arg); err == nil {
		return "nodesync/" + name
	}
	return arg
}

// in is the namespace whose NodeSyncs are meant: that of -n; that of the kubeconfig's context, where
// it has some; else that of the daemon, which serves no other, whether it has some or not.
func (c *cluster) in(ctx context.Context) string {
	if c.settled {
		return c.namespace
	}
	c.settled = true
	if has, err := c.has(ctx, c.namespace); has || err != nil && !apierrors.IsForbidden(err) {
		return c.namespace
	}
	daemons := c.daemons(ctx)
	for _, namespace := range append(slices.Clone(daemons), home) {
		if has, _ := c.has(ctx, namespace); has {
			c.namespace = namespace
			return namespace
		}
	}
	if len(daemons) > 0 {
		c.namespace = daemons[0] // where the first NodeSync will be
	}
	return c.namespace
}

// has says whether there is a NodeSync in a namespace.
func (c *cluster) has(ctx context.Context, namespace string) (bool, error) {
	list := &v1alpha1.NodeSyncList{}
	err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
	return len(list.Items) > 0, err
}

// installed is an error where NodeSyncs are not served: a command that asks for something else would find
// nothing, and not say why.
func (c *cluster) installed(ctx context.Context, doing string) error {
	if _, err := c.has(ctx, c.in(ctx)); err != nil && !apierrors.IsForbidden(err) {
		return explain(err, doing)
	}
	return nil
}

// daemons are the namespaces with a Deployment of plumbline; none where they may not be listed.
func (c *cluster) daemons(ctx context.Context) (namespaces []string) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeploymentList"))
	list.APIVersion = "apps/v1"
	if err := c.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/name": "plumbline"}); err != nil {
		return nil
	}
	for i := range list.Items {
		namespaces = append(namespaces, list.Items[i].Namespace)
	}
	return namespaces
}
