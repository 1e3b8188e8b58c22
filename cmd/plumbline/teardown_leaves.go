package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// teardownPlan is what a teardown takes away, and what of the cluster stays.
type teardownPlan struct {
	NodeSync  string `json:"nodeSync"`
	DownTo    level  `json:"downTo"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Region    string `json:"region"`
	Account   string `json:"account"`
	// Objects are the definitions of the NodeSync.
	Objects []leavingObject `json:"objects"`
	// NodeClaims and Nodes of its NodePools, and Instances that EC2 has and no NodePool that stays.
	NodeClaims int `json:"nodeClaims"`
	Nodes      int `json:"nodes"`
	Instances  int `json:"instances"`
	// Controller says that Karpenter's controller does not run, and what is done about it.
	Controller string `json:"controller,omitempty"`
	// Karpenter says what of it goes afterwards; empty where it stays.
	Karpenter string `json:"karpenter,omitempty"`
	// Stays are the cluster's other NodePools and EC2NodeClasses, and Karpenter's charts.
	Stays []string `json:"stays,omitempty"`
	// WithoutDaemon says why no daemon leads: this command ends the nodes then, As another user
	// where the deletion guard wants that.
	WithoutDaemon string `json:"withoutDaemon,omitempty"`
	As            string `json:"as,omitempty"`
	// Appliers are other tools that apply something of this, and would create it again.
	Appliers []string `json:"appliers,omitempty"`
	// Suspends says that they are suspended first.
	Suspends bool `json:"suspends,omitempty"`

	// appliers are they, each once.
	appliers []owners.Owner
	stays    leftover.Known
	// claims are the NodeClaims of its NodePools that have a node.
	claims []plan.NodeClaim
	// vanished are the NodePools of Objects that are gone, each with its UID.
	vanished map[string]types.UID
}

// leavingObject is a definition, with its number of NodeClaims.
type leavingObject struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	NodeClaims int    `json:"nodeClaims"`
	// Gone says that the cluster has it no more: its NodeClaims are left.
	Gone bool `json:"gone,omitempty"`
}

// profileAnnotation has the instance profile of a NodeClaim's instance (karpenter-provider-aws pkg/apis/v1/labels.go,
// AnnotationInstanceProfile).
const profileAnnotation = "karpenter.k8s.aws/instance-profile-name"

// leaving reads what a NodeSync has, and what stays.
func (c *cluster) leaving(ctx context.Context, sync *v1alpha1.NodeSync, downTo level) (*teardownPlan, error) {
	l := &teardownPlan{
		DownTo: downTo, NodeSync: sync.Name, Namespace: sync.Namespace, Objects: []leavingObject{},
		vanished: map[string]types.UID{},
		stays:    leftover.Known{Pools: map[string]bool{}, Classes: map[string]bool{}, Profiles: map[string]bool{}},
	}
	l.noteAppliers("NodeSync/"+sync.Name, sync)
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			goes := kind.GVK.Kind == render.NodePool || !downTo.keeps()
			if object := &objects[i]; goes && owner.Owns(object) {
				l.add(kind.GVK.Kind, object, claims.Items)
			} else {
				l.keep(kind.GVK.Kind, object)
			}
		}
	}
	if err := c.addVanished(ctx, l, sync, claims.Items); err != nil {
		return nil, err
	}
	l.keepProfiles(claims.Items)
	return l, nil
}

// keepProfiles notes the instance profiles of NodeClaims that stay, as Karpenter does before it deletes one
// (karpenter-provider-aws pkg/controllers/nodeclass/garbagecollection): an EC2NodeClass has only its newest. Releases
// before 1.8 do not annotate them, and those that run since then may have a profile that is in no status any more.
func (l *teardownPlan) keepProfiles(claims []karpv1.NodeClaim) {
	for i := range claims {
		profile := claims[i].Annotations[profileAnnotation]
		switch {
		case l.ends(render.NodePool, poolOf(&claims[i])):
		case profile == "":
			l.stays.Unprofiled = claims[i].Name
		default:
			l.stays.Profiles[profile] = true
		}
	}
}

func (l *teardownPlan) add(kind string, object *unstructured.Unstructured, claims []karpv1.NodeClaim) {
	leaves := leavingObject{Kind: kind, Name: object.GetName()}
	for i := range claims {
		if kind == render.NodePool && poolOf(&claims[i]) == object.GetName() {
			l.count(&leaves, &claims[i])
		}
	}
	l.Objects = append(l.Objects, leaves)
	l.noteAppliers(kind+"/"+object.GetName(), object)
}

// keep notes an object that is not the NodeSync's.
func (l *teardownPlan) keep(kind string, object *unstructured.Unstructured) {
	switch kind {
	case render.NodePool:
		l.stays.Pools[object.GetName()] = true
	case render.EC2NodeClass:
		l.stays.Classes[object.GetName()] = true
		if profile, _, err := unstructured.NestedString(object.Object, "status", "instanceProfile"); err == nil && profile != "" {
			l.stays.Profiles[profile] = true
		}
	}
	l.Stays = append(l.Stays, stayingWords(kind, object))
}

// stayingWords names an object with the NodeSync that has it.
func stayingWords(kind string, object *unstructured.Unstructured) string {
	words := kind + "/" + object.GetName()
	if of := object.GetLabels()[v1alpha1.OwnerLabel]; of != "" {
		words += " of NodeSync " + cmp.Or(object.GetAnnotations()[v1alpha1.OwnerLabel], of)
	}
	return words
}

// noteCharts notes what becomes of Karpenter.
func (l *teardownPlan) noteCharts(k *v1alpha1.KarpenterStatus, downTo level) {
	if k == nil {
		return
	}
	words := "Karpenter"
	if k.Version != "" {
		words += " " + k.Version
	}
	words += " in namespace " + k.Namespace
	switch downTo {
	case toCRDs:
		l.Karpenter = words + ", its charts and CRDs"
	case toController:
		l.Karpenter = words + ", its main chart"
		l.Stays = append(l.Stays, "the CRDs of "+words)
	case toDefinitions, toNodes:
		l.Stays = append(l.Stays, words+", its charts and CRDs")
	}
}

// noteAppliers notes the tools that apply an object beside plumbline.
func (l *teardownPlan) noteAppliers(name string, object client.Object) {
	for _, owner := range owners.All(object) {
		l.Appliers = append(l.Appliers, fmt.Sprintf("%s is applied by %s", name, owner))
		if !slices.Contains(l.appliers, owner) {
			l.appliers = append(l.appliers, owner)
		}
	}
}

// print shows it to people.
func (l *teardownPlan) print(out io.Writer) {
	fmt.Fprintf(out, "nodesync/%s of cluster %s in %s, account %s\n\n", l.NodeSync, l.Cluster, l.Region, l.Account)
	ends := "ENDS"
	if l.DownTo.keeps() {
		ends = "LOSES ITS NODES"
	}
	t := newTable(out, ends, "NODECLAIMS")
	for _, object := range l.Objects {
		count := ""
		if object.Kind == render.NodePool {
			count = fmt.Sprint(object.NodeClaims)
		}
		name := object.Kind + "/" + object.Name
		if object.Gone {
			name += " (deleted already)"
		}
		t.AppendRow([]any{name, count})
	}
	if !l.DownTo.keeps() {
		t.AppendRow([]any{"NodeSync/" + l.NodeSync, ""})
	}
	t.Render()
	fmt.Fprintf(out, "\n%s, %s, %s in EC2\n", english.Plural(l.NodeClaims, "NodeClaim", ""), english.Plural(l.Nodes, "Node", ""), english.Plural(l.Instances, "instance", ""))
	if l.Karpenter != "" {
		fmt.Fprintf(out, "goes afterwards, once AWS has nothing left: %s\n", l.Karpenter)
	}
	if len(l.Stays) > 0 {
		fmt.Fprintf(out, "stays: %s\n", strings.Join(l.Stays, "; "))
	}
	if l.Controller != "" {
		fmt.Fprintln(out, l.Controller)
	}
	if l.WithoutDaemon != "" {
		as := ""
		if l.As != "" {
			as = ", as " + l.As + ", which the deletion guard lets delete"
		}
		fmt.Fprintf(out, "%s: this command takes the lease and ends the nodes itself%s\n", l.WithoutDaemon, as)
	}
	if l.DownTo.keeps() {
		fmt.Fprintf(out, "the NodePools stay and make no node, until `plumbline resume %s -n %s`\n", l.NodeSync, l.Namespace)
		return
	}
	for _, applier := range l.Appliers {
		if l.Suspends {
			fmt.Fprintf(out, "%s, which is suspended first\n", applier)
			continue
		}
		fmt.Fprintf(out, "%s, which may create it again: take it out there first, or suspend that, by --suspend-appliers\n", applier)
	}
}
