package evaluate

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/internal/sops"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// Desired is what Git wants. Fields that no Step has set yet are zero.
type Desired struct {
	Karpenter *render.Karpenter
	// Files are those of the checkout that charts and values are read from.
	Files *render.Files
	// Values are those of the main chart, merged from all origins.
	Values charts.Values
	// Charts are nil if they are unavailable, or managed by another tool.
	Charts *charts.Charts

	Schema *schema.Validator
	// SchemaIdentity is equal for two reconciles with the same schema.
	SchemaIdentity string
	// Older is the schema of the version in Git if the CRDs in the cluster are newer: definitions must be valid under
	// both. Nil otherwise.
	Older *schema.Validator

	Set *render.Set

	// ServedByEKS are the names of Karpenter's CRDs that EKS keeps up to date, which the charts leave as they are, with
	// management Managed.
	ServedByEKS []string

	// Serving is the version of the release that stays in force, if a change of the charts is not made.
	Serving string
	// Unpulled is why the charts are unavailable, if the reconcile continues with those that are installed.
	Unpulled error
	// Renamed is the error of a commit that renames the cluster, which applies unless AWS confirms the new name; nil if
	// it does not rename it.
	Renamed error

	// FileValues are the values in files.
	FileValues []map[string]any
}

// Read returns what the Set was made from; if this revision does not render, that of the last one that did.
func (d *Desired) Read(last *DesiredMemory) render.Read {
	switch {
	case d.Set != nil:
		return d.Set.Read()
	case last.Set != nil:
		return last.Set.Read()
	}
	return render.Read{}
}

// Cluster returns the EKS cluster that Git names, or that the first install fixed if Git was not read; empty if neither
// is known.
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

// Releases returns Helm's state of the two releases.
type Releases interface {
	State(ctx context.Context, namespace string) (release.State, error)
}

// DesiredTools are the dependencies of a Step, the same for all NodeSyncs.
type DesiredTools struct {
	// Cached and Uncached read the cluster with the NodeSyncs, their Secrets and values.
	Cached, Uncached client.Reader
	Store            Store
	Releases         Releases
	// Schemas are the compiled ones.
	Schemas *schema.Cache
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner
	// Grants report whether a Secret must name the hosts that it may be sent to.
	Grants grant.Policy
	// KarpenterNamespaces are those in which Karpenter's objects can be read; if empty, all.
	KarpenterNamespaces []string
	// CABundle contains the cluster's certificate authorities, PEM in base64; empty if unknown.
	CABundle string
}

// DesiredStep finds out what Git wants, in one reconcile of one NodeSync.
type DesiredStep struct {
	DesiredTools
	finding.Findings
	// Desired is the result of the previous steps, to which this one adds.
	*Desired

	Snapshot *render.Snapshot
	// Sync is the NodeSync, which is only read, and Observed the generation of its last status.
	Sync     *v1alpha1.NodeSync
	Observed int64
	View     *cluster.View
	// Live contains the live definitions.
	Live   plan.Live
	Memory *DesiredMemory

	Now time.Time
	// Timeout is how long a registry may take, and Retry how long a failure is not retried. Another Attempt makes it
	// due at once.
	Timeout, Retry time.Duration
	Attempt        string
	// NotUpgraded is why a change of the charts is not made, if the reconcile continues under the release in force.
	NotUpgraded error

	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	// KMS decrypts with a key of AWS KMS, for files with values that were encrypted with SOPS; nil if AWS is not asked.
	KMS DecryptByKMS
	// Labelled reads the objects that are labelled for values of the chart. listed is called once they could be listed,
	// and returns when to reconcile again for them; zero for never.
	Labelled func(context.Context) (reader client.Reader, listed func() time.Duration, err error)
	// HideValues and HideCredential receive values and credentials from Secrets, before anything else is reported.
	HideValues     func([]string)
	HideCredential func(string)
}

// DesiredMemory is kept from one reconcile to the next, so that unchanged work is not repeated. The zero value
// remembers nothing.
type DesiredMemory struct {
	// Set is the last rendered one.
	Set        *render.Set
	renderedBy renderKey
	rendered   render.Cache
	slow       slow
	rescuer    plan.Rescuer
	// prepared reports whether Prepare was called.
	prepared bool
	// The charts whose signatures were verified last.
	signed signedCharts
	// The CRDs of a chart in Git that were compared last.
	compared compared
	// The charts that are unavailable.
	unpulled unpulled
	// The schema of the version in force while a change of the charts is refused or held.
	served servedSchema
	// servedByEKS are the CRDs that EKS keeps; zero if it keeps none.
	servedByEKS servedByEKS
}

// renderKey is what a Set depends on besides the repository's files.
type renderKey struct {
	schema string
	older  *schema.Validator
	path   string
}

// MergeValues merges the values of the main chart: those of objects in the cluster, of files, and of plumbline.yaml
// itself; later ones override earlier ones.
func (s *DesiredStep) MergeValues(ctx context.Context) error {
	layers, err := s.objectValues(ctx)
	if err != nil {
		return err
	}
	inFiles, err := s.decrypted(ctx)
	if err != nil {
		return err
	}
	if s.Values, err = charts.Merge(append(layers, inFiles...)...); err != nil {
		return err
	}
	s.HideValues(s.withoutPublicValues(s.Values.Secrets))
	return nil
}

// MergeInGit merges the values in Git: those of files, as they were read, and of plumbline.yaml itself. Encrypted values are
// left out.
func MergeInGit(k *render.Karpenter, files []map[string]any) (charts.Values, error) {
	return charts.Merge(inGit(k, files)...)
}

func inGit(k *render.Karpenter, files []map[string]any) []charts.Layer {
	var layers []charts.Layer
	for i, values := range files {
		if sops.Encrypted(values) {
			values = sops.Plain(values)
		}
		layers = append(layers, charts.Layer{Origin: k.ValuesFiles[i], Values: values})
	}
	return append(layers, charts.Layer{Origin: render.FileName, Values: k.Values})
}

// withoutPublicValues removes the values that plumbline.yaml also contains: messages need them.
func (s *DesiredStep) withoutPublicValues(secrets []string) []string {
	k := s.Karpenter
	said := []string{
		k.Cluster.Name, k.Cluster.Region, k.Cluster.InterruptionQueue, k.Cluster.ControllerRole, k.Version, k.Namespace, k.Repository,
	}
	return slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool { return slices.Contains(said, secret) })
}

// objectValues reads what valuesFrom names. It reads only objects with the label, so that a commit cannot read any
// Secret of the namespace.
func (s *DesiredStep) objectValues(ctx context.Context) ([]charts.Layer, error) {
	if len(s.Karpenter.ValuesFrom) == 0 {
		return nil, nil
	}
	reader, listed, err := s.Labelled(ctx)
	if err != nil {
		return nil, err
	}
	found, err := labelled(ctx, reader, s.Sync.Namespace, s.Sync.Name)
	if err != nil {
		return nil, err
	}
	if soon := listed(); soon > 0 {
		s.WakeBy(s.Now.Add(soon))
	}
	var layers []charts.Layer
	for _, from := range s.Karpenter.ValuesFrom {
		layer := charts.Layer{Origin: from.String(), TargetPath: from.TargetPath}
		object, there := found[from.Kind+"/"+from.Name]
		if object.refused != nil {
			return nil, fmt.Errorf("values of %s: %w", from, object.refused)
		}
		text, has := object.data[from.ValuesKey]
		switch {
		case has && from.Kind == render.FromSecret:
			layer.Sealed = object.version
		case has:
		case from.Optional:
			continue
		default:
			return nil, s.missingValues(ctx, from, there)
		}
		layer.Text = text
		layers = append(layers, layer)
	}
	return layers, nil
}

// holder is a ConfigMap or Secret that holds values.
type holder struct {
	// version changes with each change of the object.
	version string
	data    map[string]string
	// refused is why a NodeSync may not use it.
	refused error
}

// labelled reads the objects that values of a NodeSync may come from, by kind and name.
func labelled(ctx context.Context, reader client.Reader, namespace, nodeSync string) (map[string]holder, error) {
	among := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels(cluster.ValuesLabels()), client.UnsafeDisableDeepCopy}
	found := map[string]holder{}
	secrets := &corev1.SecretList{}
	if err := reader.List(ctx, secrets, among...); err != nil {
		return nil, fmt.Errorf("read the Secrets with label %s: %w", v1alpha1.ValuesLabel, err)
	}
	for i := range secrets.Items {
		secret, data := &secrets.Items[i], map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		found[render.FromSecret+"/"+secret.Name] = holder{
			version: string(secret.UID) + "/" + secret.ResourceVersion, data: data, refused: grant.CheckNodeSync(secret, nodeSync),
		}
	}
	configs := &corev1.ConfigMapList{}
	if err := reader.List(ctx, configs, among...); err != nil {
		return nil, fmt.Errorf("read the ConfigMaps with label %s: %w", v1alpha1.ValuesLabel, err)
	}
	for i := range configs.Items {
		config := &configs.Items[i]
		found[render.FromConfigMap+"/"+config.Name] = holder{data: config.Data}
	}
	return found, nil
}

// missingValues says what to do about an object that values should come from. Of an object without the label, only its
// existence is checked.
func (s *DesiredStep) missingValues(ctx context.Context, from render.ValuesFrom, there bool) error {
	message := fmt.Sprintf("it does not exist in namespace %s: create it with label %s=true", s.Sync.Namespace, v1alpha1.ValuesLabel)
	if there {
		message = "the key does not exist"
	} else {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(from.Kind))
		err := s.Uncached.Get(ctx, client.ObjectKey{Namespace: s.Sync.Namespace, Name: from.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("look for %s: %w", from, err)
		}
		if err == nil {
			message = fmt.Sprintf("it does not have the label that allows a commit to use it: kubectl label %s %s -n %s %s=true",
				from.Kind, from.Name, s.Sync.Namespace, v1alpha1.ValuesLabel)
		}
	}
	return fault.Waits(fmt.Errorf("values of %s: %s", from, message))
}
