package simulate

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/render"
)

// Version is the version of the file format. A file of another version is refused.
const Version = 1

// Capture is everything that scheduling reads of a cluster.
type Capture struct {
	Version int       `json:"version"`
	TakenAt time.Time `json:"takenAt"`
	// Unread names what may not be read, with the action to allow.
	Unread []string `json:"unread,omitempty"`
	// Settings are those of Karpenter's controller that scheduling depends on.
	Settings Settings `json:"settings"`
	// Catalog is what EC2 offers in the cluster's region; nil if AWS was not queried.
	Catalog *offers.Catalog `json:"catalog,omitempty"`
	// Definitions are NodePools, EC2NodeClasses, NodeOverlays and CapacityBuffers.
	Definitions []map[string]any               `json:"definitions"`
	NodeClaims  []karpv1.NodeClaim             `json:"nodeClaims"`
	Nodes       []corev1.Node                  `json:"nodes"`
	Pods        []corev1.Pod                   `json:"pods"`
	Namespaces  []corev1.Namespace             `json:"namespaces,omitempty"`
	DaemonSets  []appsv1.DaemonSet             `json:"daemonSets,omitempty"`
	Budgets     []policyv1.PodDisruptionBudget `json:"podDisruptionBudgets,omitempty"`
	Claims      []corev1.PersistentVolumeClaim `json:"persistentVolumeClaims,omitempty"`
	Volumes     []corev1.PersistentVolume      `json:"persistentVolumes,omitempty"`
	Classes     []storagev1.StorageClass       `json:"storageClasses,omitempty"`
	CSINodes    []storagev1.CSINode            `json:"csiNodes,omitempty"`
	// PodTemplates, Deployments and StatefulSets are what CapacityBuffers may name. ReadCapture reads them if Karpenter's
	// feature gate CapacityBuffer is enabled.
	PodTemplates []corev1.PodTemplate `json:"podTemplates,omitempty"`
	Deployments  []appsv1.Deployment  `json:"deployments,omitempty"`
	StatefulSets []appsv1.StatefulSet `json:"statefulSets,omitempty"`
}

// Settings are those of Karpenter's controller that scheduling depends on.
type Settings struct {
	offers.Settings
	// Karpenter is its version, from its Deployment's label; empty if that is unknown.
	Karpenter string `json:"karpenter,omitempty"`
	// NodeOverlay reports whether the feature gate of that name is enabled: without it overlays have no effect.
	NodeOverlay bool `json:"nodeOverlay,omitempty"`
	// CapacityBuffer reports whether the feature gate of that name is enabled: buffers then keep capacity.
	CapacityBuffer bool `json:"capacityBuffer,omitempty"`
	// SchedulerConfig reports whether there is a configuration with default topology spread constraints, which are not
	// counted here.
	SchedulerConfig bool `json:"schedulerConfig,omitempty"`
	// IgnorePreferences reports whether preferences of pods are ignored (PREFERENCE_POLICY).
	IgnorePreferences bool `json:"ignorePreferences,omitempty"`
	// RelaxMinValues reports whether unsatisfiable minValues are lowered (MIN_VALUES_POLICY).
	RelaxMinValues bool `json:"relaxMinValues,omitempty"`
}

// largestCapture is the maximum unpacked size of a file in bytes: ten times the size of 10,000 nodes with 50,000 pods.
const largestCapture = 1 << 30

// Encode writes a Capture as gzipped JSON, without a time, so that equal ones result in equal files.
func (c *Capture) Encode(out io.Writer) error {
	packed := gzip.NewWriter(out)
	if err := json.NewEncoder(packed).Encode(c); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return packed.Close()
}

// DecodeCapture reads a file that Encode wrote.
func DecodeCapture(in io.Reader) (*Capture, error) { return decode(in, largestCapture) }

func decode(in io.Reader, most int64) (*Capture, error) {
	packed, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("it is no file of plumbline snapshot: %w", err)
	}
	bounded := &io.LimitedReader{R: packed, N: most}
	c := &Capture{}
	decoder := json.NewDecoder(bounded)
	err = decoder.Decode(c)
	switch {
	case bounded.N <= 0:
		return nil, fmt.Errorf("it unpacks to more than %d MiB", most>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("it is truncated: create it again with plumbline snapshot")
	case c.Version != Version && c.Version != 0: // the first field, which is read even if the others are not
		return nil, fmt.Errorf("it has version %d, but this plumbline reads version %d: create it again with this plumbline", c.Version, Version)
	case err != nil:
		return nil, fmt.Errorf("it is no file of plumbline snapshot: %w", err)
	case c.Version == 0:
		return nil, errors.New("it is not a file written by plumbline snapshot: it has no version")
	}
	return c, nil
}

// versionLabel is the label in which Karpenter's chart writes its version.
const versionLabel = "app.kubernetes.io/version"

// settings reads the settings of Karpenter's controller from its Deployment. It keeps only these variables, and its
// version.
func (r *reading) settings(ctx context.Context, namespaces []string) error {
	r.into.Settings = Settings{Settings: offers.Defaults()}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		found := &appsv1.DeploymentList{}
		err := r.reader.List(ctx, found, client.InNamespace(namespace),
			client.MatchingLabelsSelector{Selector: cluster.ControllerLabels().AsSelector()})
		if err != nil {
			return r.may("deployments.apps", "the settings of Karpenter's controller (using the defaults)", err)
		}
		for i := range found.Items {
			r.into.Settings.Karpenter = found.Items[i].Labels[versionLabel]
			for _, container := range found.Items[i].Spec.Template.Spec.Containers {
				r.into.Settings.readVariables(container.Env)
			}
		}
	}
	return nil
}

// readVariables reads the variables of charts/karpenter/templates/deployment.yaml in karpenter-provider-aws, 1.14.1. A
// value that cannot be parsed keeps its default, because Karpenter does not start with it.
func (s *Settings) readVariables(variables []corev1.EnvVar) {
	for _, v := range variables {
		switch v.Name {
		case "VM_MEMORY_OVERHEAD_PERCENT":
			if percent, err := strconv.ParseFloat(v.Value, 64); err == nil {
				s.VMMemoryOverheadPercent = percent
			}
		case "RESERVED_ENIS":
			if n, err := strconv.Atoi(v.Value); err == nil {
				s.ReservedENIs = n
			}
		case "PREFERENCE_POLICY":
			s.IgnorePreferences = v.Value == "Ignore"
		case "MIN_VALUES_POLICY":
			s.RelaxMinValues = v.Value == "BestEffort"
		case "FEATURE_GATES":
			s.NodeOverlay, s.CapacityBuffer = open(v.Value, "NodeOverlay"), open(v.Value, "CapacityBuffer")
		case "SCHEDULER_CONFIG":
			s.SchedulerConfig = v.Value != ""
		case "AWS_FEATURE_GATES":
			s.NodeClassCEL = open(v.Value, "NodeClassCEL")
		}
	}
}

// open reports whether a feature gate is enabled.
func open(gates, name string) bool {
	for gate := range strings.SplitSeq(gates, ",") {
		if key, value, _ := strings.Cut(strings.TrimSpace(gate), "="); key == name {
			return value == "true"
		}
	}
	return false
}

// Region returns the region of the cluster's nodes; empty if no node has one.
func (c *Capture) Region() string {
	for i := range c.Nodes {
		if region := c.Nodes[i].Labels[corev1.LabelTopologyRegion]; region != "" {
			return region
		}
	}
	return ""
}

// page is how many objects one LIST returns.
const page = 500

// ReadCapture reads a cluster. Unread names what may not be read; but without nodes, pods, NodeClaims or definitions
// there is nothing to simulate, which is an error. It reads Karpenter's Deployment in the given namespaces or, if there
// are none, in all.
func ReadCapture(ctx context.Context, reader client.Reader, now time.Time, namespaces ...string) (*Capture, error) {
	c, err := ReadNodes(ctx, reader, now, func(string) bool { return true }, namespaces...)
	if err != nil {
		return nil, err
	}
	return c, (&reading{reader: reader, into: c}).templates(ctx)
}

// ReadNodes reads a cluster as if it had only some of its nodes, with their NodeClaims and pods.
func ReadNodes(
	ctx context.Context, reader client.Reader, now time.Time, keep func(node string) bool, namespaces ...string,
) (*Capture, error) {
	r := newReading(reader, now)
	if err := r.allDefinitions(ctx); err != nil {
		return nil, err
	}
	c := r.into
	claims := kept(trimNodeClaim, func(c *karpv1.NodeClaim) bool { return keep(c.Status.NodeName) })
	nodes := kept(trimNode, func(n *corev1.Node) bool { return keep(n.Name) })
	pods := kept(r.pod, func(p *corev1.Pod) bool { return keep(p.Spec.NodeName) })
	if err := r.settings(ctx, namespaces); err != nil {
		return nil, err
	}
	for _, read := range []func() error{
		func() error {
			return must(read(ctx, r, &karpv1.NodeClaimList{}, func(l *karpv1.NodeClaimList) []karpv1.NodeClaim { return l.Items }, claims, &c.NodeClaims))
		},
		func() error {
			return must(read(ctx, r, &corev1.NodeList{}, func(l *corev1.NodeList) []corev1.Node { return l.Items }, nodes, &c.Nodes))
		},
		func() error {
			return must(read(ctx, r, &corev1.PodList{}, func(l *corev1.PodList) []corev1.Pod { return l.Items }, pods, &c.Pods))
		},
		func() error {
			return r.may("namespaces", "namespaceSelectors of pods", read(ctx, r, &corev1.NamespaceList{}, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items }, all(trimNamespace), &c.Namespaces))
		},
		func() error {
			return r.may("daemonsets.apps", "resources that DaemonSets use on a new node", read(ctx, r, &appsv1.DaemonSetList{}, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items }, all(trimDaemonSet), &c.DaemonSets))
		},
		func() error {
			return r.may("poddisruptionbudgets.policy", "PodDisruptionBudgets", read(ctx, r, &policyv1.PodDisruptionBudgetList{}, func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items }, all(trimBudget), &c.Budgets))
		},
		func() error {
			return r.may("persistentvolumeclaims", "zones of volumes", read(ctx, r, &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items }, all(trimClaim), &c.Claims))
		},
		func() error {
			return r.may("persistentvolumes", "zones of volumes", read(ctx, r, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items }, all(trimVolume), &c.Volumes))
		},
		func() error {
			return r.may("storageclasses.storage.k8s.io", "zones of volumes that are not provisioned yet", read(ctx, r, &storagev1.StorageClassList{}, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items }, all(trimClass), &c.Classes))
		},
		func() error {
			return r.may("csinodes.storage.k8s.io", "the number of volumes that a node can attach", read(ctx, r, &storagev1.CSINodeList{}, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items }, all(trimCSINode), &c.CSINodes))
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if r.misplaced {
		c.Unread = append(c.Unread, unknownPlace)
	}
	return c, nil
}

// templates reads what CapacityBuffers may name.
func (r *reading) templates(ctx context.Context) error {
	c := r.into
	if !c.Settings.CapacityBuffer {
		return nil
	}
	const what = "CapacityBuffers of them"
	err := read(ctx, r, &corev1.PodTemplateList{}, func(l *corev1.PodTemplateList) []corev1.PodTemplate { return l.Items }, all(trimPodTemplate), &c.PodTemplates)
	if err := r.may("podtemplates", what, err); err != nil {
		return err
	}
	err = read(ctx, r, &appsv1.DeploymentList{}, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }, all(trimDeployment), &c.Deployments)
	if err := r.may("deployments.apps", what, err); err != nil {
		return err
	}
	err = read(ctx, r, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items }, all(trimStatefulSet), &c.StatefulSets)
	return r.may("statefulsets.apps", what, err)
}

// pod returns the needed fields of a pod.
func (r *reading) pod(pod *corev1.Pod) corev1.Pod {
	trimmed := trimPod(pod)
	if isKarpenters(trimmed.Labels) && trimKarpenterPod(&trimmed) {
		r.misplaced = true
	}
	return trimmed
}

type reading struct {
	reader client.Reader
	into   *Capture
	// misplaced reports whether the Capture contains less than the cluster about where Karpenter's pods may run.
	misplaced bool
}

func newReading(reader client.Reader, now time.Time) *reading {
	return &reading{reader: reader, into: &Capture{Version: Version, TakenAt: now.UTC(), Definitions: []map[string]any{}}}
}

func (r *reading) allDefinitions(ctx context.Context) error {
	for _, kind := range render.Kinds() {
		if err := r.definitions(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) definitions(ctx context.Context, kind render.Kind) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	err := read(ctx, r, list, func(l *unstructured.UnstructuredList) []unstructured.Unstructured { return l.Items },
		all(func(o *unstructured.Unstructured) map[string]any { return trimDefinition(o) }), &r.into.Definitions)
	switch {
	case kind.Optional() && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
		return nil
	case kind.Optional():
		return r.may(kind.CRD, kind.GVK.Kind+"s", err)
	}
	return must(err)
}

// must returns the error of a read without which nothing can be simulated.
func must(err error) error {
	if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	return nil
}

// may records what the user may not read.
func (r *reading) may(resource, what string, err error) error {
	if !apierrors.IsForbidden(err) {
		return must(err)
	}
	r.into.Unread = append(r.into.Unread, fmt.Sprintf("%s, because reading them is forbidden: allow list of %s", what, resource))
	return nil
}

// trimming returns the kept fields of an object, and whether the object is kept.
type trimming[T, K any] func(*T) (K, bool)

func all[T, K any](trim func(*T) K) trimming[T, K] {
	return kept(trim, func(*T) bool { return true })
}

// kept trims the objects that are kept.
func kept[T, K any](trim func(*T) K, wanted func(*T) bool) trimming[T, K] {
	return func(object *T) (trimmed K, keeps bool) {
		if !wanted(object) {
			return trimmed, false
		}
		return trim(object), true
	}
}

// read reads the objects of a list page by page, and keeps the needed fields of each.
func read[L client.ObjectList, T, K any](ctx context.Context, r *reading, list L, items func(L) []T, trim trimming[T, K], into *[]K) error {
	for next := ""; ; {
		if err := r.reader.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return err
		}
		found := items(list)
		for i := range found {
			if trimmed, keeps := trim(&found[i]); keeps {
				*into = append(*into, trimmed)
			}
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
