package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// find reads the NodeSync and takes the cluster's names of it. It is nil where there is none and the
// flags say the names: an earlier run may have ended it.
func (t *teardown) find(ctx context.Context, args []string) (*v1alpha1.NodeSync, error) {
	sync, err := t.read(ctx, args)
	if err != nil || sync == nil {
		return nil, err
	}
	if err := t.drainable(sync); err != nil {
		return nil, err
	}
	t.name = sync.Name
	k := sync.Status.Karpenter
	switch unknown := k == nil || k.Cluster == "" || k.Region == ""; {
	case t.v.cluster == "":
	case unknown:
		return sync, nil
	case t.v.cluster != k.Cluster || t.v.region != k.Region:
		return nil, fmt.Errorf("nodesync/%s is of cluster %s in %s, and not of %s in %s: correct --cluster and --region, or the kubeconfig's context", sync.Name, k.Cluster, k.Region, t.v.cluster, t.v.region)
	}
	return sync, t.v.take(sync)
}

// read reads the NodeSync that is named, or the only one of the namespace.
func (t *teardown) read(ctx context.Context, args []string) (*v1alpha1.NodeSync, error) {
	if len(args) == 0 {
		return t.onlyOne(ctx)
	}
	name, err := nameOf(args[0])
	if err != nil {
		return nil, err
	}
	t.name = name
	sync, err := t.c.whole(ctx, name)
	if missing := apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err); missing && t.v.cluster != "" {
		return nil, nil
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("nodesync/%s does not exist in %s, `plumbline get -A` lists all; if it was torn down, --cluster and --region have AWS asked what is left", name, t.c.in(ctx))
	}
	if err != nil {
		return nil, explain(err, fmt.Sprintf("read NodeSync %s/%s", t.c.in(ctx), name))
	}
	return sync, nil
}

func (t *teardown) onlyOne(ctx context.Context) (*v1alpha1.NodeSync, error) {
	list, err := t.c.listed(ctx, false)
	if err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		if t.v.cluster != "" {
			return nil, nil
		}
		return nil, fmt.Errorf("no NodeSync in %s, `plumbline get -A` lists all; if it was torn down, --cluster and --region have AWS asked what is left", t.c.in(ctx))
	case 1:
		return t.read(ctx, []string{list.Items[0].Name})
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return nil, fmt.Errorf("there are several NodeSyncs in %s: name one of %s", t.c.in(ctx), strings.Join(names, ", "))
}

// whole reads a NodeSync with what wrote its fields; its errors are the API server's.
func (c *cluster) whole(ctx context.Context, name string) (*v1alpha1.NodeSync, error) {
	sync := &v1alpha1.NodeSync{}
	return sync, c.Get(ctx, client.ObjectKey{Namespace: c.in(ctx), Name: name}, sync)
}

// confirm has the user type a name, after what has been shown of it.
func (t *teardown) confirm(ctx context.Context, what, name string) error {
	if t.yes {
		return nil
	}
	terminal := terminalOf(t.cmd)
	if terminal == nil {
		return &usageError{cmd: t.cmd, err: fmt.Errorf("%s: where nobody can type its name, confirm that by --yes", what)}
	}
	if typedLine(ctx, t.cmd, terminal, fmt.Sprintf("\nType %s to end all of this: ", name)) != name {
		return errUnconfirmed
	}
	return nil
}

// withoutDaemon says why nobody would end the nodes; empty where a daemon leads, or nobody can tell.
// One that runs outside the cluster without --leader-elect is not noticed.
func (c *cluster) withoutDaemon(ctx context.Context, now func() time.Time) string {
	namespace := c.in(ctx)
	if why := unled(ctx, c, namespace, now); why != "" {
		why, _, _ = strings.Cut(why, "; what follows is of then")
		return why
	}
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, lease)
	is := "was released"
	switch {
	case apierrors.IsNotFound(err):
		is = "does not exist"
	case err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "":
		return ""
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "plumbline"}); err != nil {
		return ""
	}
	for i := range pods.Items {
		for _, condition := range pods.Items[i].Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
	}
	return fmt.Sprintf("no daemon leads: lease %s/%s %s, and no pod of plumbline is Ready there", namespace, leaseName, is)
}
