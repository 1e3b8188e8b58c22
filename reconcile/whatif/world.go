package whatif

import (
	"context"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// world is a Capture under some definitions, as Karpenter's controller would hold it.
type world struct {
	client   *capture.Client
	cloud    cloudprovider.CloudProvider
	cluster  *state.Cluster
	clock    *clocktesting.FakeClock
	recorder *recorder
	bare     *provider
}

// newWorld has Karpenter's own cache of a cluster hold a Capture. Nodes of touched NodeClaims are
// marked as ending, which is how Karpenter treats those of a pool that was deleted.
func newWorld(ctx context.Context, c *capture.Capture, definitions []map[string]any, offers Offers, touched map[types.UID]bool) (*world, error) {
	under := *c
	under.Definitions = definitions
	served, err := capture.NewClient(&under)
	if err != nil {
		return nil, err
	}
	bare := &provider{client: served, offers: offers, known: map[string][]*cloudprovider.InstanceType{}, failed: map[string]error{}}
	w := &world{client: served, bare: bare, clock: clocktesting.NewFakeClock(c.TakenAt), recorder: &recorder{said: map[types.NamespacedName]string{}, unmet: map[string]*karpv1.NodePool{}}}
	store := nodeoverlay.NewInstanceTypeStore()
	w.cloud = overlay.Decorate(bare, served, store)
	w.cluster = state.NewCluster(w.clock, served, w.cloud)
	if err := w.fill(ctx, c, touched); err != nil {
		return nil, err
	}
	if c.Settings.NodeOverlay {
		// A pool whose class is unknown is its error, and the others are evaluated all the same.
		_, _ = nodeoverlay.NewController(w.clock, served, bare, store, w.cluster).Reconcile(ctx, reconcile.Request{})
	}
	return w, nil
}

func (w *world) fill(ctx context.Context, c *capture.Capture, touched map[types.UID]bool) error {
	var ending []string
	for i := range c.NodeClaims {
		claim := c.NodeClaims[i].DeepCopy()
		w.cluster.UpdateNodeClaim(claim)
		if touched[claim.UID] && claim.Status.ProviderID != "" {
			ending = append(ending, claim.Status.ProviderID)
		}
	}
	for i := range c.Nodes {
		if err := w.cluster.UpdateNode(ctx, c.Nodes[i].DeepCopy()); err != nil {
			return fmt.Errorf("node %s: %w", c.Nodes[i].Name, err)
		}
	}
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Spec.NodeName == "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
			continue // its node has counted it
		}
		// One on a node that is not there counts nowhere.
		if err := w.cluster.UpdatePod(ctx, pod); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	for i := range c.DaemonSets {
		if err := w.cluster.UpdateDaemonSet(ctx, &c.DaemonSets[i]); err != nil {
			return fmt.Errorf("daemonset %s/%s: %w", c.DaemonSets[i].Namespace, c.DaemonSets[i].Name, err)
		}
	}
	w.cluster.MarkForDeletion(ending...)
	return nil
}

// schedule is Karpenter's simulation of where pods would go. The nodes that end are marked for deletion, and are no
// candidates: Karpenter leaves out a candidate that a PodDisruptionBudget blocks at the moment.
func (w *world) schedule(ctx context.Context) (scheduling.Results, error) {
	provisioner := provisioning.NewProvisioner(w.client, w.recorder, w.cloud, w.cluster, w.clock, nil, nil)
	return disruption.SimulateScheduling(ctx, w.client, w.cluster, provisioner, w.clock, w.recorder, nil)
}

// observe has the offers learn the memory of instance types from the nodes that run.
func observe(ctx context.Context, c *capture.Capture, offers Offers) error {
	served, err := capture.NewClient(c)
	if err != nil {
		return err
	}
	for i := range c.NodeClaims {
		claim, node, class := &c.NodeClaims[i], &corev1.Node{}, &awsv1.EC2NodeClass{}
		if claim.Spec.NodeClassRef == nil || served.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node) != nil ||
			served.Get(ctx, client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}, class) != nil || node.Labels[karpv1.NodeRegisteredLabelKey] != "true" || !plan.Hashable(class) {
			continue
		}
		if err := offers.Observe(ctx, node, claim, class); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	return nil
}

// with has Karpenter's settings where its library looks for them, and what it logs nowhere.
func with(ctx context.Context, s capture.Settings) context.Context {
	ctx = log.IntoContext(ctx, logr.Discard())
	o := &options.Options{
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict, IgnoreDRARequests: true,
		CPURequests: 1000, FeatureGates: options.FeatureGates{ReservedCapacity: true, NodeOverlay: s.NodeOverlay, StaticCapacity: true},
	}
	if s.IgnorePreferences {
		o.PreferencePolicy = options.PreferencePolicyIgnore
	}
	if s.RelaxMinValues {
		o.MinValuesPolicy = options.MinValuesPolicyBestEffort
	}
	return options.ToContext(ctx, o)
}
