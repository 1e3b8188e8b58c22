package teardown

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Plan is what a teardown deletes, and what stays in the cluster.
type Plan struct {
	NodeSync  string `json:"nodeSync"`
	DownTo    Level  `json:"downTo"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Region    string `json:"region"`
	Account   string `json:"account"`
	// Objects are the definitions of the NodeSync.
	Objects []Object `json:"objects"`
	// NodeClaims and Nodes belong to its NodePools. Instances are those in EC2 that belong to no NodePool that stays.
	NodeClaims int `json:"nodeClaims"`
	Nodes      int `json:"nodes"`
	Instances  int `json:"instances"`
	// Controller reports that Karpenter's controller does not run, and what is done about it.
	Controller string `json:"controller,omitempty"`
	// Karpenter names the parts of Karpenter that are uninstalled afterwards; empty if it stays.
	Karpenter string `json:"karpenter,omitempty"`
	// Stack is the CloudFormation stack that is deleted last; empty if it stays.
	Stack string `json:"stack,omitempty"`
	// Stays are the cluster's other NodePools and EC2NodeClasses, and Karpenter's charts.
	Stays []string `json:"stays,omitempty"`
	// WithoutDaemon is why no daemon leads: the command then drains the nodes itself, as another user (As) if the
	// deletion guard requires that.
	WithoutDaemon string `json:"withoutDaemon,omitempty"`
	As            string `json:"as,omitempty"`
	// Appliers are other tools that apply some of these objects, and would recreate them.
	Appliers []string `json:"appliers,omitempty"`
	// Suspends reports whether these tools are suspended first.
	Suspends bool `json:"suspends,omitempty"`

	// AppliedBy are the appliers without duplicates.
	AppliedBy []owners.Owner `json:"-"`
	// Known is what stays in the cluster, for the comparison with AWS.
	Known leftover.Known `json:"-"`

	// claims are the NodeClaims of its NodePools that have a node.
	claims []plan.NodeClaim
	// vanished are the NodePools of Objects that the cluster no longer has, each with its UID.
	vanished map[string]types.UID
}

// Object is a definition, with its number of NodeClaims.
type Object struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	NodeClaims int    `json:"nodeClaims"`
	// Gone reports whether the cluster no longer has it, while NodeClaims of it are left.
	Gone bool `json:"gone,omitempty"`
}

// profileAnnotation contains the instance profile of a NodeClaim's instance (karpenter-provider-aws
// pkg/apis/v1/labels.go, AnnotationInstanceProfile).
const profileAnnotation = "karpenter.k8s.aws/instance-profile-name"

// Cluster is the input of a plan: the NodeClaims and definitions of a cluster, of any owner.
type Cluster struct {
	Claims      []karpv1.NodeClaim
	Definitions []unstructured.Unstructured
	// Applied reads the NodePools that the NodeSync has applied, by name with the UID of each. It is called only if
	// there are NodeClaims of a NodePool that does not exist.
	Applied func() (map[string]types.UID, error)
}

// Make returns what a teardown of a NodeSync to a level deletes, and what stays.
func Make(sync *v1alpha1.NodeSync, downTo Level, c Cluster) (*Plan, error) {
	p := &Plan{
		DownTo: downTo, NodeSync: sync.Name, Namespace: sync.Namespace, Objects: []Object{},
		vanished: map[string]types.UID{},
		Known:    leftover.Known{Pools: map[string]bool{}, Classes: map[string]bool{}, Profiles: map[string]bool{}},
	}
	p.noteAppliers("NodeSync/"+sync.Name, owners.All(sync))
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for i := range c.Definitions {
		object := &c.Definitions[i]
		if goes := object.GetKind() == render.NodePool || !downTo.Keeps(); goes && owner.Owns(object) {
			p.add(object, c.Claims)
		} else {
			p.keep(object)
		}
	}
	if err := p.addVanished(sync, c); err != nil {
		return nil, err
	}
	p.keepProfiles(c.Claims)
	return p, nil
}

func (p *Plan) add(object *unstructured.Unstructured, claims []karpv1.NodeClaim) {
	leaves := Object{Kind: object.GetKind(), Name: render.RefOf(object).Name}
	for i := range claims {
		if leaves.Kind == render.NodePool && poolOf(&claims[i]) == leaves.Name {
			p.count(&leaves, &claims[i])
		}
	}
	p.Objects = append(p.Objects, leaves)
	p.noteAppliers(leaves.Kind+"/"+leaves.Name, owners.All(object))
}

// count counts a NodeClaim of a NodePool that is deleted.
func (p *Plan) count(pool *Object, claim *karpv1.NodeClaim) {
	pool.NodeClaims++
	p.NodeClaims++
	if claim.Status.NodeName != "" {
		p.Nodes++
		p.claims = append(p.claims, plan.NodeClaim{Name: claim.Name, Pool: pool.Name, Node: claim.Status.NodeName})
	}
}

// keep notes an object that stays.
func (p *Plan) keep(object *unstructured.Unstructured) {
	switch object.GetKind() {
	case render.NodePool:
		p.Known.Pools[object.GetName()] = true
	case render.EC2NodeClass:
		p.Known.Classes[object.GetName()] = true
		if profile, _, err := unstructured.NestedString(object.Object, "status", "instanceProfile"); err == nil && profile != "" {
			p.Known.Profiles[profile] = true
		}
	}
	p.Stays = append(p.Stays, named(object))
}

// named returns the name of an object, with the NodeSync that owns it.
func named(object *unstructured.Unstructured) string {
	words := render.RefOf(object).String()
	if of := object.GetLabels()[v1alpha1.OwnerLabel]; of != "" {
		words += " of NodeSync " + cmp.Or(object.GetAnnotations()[v1alpha1.OwnerLabel], of)
	}
	return words
}

// addVanished adds the NodePools that the NodeSync has applied and that no longer exist, although NodeClaims of them
// are left: the CRD of NodePools was deleted together with all of them, and Karpenter's finalizers keep the NodeClaims.
func (p *Plan) addVanished(sync *v1alpha1.NodeSync, c Cluster) error {
	if sync.UID == "" || !slices.ContainsFunc(c.Claims, func(claim karpv1.NodeClaim) bool { return !p.hasPool(poolOf(&claim)) }) {
		return nil
	}
	applied, err := c.Applied()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(applied)) {
		if p.hasPool(name) {
			continue
		}
		gone := Object{Kind: render.NodePool, Name: name, Gone: true}
		for i := range c.Claims {
			if poolOf(&c.Claims[i]) == name && madeBy(&c.Claims[i], applied[name]) {
				p.count(&gone, &c.Claims[i])
			}
		}
		if gone.NodeClaims > 0 {
			p.vanished[name] = applied[name]
			p.Objects = append(p.Objects, gone)
		}
	}
	return nil
}

// hasPool reports whether the plan contains a NodePool, of any owner.
func (p *Plan) hasPool(name string) bool {
	return p.Known.Pools[name] || p.deletes(render.NodePool, name)
}

// keepProfiles notes the instance profiles of NodeClaims that stay, as Karpenter does before it deletes a profile
// (karpenter-provider-aws pkg/controllers/nodeclass/garbagecollection): an EC2NodeClass only names its latest one.
// Releases before 1.8 do not annotate NodeClaims, and their profiles may no longer be in any status.
func (p *Plan) keepProfiles(claims []karpv1.NodeClaim) {
	for i := range claims {
		profile := claims[i].Annotations[profileAnnotation]
		switch {
		case p.deletes(render.NodePool, poolOf(&claims[i])):
		case profile == "":
			p.Known.Unprofiled = claims[i].Name
		default:
			p.Known.Profiles[profile] = true
		}
	}
}

// NoteCharts notes what happens to Karpenter.
func (p *Plan) NoteCharts(k *v1alpha1.KarpenterStatus) {
	if k == nil {
		return
	}
	words := "Karpenter"
	if k.Version != "" {
		words += " " + k.Version
	}
	words += " in namespace " + k.Namespace
	switch p.DownTo {
	case ToCRDs, ToAWS:
		p.Karpenter = words + ", its charts and CRDs"
	case ToController:
		p.Karpenter = words + ", its main chart"
		p.Stays = append(p.Stays, "the CRDs of "+words)
	case ToDefinitions, ToNodes:
		p.Stays = append(p.Stays, words+", its charts and CRDs")
	}
}

// noteAppliers notes the tools other than plumbline that apply an object.
func (p *Plan) noteAppliers(name string, appliers []owners.Owner) {
	for _, owner := range appliers {
		p.Appliers = append(p.Appliers, fmt.Sprintf("%s is applied by %s", name, owner))
		if !slices.Contains(p.AppliedBy, owner) {
			p.AppliedBy = append(p.AppliedBy, owner)
		}
	}
}

// deletes reports whether an object is one of those that are deleted.
func (p *Plan) deletes(kind, name string) bool {
	return slices.ContainsFunc(p.Objects, func(o Object) bool { return o.Kind == kind && o.Name == name })
}

// WithoutOthers drops the NodeClaims that another NodePool of the same name as a vanished one has created.
func (p *Plan) WithoutOthers(claims []karpv1.NodeClaim) []karpv1.NodeClaim {
	return slices.DeleteFunc(claims, func(claim karpv1.NodeClaim) bool {
		uid, vanished := p.vanished[poolOf(&claim)]
		return vanished && !madeBy(&claim, uid)
	})
}

// ClassInUse returns an error if a NodePool that stays references an EC2NodeClass that is deleted: once the NodeSync's
// own nodes are gone, that deletion would wait for the NodePool forever. pools are those of the cluster.
func (p *Plan) ClassInUse(sync *v1alpha1.NodeSync, pools []unstructured.Unstructured) error {
	if sync.DeletionTimestamp != nil {
		return nil // it has started
	}
	kind, _ := render.KindOf(render.NodePool)
	var class string
	var users []string
	for i := range pools {
		ref, ok := render.Reference(render.Ref{Kind: render.NodePool, Name: pools[i].GetName()}, &pools[i])
		if !ok || p.deletes(render.NodePool, pools[i].GetName()) || !p.deletes(kind.RefersTo, ref.Name) {
			continue
		}
		class = ref.Name
		users = append(users, named(&pools[i]))
	}
	if len(users) == 0 {
		return nil
	}
	return fmt.Errorf("%s/%s would be deleted with nodesync/%s, but %s stays and references it: tear that down first, or use --down-to %s. Nothing was changed",
		kind.RefersTo, class, sync.Name, finding.First(users), ToNodes)
}

// NeedsHosts reports whether it matters where Karpenter's controller and the daemon run. It does not for a teardown
// that an earlier run has started: that continues, and the daemon holds a NodePool that runs them.
func (p *Plan) NeedsHosts(sync *v1alpha1.NodeSync) bool {
	return len(p.claims) > 0 && !p.DownTo.Begun(sync)
}

// Hosted returns an error if one of the pods runs on a node that would be drained: once it is evicted, nothing drains the rest.
func (p *Plan) Hosted(running []plan.Host) error {
	hosts := cluster.Placed(running, p.claims)
	if len(hosts) == 0 {
		return nil
	}
	var names []string
	for _, h := range hosts {
		names = append(names, fmt.Sprintf("%s (pod %s on node %s of NodePool/%s)", h.Workload, h.Pod, h.Node, h.NodePool))
	}
	return fmt.Errorf("the nodes to drain run %s, and draining them would stop the teardown itself: move it to nodes that Karpenter does not manage, such as a managed node group; "+
		"or, if you delete the cluster too, delete it, then terminate its instances with `plumbline teardown --cluster-gone --terminate`; nothing was changed", strings.Join(names, ", "))
}

func poolOf(claim *karpv1.NodeClaim) string { return claim.Labels[karpv1.NodePoolLabelKey] }

// madeBy reports whether a NodePool has created a NodeClaim, by its owner reference.
func madeBy(claim *karpv1.NodeClaim, pool types.UID) bool {
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == render.NodePool {
			return owner.UID == pool
		}
	}
	return false
}

// maxNamed is the maximum number of objects in a message.
const maxNamed = 10
