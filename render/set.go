package render

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/internal/nearest"
)

// Ref names one object of plumbline's kinds. The name of an object in a namespace is namespace/name.
type Ref struct {
	Kind string
	Name string
}

// Key returns the object's name for a client of the API server.
func (r Ref) Key() types.NamespacedName {
	if namespace, name, namespaced := strings.Cut(r.Name, "/"); namespaced {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: r.Name}
}

// Empty returns an object that has only its kind and name.
func (r Ref) Empty() *unstructured.Unstructured {
	kind, _ := KindOf(r.Kind)
	object, key := &unstructured.Unstructured{Object: map[string]any{}}, r.Key()
	object.SetGroupVersionKind(kind.GVK)
	object.SetName(key.Name)
	if key.Namespace != "" {
		object.SetNamespace(key.Namespace)
	}
	return object
}

// RefTo returns the Ref of an object of a kind. The namespace of a cluster-scoped one does not count.
func RefTo(kind string, object metav1.Object) Ref {
	if namespace := object.GetNamespace(); namespace != "" {
		if of, _ := KindOf(kind); of.Namespaced {
			return Ref{Kind: kind, Name: namespace + "/" + object.GetName()}
		}
	}
	return Ref{Kind: kind, Name: object.GetName()}
}

// String returns kind/name, as people write it.
func (r Ref) String() string { return r.Kind + "/" + r.Name }

// Origin is where an object was written.
type Origin struct {
	// File from the repository's root, with forward slashes.
	File string
	// Line of the object's first line, from 1; 0 if a kustomization made it.
	Line int
}

// String returns file:line.
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Object is one definition of the Set. It is read only: Sets share unchanged objects, so the address of Defaulted
// identifies its content.
type Object struct {
	Ref    Ref
	Origin Origin
	// Desired is the object in Git after kustomize and substitution, with nothing added.
	Desired *unstructured.Unstructured
	// Defaulted is Desired with the defaults of the schema. It shares with Desired the parts without defaults.
	Defaulted *unstructured.Unstructured
	// Ignored are the paths of fields that other clients may change: map keys only.
	Ignored [][]string
	// Warning is a sentence about it for people; empty if there is none.
	Warning string
	// Text is how many bytes the strings of Desired have, keys included.
	Text int
}

// Set is the result of rendering a Snapshot.
type Set struct {
	Revision  string
	Commit    string
	Karpenter Karpenter
	// Objects in the order of their Stages, then by name.
	Objects []Object
	// Inputs are everything that was read to build the Set.
	Inputs Inputs
	// Warnings are sentences for people; none of them stops anything.
	Warnings []string
	// Rescues are the EC2NodeClasses of which NodePools use a copy that is not in Git.
	Rescues []Rescue
	// Linked are the Inputs that symlinks lead to; they are known only if LinksKnown is true.
	Linked     []string
	LinksKnown bool
	// Sum is the Fingerprint of the Inputs; empty if it was not computed.
	Sum string
}

// ChartsFingerprint is the Fingerprint of Karpenter's charts, if their repository is a folder in Git. config is
// the path of plumbline.yaml, which is no part of it; if it is empty, all Inputs count.
func (s *Set) ChartsFingerprint(k *Karpenter, config string) string {
	if config == "" { // it is unknown which files are which
		return s.Inputs.Fingerprint()
	}
	folder := path.Dir(config)
	charts, inside := k.chartFolder(folder)
	read := Inputs{}
	for name, identity := range s.Inputs {
		if name != config && inside && (charts == "." || name == charts || strings.HasPrefix(name, charts+"/")) {
			read[name] = identity
		}
	}
	return read.Fingerprint()
}

// Fingerprint returns that of the Inputs, which Render computes once for each Set; it is empty if s is nil.
func (s *Set) Fingerprint() string {
	switch {
	case s == nil:
		return ""
	case s.Sum != "":
		return s.Sum
	}
	return s.Inputs.Fingerprint()
}

// Rescue is an EC2NodeClass that was deleted while nodes use it, and the copy that NodePools use instead.
type Rescue struct {
	Class, By Ref
	// Pools are the NodePools in Git that reference Class.
	Pools []Ref
	// Origins are where Git defines Class, and then each of the Pools.
	Origins []Origin
}

// Equal reports whether two of them are the same.
func (r Rescue) Equal(other Rescue) bool {
	return r.Class == other.Class && r.By == other.By && slices.Equal(r.Pools, other.Pools) && slices.Equal(r.Origins, other.Origins)
}

// Stage is one step of the order in which objects are applied. Removal uses the reverse order.
type Stage string

// The Stages, in order.
const (
	StageCRDs            Stage = "CRDs"
	StageController      Stage = "Controller"
	StageNodeClasses     Stage = "NodeClasses"
	StageNodeOverlays    Stage = "NodeOverlays"
	StageNodePools       Stage = "NodePools"
	StageCapacityBuffers Stage = "CapacityBuffers"
)

// The kinds that plumbline manages.
const (
	NodePool       = "NodePool"
	EC2NodeClass   = "EC2NodeClass"
	NodeOverlay    = "NodeOverlay"
	CapacityBuffer = "CapacityBuffer"
)

// Kind is one kind of definition, and how it depends on the others.
type Kind struct {
	GVK   schema.GroupVersionKind
	GVR   schema.GroupVersionResource
	CRD   string
	Stage Stage
	// RefersTo is the kind that an object of this kind references, and RefPath is the path of the reference. Empty if
	// it references none.
	RefersTo string
	RefPath  []string
	// Scripts are the fields that contain shell scripts, where ${…} is mostly the shell's.
	Scripts []string
	// Namespaced reports whether objects of this kind are in a namespace.
	Namespaced bool
	// Gate is the feature gate of Karpenter's controller without which it ignores objects of this kind; empty if there
	// is none.
	Gate string
}

// Optional reports whether the CRDs of a supported version of Karpenter may not include the kind: those with a feature
// gate are newer than others.
func (k Kind) Optional() bool { return k.Gate != "" }

// GateValue returns the path of the value of Karpenter's chart that sets the feature gate
// (charts/karpenter/values.yaml in karpenter-provider-aws, 1.14.1).
func (k Kind) GateValue() []string {
	return []string{"settings", "featureGates", strings.ToLower(k.Gate[:1]) + k.Gate[1:]}
}

// IsOn reports whether a value of Karpenter's chart turns something on. The chart renders true and "true" alike; what is
// neither true nor false counts as on, because Karpenter refuses it. given is false if the values have no such path.
func IsOn(values map[string]any, path ...string) (on, given bool) {
	value, given, err := unstructured.NestedFieldNoCopy(values, path...)
	if err != nil || !given {
		return false, false
	}
	on, err = strconv.ParseBool(fmt.Sprint(value))
	return on || err != nil, true
}

// Kinds returns all kinds that plumbline manages, in the order of their Stages. Any other kind in a repository is
// refused by name.
func Kinds() []Kind {
	return []Kind{
		{
			GVK:     schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: EC2NodeClass},
			GVR:     schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
			CRD:     "ec2nodeclasses.karpenter.k8s.aws",
			Stage:   StageNodeClasses,
			Scripts: []string{"spec.userData"},
		},
		{
			GVK:   schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1alpha1", Kind: NodeOverlay},
			GVR:   schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1alpha1", Resource: "nodeoverlays"},
			CRD:   "nodeoverlays.karpenter.sh",
			Stage: StageNodeOverlays,
			Gate:  "NodeOverlay",
		},
		{
			GVK:      schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: NodePool},
			GVR:      schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
			CRD:      "nodepools.karpenter.sh",
			Stage:    StageNodePools,
			RefersTo: EC2NodeClass,
			RefPath:  []string{"spec", "template", "spec", "nodeClassRef", "name"},
		},
		{
			GVK:        schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1beta1", Kind: CapacityBuffer},
			GVR:        schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1beta1", Resource: "capacitybuffers"},
			CRD:        "capacitybuffers.autoscaling.x-k8s.io",
			Stage:      StageCapacityBuffers,
			Namespaced: true,
			Gate:       "CapacityBuffer",
		},
	}
}

// KindOf returns the entry of a kind, by its name.
func KindOf(kind string) (Kind, bool) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.GVK.Kind == kind })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

// Reference returns the object that another one references: the EC2NodeClass of a NodePool. It is false if there is no
// reference, as in a NodePool of EKS Auto Mode, whose node classes have names of their own.
func Reference(ref Ref, object *unstructured.Unstructured) (Ref, bool) {
	kind, ok := KindOf(ref.Kind)
	if !ok || kind.RefersTo == "" || OfAutoMode(object) {
		return Ref{}, false
	}
	name, found, err := unstructured.NestedString(object.Object, kind.RefPath...)
	if err != nil || !found || name == "" {
		return Ref{}, false
	}
	return Ref{Kind: kind.RefersTo, Name: name}, true
}

// Undefined returns a sentence for each object that references one that is not among the objects, with the name that
// was most likely meant. The referenced object may be in the cluster, or in the folder of another NodeSync.
func Undefined(objects []Object) []string {
	defined, names := map[Ref]bool{}, map[string][]string{}
	for _, object := range objects {
		defined[object.Ref] = true
		names[object.Ref.Kind] = append(names[object.Ref.Kind], object.Ref.Name)
	}
	var sentences []string
	for _, object := range objects {
		references := PoolsSelected(object.Ref, object.Desired)
		if class, ok := Reference(object.Ref, object.Desired); ok {
			references = append(references, class)
		}
		for _, named := range references {
			if defined[named] {
				continue
			}
			sentence := fmt.Sprintf("%s: %s names %s, which no file of this folder defines", object.Origin, object.Ref, named)
			if meant := nearest.Name(named.Name, names[named.Kind]); meant != "" {
				sentence += fmt.Sprintf("; did you mean %s?", meant)
			}
			sentences = append(sentences, sentence)
		}
	}
	return sentences
}
