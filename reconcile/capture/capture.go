package capture

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
)

// Version is that of the file's form. A file of another one is refused.
const Version = 1

// Capture is what scheduling reads of a cluster.
type Capture struct {
	Version int       `json:"version"`
	TakenAt time.Time `json:"takenAt"`
	// Unread names what may not be read, with the action to allow.
	Unread []string `json:"unread,omitempty"`
	// Settings are those of Karpenter's controller that scheduling depends on.
	Settings Settings `json:"settings"`
	// Catalog is what EC2 offers in the cluster's region; nil where AWS was not asked.
	Catalog *offers.Catalog `json:"catalog,omitempty"`
	// Definitions are NodePools, EC2NodeClasses and NodeOverlays.
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
}

// Settings are those of Karpenter's controller that scheduling depends on.
type Settings struct {
	offers.Settings
	// NodeOverlay says that the feature gate of that name is open: without it overlays do nothing.
	NodeOverlay bool `json:"nodeOverlay,omitempty"`
	// CapacityBuffer says likewise that buffers take a place, which is not counted here.
	CapacityBuffer bool `json:"capacityBuffer,omitempty"`
	// IgnorePreferences says that preferences of pods count for nothing (PREFERENCE_POLICY).
	IgnorePreferences bool `json:"ignorePreferences,omitempty"`
	// RelaxMinValues says that minValues which cannot be met are lowered (MIN_VALUES_POLICY).
	RelaxMinValues bool `json:"relaxMinValues,omitempty"`
}
