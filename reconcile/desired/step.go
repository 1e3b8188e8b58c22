// Package desired turns a Snapshot of the repository into what Git wants: Karpenter's
// configuration, its charts and their values, the schema of the definitions, and the Set
// of definitions.
package desired

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// Desired is what Git wants. What a Step has not come to yet is zero.
type Desired struct {
	Karpenter *render.Karpenter
	// Files are those of the checkout that charts and values are read from.
	Files *render.Files
	// Values are those of the main chart, of all origins, merged.
	Values charts.Values
	// Charts are nil where they are unavailable, or another tool's.
	Charts *charts.Charts

	Schema *schema.Validator
	// SchemaIdentity is equal for two passes with the same schema.
	SchemaIdentity string
	// Older is the schema of the version in Git where the CRDs in the cluster are
	// newer: definitions have to pass both. Nil where they are not.
	Older *schema.Validator

	Set *render.Set

	// Serving is the version of the release that stays in force, where a change of the
	// charts is not made.
	Serving string
	// Unpulled is why the charts are unavailable, where the pass goes on with those that
	// are installed.
	Unpulled error
	// Renamed is what a commit may not do unless AWS confirms the new name of the
	// cluster; nil where it does not rename it.
	Renamed error

	// FileValues are the values in files.
	FileValues []map[string]any
}

// Read is what the Set was made of, or where this revision does not render that of the last that did.
func (d *Desired) Read(last *Memory) render.Read {
	switch {
	case d.Set != nil:
		return d.Set.Read()
	case last.Set != nil:
		return last.Set.Read()
	}
	return render.Read{}
}

// Cluster is the EKS cluster as Git names it, or as the first install fixed it where
// there is no Git to read; empty where neither does.
func (d *Desired) Cluster(fixed *v1alpha1.KarpenterStatus) (name, region string) {
	switch {
	case d.Karpenter != nil:
		return d.Karpenter.Cluster.Name, d.Karpenter.Cluster.Region
	case fixed != nil:
		return fixed.Cluster, fixed.Region
	}
	return "", ""
}

// Store resolves a version to its two charts.
type Store interface {
	Resolve(ctx context.Context, ref charts.Ref, access charts.Access) (*charts.Charts, error)
	// Verify checks that both charts are signed by one of the signers.
	Verify(ctx context.Context, ref charts.Ref, c *charts.Charts, access charts.Access, by charts.Signers) error
}

// Releases tells what Helm knows of the two releases.
type Releases interface {
	State(ctx context.Context, namespace string) (release.State, error)
}

// Tools are what a Step works with, the same for all NodeSyncs.
type Tools struct {
	// Cached and Uncached read where the NodeSyncs are: them, their Secrets and values.
	Cached, Uncached client.Reader
	Store            Store
	Releases         Releases
	// Schemas are those that are compiled.
	Schemas *schema.Cache
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner
	// Shared are the values that definitions in Git share with those in the cache.
	Shared *render.Values
	// Disk has what definitions rendered to before this process; nil has nothing.
	Disk *render.Disk
	// Grants say whether a Secret has to name the hosts that it is for.
	Grants grant.Policy
	// KarpenterNamespaces are those in which Karpenter's objects can be read; none: all.
	KarpenterNamespaces []string
	// CABundle is the cluster's authorities, PEM in base64; empty where they are not known.
	CABundle string
}

// Step is the work on what Git wants, of one pass over one NodeSync.
type Step struct {
	Tools
	finding.Findings
	// Desired is what the steps before have come to, and what this one adds.
	*Desired

	Snapshot *render.Snapshot
	// Sync is the NodeSync, which is only read, and Observed the generation that its
	// last status is of.
	Sync     *v1alpha1.NodeSync
	Observed int64
	View     *cluster.View
	// Live is what lives of the definitions.
	Live   plan.Live
	Memory *Memory

	Now time.Time
	// Timeout is how long a registry may take, and Retry how long what failed is not
	// tried again. Another Attempt makes it due at once.
	Timeout, Retry time.Duration
	Attempt        string
	// NotUpgraded is why a change of the charts is not made, where the pass goes on under
	// the release in force.
	NotUpgraded error

	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	// Labelled reads the objects that are labelled for values of the chart. listed learns
	// that they could be listed, and says when the next pass is wanted for that; zero for
	// none.
	Labelled func(context.Context) (reader client.Reader, listed func() time.Duration, err error)
	// HideValues and HideCredential get what came out of Secrets, before anything
	// else is reported.
	HideValues     func([]string)
	HideCredential func(string)
}

// Memory is what one pass leaves to the next so that unchanged things are not done
// again. The zero value remembers nothing.
type Memory struct {
	// Set is the last one that was rendered.
	Set        *render.Set
	renderedBy renderKey
	rendered   render.Cache
	slow       slow
	rescuer    plan.Rescuer
	// prepared says that Prepare was called.
	prepared bool
	// The charts whose signatures were verified last.
	signed signedCharts
	// The CRDs of a chart in Git that were compared last.
	compared compared
	// The charts that are unavailable.
	unpulled unpulled
	// The schema of the version that serves while a change of the charts is refused or
	// held.
	served servedSchema
}

// renderKey is what a Set depends on beside the repository's files.
type renderKey struct {
	schema string
	older  *schema.Validator
	path   string
}
