package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// undoAll deletes the stack and the tags of subnets and security groups, unless something still needs them.
func (b *bootstrapCommand) undoAll(ctx context.Context) error {
	for range stackRounds {
		made, err := b.made(ctx)
		if err != nil {
			return err
		}
		if !made.exists() {
			if _, err := b.aws.Cluster(ctx, b.cluster); errors.As(err, new(*cloud.NotFoundError)) {
				return fmt.Errorf("stack %s does not exist, and neither does the cluster: check --cluster and --region: %w", b.stack.Stack, err)
			}
			b.say("stack " + b.stack.Stack + " does not exist")
			return nil
		}
		if err := b.unused(ctx); err != nil {
			return err
		}
		if action, why := bootstrap.NextOfUndo(made.stack); action == bootstrap.Follow {
			b.say(why)
			if _, err := b.stack.Follow(ctx, ""); err != nil && ctx.Err() != nil {
				return b.interrupted(ctx, err)
			}
			continue
		}
		b.showUndo(made)
		if b.dryRun {
			return &exitError{code: exitChanges}
		}
		if err := b.confirm("Delete this?"); err != nil {
			return err
		}
		if err := b.unused(ctx); err != nil { // the user may have taken a while
			return err
		}
		return b.interrupted(ctx, b.delete(ctx, made))
	}
	return fmt.Errorf("stack %s: other clients change it all the time; run this command again later", b.stack.Stack)
}

// bootstrapped is what a bootstrap has made in AWS.
type bootstrapped struct {
	// stack is nil if it does not exist; template is its template.
	stack    *cloud.Stack
	template bootstrap.Template
	// tagged are the IDs of the subnets and security groups that it has tagged.
	tagged []string
}

// made reads what a bootstrap has made.
func (b *bootstrapCommand) made(ctx context.Context) (m bootstrapped, err error) {
	if m.stack, m.template, err = b.stack.Current(ctx); err != nil {
		return m, err
	}
	if action, _ := bootstrap.NextOfUndo(m.stack); action == bootstrap.Nothing {
		m.stack = nil
	}
	m.tagged, err = b.aws.TaggedNetwork(ctx, bootstrap.Tag, b.stack.Stack)
	return m, err
}

// exists reports whether there is something to delete.
func (m bootstrapped) exists() bool { return m.stack != nil || len(m.tagged) > 0 }

// delete deletes what a bootstrap has made, the stack last: another run finds the rest by it.
func (b *bootstrapCommand) delete(ctx context.Context, made bootstrapped) error {
	if err := b.removeFromAuth(ctx, made.template); err != nil {
		return err
	}
	if len(made.tagged) > 0 {
		b.say("deleting the discovery tags of " + english.Plural(len(made.tagged), "subnet or security group", "subnets and security groups"))
		if err := b.aws.Untag(ctx, made.tagged, b.discoveryTagsOf()); err != nil {
			return err
		}
	}
	if made.stack == nil {
		return nil
	}
	return b.stack.Delete(ctx, made.stack)
}

// showUndo prints what is deleted.
func (b *bootstrapCommand) showUndo(made bootstrapped) {
	out := &display.Visible{Writer: b.cmd.OutOrStdout()}
	if made.stack != nil {
		fmt.Fprintf(out, "deleting stack %s:\n\n", b.stack.Stack)
		printChanges(out, made.removals(), made.template.NamesIn())
	}
	if len(made.tagged) > 0 {
		fmt.Fprintf(out, "deleting the tags %s and %s of %s\n", bootstrap.DiscoveryTag, bootstrap.Tag, strings.Join(made.tagged, ", "))
	}
}

// removals returns a row for each resource of the stack.
func (m bootstrapped) removals() []cloud.StackChange {
	var changes []cloud.StackChange
	for _, c := range m.template.Additions(bootstrap.Template{}) {
		c.Action = "Remove"
		if m.template.Resources[c.ID].DeletionPolicy == "Retain" {
			c.Action = "Keep"
		}
		changes = append(changes, c)
	}
	return changes
}

// unused returns an error if nodes or a NodeSync need the stack.
func (b *bootstrapCommand) unused(ctx context.Context) error {
	instances, err := b.aws.Instances(ctx, cloud.Query{Cluster: b.cluster, AllPools: true})
	switch {
	case err != nil:
		return err
	case len(instances) > 0:
		return fmt.Errorf("stack %s is in use by %d instances of Karpenter, such as %s: plumbline teardown removes the nodes first",
			b.stack.Stack, len(instances), instances[0].ID)
	}
	is, err := b.aws.Cluster(ctx, b.cluster)
	var missing *cloud.NotFoundError
	switch {
	case errors.As(err, &missing):
		return nil // the cluster is deleted
	case err != nil:
		return err
	}
	c, err := b.clusterOf(ctx, is)
	if err != nil {
		return err
	}
	for _, kind := range []struct{ version, kind string }{{"karpenter.sh/v1", "NodeClaim"}, {v1alpha1.GroupVersion.String(), "NodeSync"}} {
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": kind.version, "kind": kind.kind + "List"}}
		if err := c.List(ctx, list); err != nil && !apimeta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return explain(err, "list objects of kind "+kind.kind)
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("stack %s is in use by %s %s: plumbline teardown --down-to controller removes the nodes, the NodeSync and "+
				"Karpenter first",
				b.stack.Stack, kind.kind, list.Items[0].GetName())
		}
	}
	return b.controllerGone(ctx, c)
}

// controllerGone returns an error if Karpenter's controller uses its role.
func (b *bootstrapCommand) controllerGone(ctx context.Context, c client.Client) error {
	deployments := &appsv1.DeploymentList{}
	if err := c.List(ctx, deployments, client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}); err != nil {
		return explain(err, "list Deployments")
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		return fmt.Errorf("stack %s is in use by Karpenter's controller, Deployment %s/%s: plumbline teardown --down-to controller uninstalls it first",
			b.stack.Stack, d.Namespace, d.Name)
	}
	return nil
}

// removeFromAuth removes the entry for nodes from aws-auth, if it is as authStep has written it.
func (b *bootstrapCommand) removeFromAuth(ctx context.Context, current bootstrap.Template) error {
	name := current.NamesIn()[bootstrap.NodeRole]
	if current.Resources[bootstrap.NodeAccess].Type != "" || name == "" || current.Resources[bootstrap.NodeRole].DeletionPolicy != "" {
		return nil
	}
	is, err := b.aws.Cluster(ctx, b.cluster)
	if err != nil {
		var missing *cloud.NotFoundError
		if errors.As(err, &missing) {
			return nil
		}
		return err
	}
	c, err := b.clusterOf(ctx, is)
	if err != nil {
		return err
	}
	auth := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: authName}, auth); err != nil {
		return explained(client.IgnoreNotFound(err), "read ConfigMap kube-system/"+authName)
	}
	rest := bootstrap.RemoveAuth(auth.Data[mapRoles], bootstrap.RoleARN(is.ARN, name))
	if rest == auth.Data[mapRoles] || len(owners.All(auth)) > 0 {
		return nil
	}
	b.say("removing the entry for nodes from ConfigMap kube-system/" + authName)
	return writeAuth(ctx, c, auth, rest)
}
