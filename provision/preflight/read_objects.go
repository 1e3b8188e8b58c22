package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// network reads what the EC2NodeClasses select.
func (r *Reader) network(ctx context.Context, o *Observed) {
	var subnets []string
	groups := slices.Clone(o.EKS.Of.SecurityGroups)
	for i := range o.Classes.Of {
		class := &o.Classes.Of[i]
		n := ClassNetwork{Class: class.Name, PublicAddress: class.Spec.AssociatePublicIPAddress}
		n.Subnets.Of, n.Subnets.Err = again(ctx, r, func() ([]string, error) { return r.AWS.Subnets(ctx, class) })
		n.Groups.Of, n.Groups.Err = again(ctx, r, func() ([]string, error) { return r.AWS.SecurityGroups(ctx, class) })
		subnets, groups = append(subnets, n.Subnets.Of...), append(groups, n.Groups.Of...)
		o.Networks = append(o.Networks, n)
	}
	slices.SortFunc(o.Networks, func(a, b ClassNetwork) int { return cmp.Compare(a.Class, b.Class) })
	o.Subnets.Of, o.Subnets.Err = r.AWS.SubnetsByID(ctx, unique(subnets))
	o.Groups.Of, o.Groups.Err = r.AWS.SecurityGroupsByID(ctx, unique(groups))
	r.endpoints(ctx, o)
}

func unique(values []string) []string { return slices.Compact(slices.Sorted(slices.Values(values))) }

// eachPage is the page size for listing nodes and pods.
const eachPage = 500

// each lists objects page by page.
func each(ctx context.Context, api client.Reader, list client.ObjectList, do func(), options ...client.ListOption) error {
	for page := ""; ; {
		if err := api.List(ctx, list, append(options, client.Limit(eachPage), client.Continue(page))...); err != nil {
			return err
		}
		do()
		if page = list.GetContinue(); page == "" {
			return nil
		}
	}
}

// nodes returns the places of nodes, by name; Pod is empty.
func (r *Reader) nodes(ctx context.Context) (map[string]Place, error) {
	list, all := &corev1.NodeList{}, map[string]Place{}
	err := each(ctx, r.API, list, func() {
		for i := range list.Items {
			n := &list.Items[i]
			all[n.Name] = Place{Node: n.Name, Zone: n.Labels[corev1.LabelTopologyZone], Pool: n.Labels[karpv1.NodePoolLabelKey]}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return all, nil
}

// workload is one that placement looks at: its pods by namespace and labels.
type workload struct {
	name, namespace, deployment string
	labels                      map[string]string
	essential                   bool
}

// workloads returns those on which nodes depend. CoreDNS and the CSI drivers have the labels of their EKS add-ons and charts.
func (r *Reader) workloads(o *Observed) []workload {
	var all []workload
	for _, c := range o.Controllers.Of {
		all = append(all, workload{"Karpenter's controller", c.Namespace, c.Name, r.ControllerLabels, true})
	}
	const system = "kube-system"
	return append(all,
		workload{"CoreDNS", system, "coredns", map[string]string{"k8s-app": "kube-dns"}, false},
		workload{"the EBS CSI controller", system, "ebs-csi-controller", map[string]string{"app": "ebs-csi-controller"}, false},
		workload{"the EFS CSI controller", system, "efs-csi-controller", map[string]string{"app": "efs-csi-controller"}, false},
		workload{"plumbline", "", "plumbline", r.PlumblineLabels, false})
}

// placement reads where the pods run on which nodes depend.
func (r *Reader) placement(ctx context.Context, o *Observed) {
	if o.Controllers.Err != nil {
		o.Workloads.Err = o.Controllers.Err
		return
	}
	nodes, err := r.nodes(ctx)
	if err != nil {
		o.Workloads.Err = err
		return
	}
	zones := map[string]bool{}
	for _, n := range nodes {
		if n.Pool == "" && n.Zone != "" {
			zones[n.Zone] = true
		}
	}
	o.SystemZones = slices.Sorted(maps.Keys(zones))
	for _, w := range r.workloads(o) {
		list := &corev1.PodList{}
		if err := r.API.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels(w.labels)); err != nil {
			o.Workloads.Err = fmt.Errorf("list the pods of %s: %w", w.name, err)
			return
		}
		if places := placesOf(list.Items, nodes); len(places) > 0 {
			namespace, _, _ := strings.Cut(places[0].Pod, "/")
			o.Workloads.Of = append(o.Workloads.Of, Workload{
				Name: w.name, Object: namespace + "/" + w.deployment, Essential: w.essential, Pods: places,
			})
		}
	}
}

// placesOf returns where pods run that are scheduled and not terminating, by name.
func placesOf(pods []corev1.Pod, nodes map[string]Place) []Place {
	var all []Place
	for i := range pods {
		pod := &pods[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || ended {
			continue
		}
		place := nodes[pod.Spec.NodeName]
		place.Pod, place.Node = pod.Namespace+"/"+pod.Name, pod.Spec.NodeName
		all = append(all, place)
	}
	slices.SortFunc(all, func(a, b Place) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

// others reads what may interfere: the Cluster Autoscaler, and webhooks and CRDs of any version of Karpenter.
func (r *Reader) others(ctx context.Context, o *Observed) {
	o.Autoscalers.Of, o.Autoscalers.Err = r.autoscalers(ctx)
	o.Webhooks.Of, o.Webhooks.Err = r.webhooks(ctx)
	var chart []*apiextensionsv1.CustomResourceDefinition
	if o.Version != "" {
		chart, o.Uncompared = r.KarpenterCRDs(ctx, o.Version)
	}
	o.CRDs.Of, o.CRDs.Err = r.crds(ctx, o.Version, chart)
	list := &corev1.NodeList{}
	if o.OldNodes.Err = r.API.List(ctx, list, client.HasLabels{provisionerLabel}); o.OldNodes.Err != nil {
		o.OldNodes.Err = fmt.Errorf("list nodes: %w", o.OldNodes.Err)
	}
	for i := range list.Items {
		if list.Items[i].Labels[karpv1.NodePoolLabelKey] == "" {
			o.OldNodes.Of = append(o.OldNodes.Of, list.Items[i].Name)
		}
	}
}

func (r *Reader) autoscalers(ctx context.Context) ([]Autoscaler, error) {
	list := &appsv1.DeploymentList{}
	if err := r.API.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	var all []Autoscaler
	for i := range list.Items {
		d := &list.Items[i]
		runs := slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
			name, _, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
			return name == "cluster-autoscaler"
		})
		if runs {
			all = append(all, Autoscaler{Namespace: d.Namespace, Name: d.Name, Replicas: controllerOf(d).Replicas})
		}
	}
	return all, nil
}

// ofKarpenter reports whether a group is one of Karpenter's.
func ofKarpenter(group string) bool { return group == "karpenter.sh" || group == "karpenter.k8s.aws" }

// webhooks returns the webhook configurations of Karpenter, by their names (charts before 1.1): those of other tools may
// also be about its kinds.
func (r *Reader) webhooks(ctx context.Context) ([]Webhook, error) {
	var all []Webhook
	add := func(kind, name string) {
		if strings.HasSuffix(name, ".karpenter.sh") || strings.HasSuffix(name, ".karpenter.k8s.aws") {
			all = append(all, Webhook{Kind: kind, Name: name})
		}
	}
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := r.API.List(ctx, validating); err != nil {
		return nil, fmt.Errorf("list ValidatingWebhookConfigurations: %w", err)
	}
	for i := range validating.Items {
		add("ValidatingWebhookConfiguration", validating.Items[i].Name)
	}
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	if err := r.API.List(ctx, mutating); err != nil {
		return nil, fmt.Errorf("list MutatingWebhookConfigurations: %w", err)
	}
	for i := range mutating.Items {
		add("MutatingWebhookConfiguration", mutating.Items[i].Name)
	}
	return all, nil
}

// provisionerLabel is on Nodes of versions before 0.32.
const provisionerLabel = "karpenter.sh/provisioner-name"

// crds reads the CRDs of Karpenter's groups, and compares them with those of a version's chart.
func (r *Reader) crds(ctx context.Context, version string, chart []*apiextensionsv1.CustomResourceDefinition) ([]CRD, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.API.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var all []CRD
	for i := range list.Items {
		definition := &list.Items[i]
		if !ofKarpenter(definition.Spec.Group) {
			continue
		}
		crd := CRD{
			Name: definition.Name, Stored: definition.Status.StoredVersions,
			Converts: definition.Spec.Conversion != nil && definition.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter,
		}
		var unfit *karpenter.ServedCRDsError
		if errors.As(karpenter.CheckServed(version, chart, []*apiextensionsv1.CustomResourceDefinition{definition}), &unfit) {
			crd.Missing = unfit.Fields
		}
		for _, v := range definition.Spec.Versions {
			crd.Versions = append(crd.Versions, v.Name)
		}
		if legacy(crd.Name) {
			crd.Objects = r.count(ctx, definition)
		}
		all = append(all, crd)
	}
	return all, nil
}

// count returns the number of objects of a CRD, at most one page; -1 if it is unknown.
func (r *Reader) count(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) int {
	if len(crd.Spec.Versions) == 0 {
		return 0
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: cmp.Or(crd.Spec.Names.ListKind, crd.Spec.Names.Kind+"List"),
	})
	if err := r.API.List(ctx, list, client.Limit(1)); err != nil {
		return -1
	}
	return len(list.Items)
}

// poolKind is that of NodePools.
var poolKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

func (r *Reader) pools(ctx context.Context, o *Observed) {
	o.Pools.Of, o.Pools.Err = listAs[karpv1.NodePool](ctx, r.API, poolKind)
}

// forever is how long the annotation karpenter.sh/do-not-disrupt has to last to have no end.
const forever = 10 * 365 * 24 * time.Hour

// pods reads the pods that drains wait for, on nodes of NodePools without terminationGracePeriod, and the budgets.
func (r *Reader) pods(ctx context.Context, o *Observed) {
	if o.Pods.Err = o.Pools.Err; o.Pods.Err != nil {
		return
	}
	limited := map[string]bool{}
	for i := range o.Pools.Of {
		limited[o.Pools.Of[i].Name] = o.Pools.Of[i].Spec.Template.Spec.TerminationGracePeriod != nil
	}
	nodes, err := r.nodes(ctx)
	if err != nil {
		o.Pods.Err = err
		return
	}
	list := &corev1.PodList{}
	err = each(ctx, r.API, list, func() {
		for i := range list.Items {
			pod := &list.Items[i]
			if pool := nodes[pod.Spec.NodeName].Pool; pool != "" && !limited[pool] && r.Drains(pod) {
				o.Pods.Of = append(o.Pods.Of, r.podOf(pod, o.Now))
			}
		}
	})
	if err != nil {
		o.Pods = Value[[]Pod]{Err: fmt.Errorf("list pods: %w", err)}
		return
	}
	budgets := &policyv1.PodDisruptionBudgetList{}
	if err := r.API.List(ctx, budgets); err != nil {
		o.Budgets.Err = fmt.Errorf("list PodDisruptionBudgets: %w", err)
		return
	}
	o.Budgets.Of = budgets.Items
}

func (r *Reader) podOf(pod *corev1.Pod, now time.Time) Pod {
	owner := metav1.GetControllerOf(pod)
	return Pod{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Labels: pod.Labels,
		Undisrupted: r.Undisrupted(pod, now) && r.Undisrupted(pod, now.Add(forever)) && (owner == nil || owner.Kind != "Job"),
	}
}

// budgets evaluates the disruption budgets of the NodePools. Those of a static NodePool are not about consolidation.
func (r *Reader) budgets(_ context.Context, o *Observed) {
	for i := range o.Pools.Of {
		pool := &o.Pools.Of[i]
		nodes := pool.Status.Resources["nodes"]
		one := PoolBudgets{
			Pool: pool.Name, Nodes: int(nodes.Value()), Allowed: map[string]Allowed{},
			Expires: ptr.Deref(pool.Spec.Template.Spec.ExpireAfter.Duration, 0),
		}
		reasons := []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}
		if pool.Spec.Replicas == nil {
			reasons = append(reasons, karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonEmpty)
		}
		for _, reason := range reasons {
			// A percentage of no nodes allows none.
			allowed, err := r.Allowed(pool, max(one.Nodes, 1), reason, o.Now)
			if err != nil {
				one.Unreadable, one.Allowed = err.Error(), nil
				break
			}
			one.Allowed[string(reason)] = allowed
		}
		o.PoolBudgets = append(o.PoolBudgets, one)
	}
	slices.SortFunc(o.PoolBudgets, func(a, b PoolBudgets) int { return cmp.Compare(a.Pool, b.Pool) })
}

// images reads the AMIs of the EC2NodeClasses, for the version of the cluster and the next one.
func (r *Reader) images(ctx context.Context, o *Observed) {
	minor, known := minorOf(o.EKS.Of.Version)
	if !known {
		return
	}
	for i := range o.Classes.Of {
		class := &o.Classes.Of[i]
		one := ClassImages{Class: class.Name, Kubernetes: o.EKS.Of.Version, Next: fmt.Sprintf("1.%d", minor+1)}
		one.Now.Of, one.Now.Err = again(ctx, r, func() ([]awsv1.AMI, error) { return r.AWS.AMIs(ctx, class, one.Kubernetes) })
		one.Later.Of, one.Later.Err = again(ctx, r, func() ([]awsv1.AMI, error) { return r.AWS.AMIs(ctx, class, one.Next) })
		o.Images = append(o.Images, one)
	}
	slices.SortFunc(o.Images, func(a, b ClassImages) int { return cmp.Compare(a.Class, b.Class) })
}

// conditions finds the conditions of EC2NodeClasses that are False, except Ready, which repeats the others.
func (r *Reader) conditions(ctx context.Context, o *Observed) {
	for i := range o.Classes.Of {
		class := &o.Classes.Of[i]
		for _, c := range class.Status.Conditions {
			if c.Status != metav1.ConditionFalse || c.Type == "Ready" {
				continue
			}
			one := ClassCondition{Class: class.Name, Type: c.Type, Reason: c.Reason, Message: c.Message}
			one.Refusal.Of, one.Refusal.Err = r.AWS.Refused(ctx, c.Message)
			o.Conditions = append(o.Conditions, one)
		}
	}
	slices.SortStableFunc(o.Conditions, func(a, b ClassCondition) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Type, b.Type))
	})
}

// daemonSets reads the DaemonSets of CSI drivers and CNI plugins.
func (r *Reader) daemonSets(ctx context.Context, o *Observed) {
	drivers := &storagev1.CSIDriverList{}
	if err := r.API.List(ctx, drivers); err != nil {
		o.DaemonSets.Err = fmt.Errorf("list CSIDrivers: %w", err)
		return
	}
	var names []string
	for i := range drivers.Items {
		names = append(names, drivers.Items[i].Name)
	}
	sets := &appsv1.DaemonSetList{}
	if err := r.API.List(ctx, sets); err != nil {
		o.DaemonSets.Err = fmt.Errorf("list DaemonSets: %w", err)
		return
	}
	o.DaemonSets.Of = r.NodeDaemonSets(sets.Items, names)
}

// claimKind is that of NodeClaims.
var claimKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// young is how long EC2 may not list a new instance, and Karpenter takes to delete the Node of one that is gone.
const young = 10 * time.Minute

// left compares Nodes with instances, and finds what is left in AWS.
func (r *Reader) left(ctx context.Context, o *Observed) {
	if o.LostNodes.Err = o.Claims.Err; o.LostNodes.Err != nil {
		return
	}
	nodes, ids, err := r.oldNodes(ctx, o.Now)
	if err != nil {
		o.LostNodes.Err = err
		return
	}
	instances, err := again(ctx, r, func() ([]cloud.Instance, error) {
		return r.AWS.Fleet(ctx, cloud.Query{Cluster: o.Cluster, AllPools: true, ProviderIDs: ids})
	})
	if err != nil {
		o.LostNodes.Err = err
		return
	}
	alive := map[string]bool{}
	for _, i := range instances {
		alive[i.ID] = !i.Gone()
	}
	o.LostNodes.Of = slices.DeleteFunc(nodes, func(n LostNode) bool {
		_, id, err := cloud.ParseProviderID(n.ProviderID)
		return err != nil || alive[id]
	})
	o.LostInstances = unclaimed(instances, o.Claims.Of, o.Now)
	behind, err := r.leftBehind(ctx, o, o.Claims.Of, alive)
	volumes, unread := r.unusedVolumes(ctx, o)
	o.Left = Value[[]leftover.Found]{append(behind, volumes...), errors.Join(err, unread)}
}

// unclaimed returns the IDs of instances of NodePools that are not young and that no NodeClaim has. Karpenter terminates
// them within minutes (KPA pkg/controllers/nodeclaim/garbagecollection).
func unclaimed(instances []cloud.Instance, claims []karpv1.NodeClaim, now time.Time) []string {
	claimed := map[string]bool{}
	for i := range claims {
		claimed[claims[i].Status.ProviderID] = true
	}
	var ids []string
	for _, i := range instances {
		running := i.State == "pending" || i.State == "running"
		if running && i.Pool != "" && !claimed[i.ProviderID()] && !i.Launched.IsZero() && now.Sub(i.Launched) > young {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// unusedVolumes finds the volumes that nothing uses.
func (r *Reader) unusedVolumes(ctx context.Context, o *Observed) ([]leftover.Found, error) {
	answer := r.AWS.Volumes(ctx, o.Cluster)
	used, err := r.Volumes(ctx)
	if err := errors.Join(answer.Err, err); err != nil {
		return nil, err
	}
	return leftover.Unused(answer.Resources, used, o.Now.Add(-young)), nil
}

// oldNodes returns the Nodes of Karpenter that are not young, and their provider IDs.
func (r *Reader) oldNodes(ctx context.Context, now time.Time) (nodes []LostNode, ids []string, err error) {
	list := &corev1.NodeList{}
	err = each(ctx, r.API, list, func() {
		for i := range list.Items {
			n := &list.Items[i]
			if n.Labels[karpv1.NodePoolLabelKey] != "" && n.Spec.ProviderID != "" && now.Sub(n.CreationTimestamp.Time) > young {
				nodes, ids = append(nodes, LostNode{n.Name, n.Spec.ProviderID}), append(ids, n.Spec.ProviderID)
			}
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes, ids, nil
}

// leftBehind finds what is left of deleted nodes and EC2NodeClasses, by the rules of package leftover. While a NodeClaim
// exists whose EC2NodeClass does not, its instance profile is unknown, and no profile counts.
func (r *Reader) leftBehind(ctx context.Context, o *Observed, claims []karpv1.NodeClaim, alive map[string]bool) ([]leftover.Found, error) {
	living := leftover.Living{Classes: map[string]bool{}, UIDs: map[string]bool{}, Profiles: map[string]bool{}, Instances: alive}
	profiles := o.Classes.Err == nil
	for i := range o.Classes.Of {
		class := &o.Classes.Of[i]
		living.Classes[class.Name], living.UIDs[string(class.UID)] = true, true
		living.Profiles[ptr.Deref(class.Spec.InstanceProfile, "")], living.Profiles[class.Status.InstanceProfile] = true, true
	}
	for i := range claims {
		if ref := claims[i].Spec.NodeClassRef; ref != nil && !living.Classes[ref.Name] {
			living.Classes[ref.Name], profiles = true, false
		}
	}
	answers, err := again(ctx, r, func() ([]cloud.Answer, error) { return r.AWS.LeftBehind(ctx, o.Cluster, profiles) })
	var failed []error
	for _, answer := range answers {
		failed = append(failed, answer.Err)
	}
	answers = slices.DeleteFunc(answers, func(a cloud.Answer) bool { return a.Err != nil })
	return leftover.OfDeleted(answers, living), errors.Join(append(failed, err)...)
}

// types reads the instance types that NodePools allow, as Karpenter's library filters them: filterInstanceTypesByRequirements
// in sigs.k8s.io/karpenter pkg/controllers/provisioning/scheduling/nodeclaim.go.
func (r *Reader) types(ctx context.Context, o *Observed) {
	if len(o.Pools.Of) == 0 || len(o.Classes.Of) == 0 {
		return
	}
	catalog, err := r.AWS.Catalog(ctx)
	if err != nil {
		o.PoolTypes.Err = err
		return
	}
	offered, err := offers.New(ctx, catalog, offers.Defaults())
	if err != nil {
		o.PoolTypes.Err = err
		return
	}
	o.vcpus = map[string]int32{}
	for i := range catalog.Types {
		o.vcpus[string(catalog.Types[i].InstanceType)] = *catalog.Types[i].VCpuInfo.DefaultVCpus // catalog has checked it
	}
	for i := range o.Classes.Of {
		class := &o.Classes.Of[i]
		if len(class.Status.Subnets) == 0 {
			continue // Karpenter has not resolved them
		}
		all, err := offered.InstanceTypes(ctx, class)
		if err != nil {
			o.PoolTypes.Err = errors.Join(o.PoolTypes.Err, err)
			continue
		}
		for j := range o.Pools.Of {
			if ref := o.Pools.Of[j].Spec.Template.Spec.NodeClassRef; ref != nil && ref.Name == class.Name && ref.Kind == classKind.Kind {
				o.PoolTypes.Of = append(o.PoolTypes.Of, typesOf(&o.Pools.Of[j], all))
			}
		}
	}
	slices.SortFunc(o.PoolTypes.Of, func(a, b PoolTypes) int { return cmp.Compare(a.Pool, b.Pool) })
}

// count adds an instance type to what counts towards quotas. Those in a reservation are not launched if they do not fit
// into it.
func (p *PoolTypes) count(one *cloudprovider.InstanceType, capacityType string) {
	if capacityType == karpv1.CapacityTypeReserved {
		return
	}
	code := cloud.QuotaOf(cloud.TypeInUse{Type: one.Name, Spot: capacityType == karpv1.CapacityTypeSpot})
	vcpus := one.Capacity.Cpu().Value()
	if least, known := p.Quotas[code]; code != "" && (!known || vcpus < least) {
		p.Quotas[code] = vcpus
	}
	p.Unmetered = p.Unmetered || code == ""
}

// typesOf returns what of the instance types a NodePool allows.
func typesOf(pool *karpv1.NodePool, all []*cloudprovider.InstanceType) PoolTypes {
	found := PoolTypes{
		Pool: pool.Name, Limits: corev1.ResourceList(pool.Spec.Limits), Used: pool.Status.Resources, Quotas: map[string]int64{},
	}
	requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
	requirements.Add(scheduling.NewLabelRequirements(pool.Spec.Template.Labels).Values()...)
	for _, one := range all {
		offerings := one.Offerings.Available().Compatible(requirements)
		if len(offerings) == 0 || one.Requirements.Intersects(requirements) != nil {
			continue
		}
		found.Types++
		found.Smallest = least(found.Smallest, one.Capacity)
		for _, offering := range offerings {
			found.Zones = insert(found.Zones, offering.Zone())
			found.count(one, offering.CapacityType())
		}
	}
	return found
}
