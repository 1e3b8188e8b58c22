package plan

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/hashv5"
	"github.com/plumbline-dev/plumbline/render"
)

// sum is the input of the Digest.
type sum struct {
	Writes []write `json:"writes"`
	// Karpenter is the configuration of its charts in Git.
	Karpenter *render.Karpenter `json:"karpenter,omitempty"`
	// Values are those of its files, and Inputs the files of charts, if there are any.
	Values []map[string]any `json:"values,omitempty"`
	Inputs string           `json:"inputs,omitempty"`
	// Guard, Policies and Released are what it was weighed by.
	Guard    v1alpha1.Guard     `json:"guard"`
	Policies []v1alpha1.Policy  `json:"policies,omitempty"`
	Released map[types.UID]bool `json:"released,omitempty"`
	// Approved are the digests of what was approved. NodeSync is set for the digest of what people may approve.
	Approved []string `json:"approved,omitempty"`
	NodeSync string   `json:"nodeSync,omitempty"`
}

// write is what would be done to one object and to its nodes.
type write struct {
	Ref    string    `json:"ref"`
	UID    types.UID `json:"uid,omitempty"`
	Action Action    `json:"action"`
	Fields []Field   `json:"fields,omitempty"`
	// Force, Takeover and Taken are how it is written.
	Force    bool       `json:"force,omitempty"`
	Takeover bool       `json:"takeover,omitempty"`
	Taken    [][]string `json:"taken,omitempty"`
	// Object is the whole object that is written.
	Object json.RawMessage `json:"object,omitempty"`
	Held   string          `json:"held,omitempty"`
	// Reasons are why it is held, and Pods are those that would be pending, if people may approve it.
	Reasons []string               `json:"reasons,omitempty"`
	Pods    []v1alpha1.PendingPods `json:"pods,omitempty"`
	// MovesTo are the replacements of a removed object.
	MovesTo []string `json:"movesTo,omitempty"`
	// Effect is what happens to nodes: Nodes are the UIDs of their NodeClaims, Unnamed is the number of those that
	// cannot be identified, and UpTo means that these are upper limits.
	Effect  Effect      `json:"effect,omitempty"`
	Nodes   []types.UID `json:"nodes,omitempty"`
	Unnamed int         `json:"unnamed,omitempty"`
	UpTo    bool        `json:"upTo,omitempty"`
}

// removes is the Action of a removed object, and orphaned that of an orphaned one.
const (
	removes  Action = "Remove"
	orphaned Action = "Orphan"
)

// digest hashes what would be done, in order, and the rules that apply. Messages and the revision are not part of it,
// and data from a Secret never is.
func (m *maker) digest(p *Plan, set *render.Set) string {
	all := m.weighedBy(set)
	all.Approved = m.policy.digests()
	for i := range p.Changes {
		all.Writes = append(all.Writes, changed(&p.Changes[i]))
	}
	for i := range p.Removals {
		all.Writes = append(all.Writes, m.removed(&p.Removals[i]))
	}
	for _, r := range p.Returned {
		all.Writes = append(all.Writes, write{Ref: render.Ref{Kind: r.Kind, Name: r.Name}.String(), UID: r.UID, Action: TakeBack})
	}
	return all.digest()
}

// weighedBy is what a Plan is weighed by, with Karpenter's charts. What is approved in Git is no part of it:
// the commit that approves a digest would have another one. Nor is plumbline.yaml as a file, for that. The
// settings that only the render reads (where definitions are, what ${NAME} stands for) count by the
// definitions that they result in, and files with values by what they hold: a committer could vary an entry
// that nothing uses, or a comment that nobody reads, in search of a digest.
func (m *maker) weighedBy(set *render.Set) sum {
	all := sum{Writes: []write{}, Guard: m.policy.Guard, Policies: m.policy.Policies, Released: m.policy.Released}
	if k := m.policy.Karpenter; k != nil {
		config := *k
		config.Approve, config.Nodes, config.IgnoreKinds, config.Substitute, config.ValuesFiles = nil, nil, nil, nil, nil
		all.Karpenter = &config
		all.Values = slices.DeleteFunc(slices.Clone(m.policy.FileValues), func(values map[string]any) bool { return len(values) == 0 })
		if set != nil && strings.HasPrefix(k.Repository, ".") {
			all.Inputs = set.ChartsFingerprint(k, m.policy.ConfigFile)
		}
	}
	return all
}

// termsOf hashes what a Plan is weighed by, without explicit releases: an approval counts as long as this hash is the
// same.
func (m *maker) termsOf(set *render.Set) string {
	all := m.weighedBy(set)
	all.Released = nil
	return all.digest()
}

// removed returns what happens to a removed object and its nodes.
func (m *maker) removed(c *Candidate) write {
	d := write{Ref: c.Ref.String(), UID: c.UID, Action: removes, Held: c.Reason, MovesTo: c.MovesTo}
	if c.Orphan {
		d.Action = orphaned
	}
	for _, claim := range m.claims()[c.Ref] {
		d.Nodes = append(d.Nodes, claim.UID)
	}
	if c.UpTo && !c.Orphan {
		d.Effect, d.Unnamed, d.UpTo = EffectConsolidate, c.Nodes, true
	}
	return d.sorted()
}

func changed(c *Change) write {
	d := write{
		Ref: c.Ref.String(), Action: c.Action, Fields: c.Fields, Force: c.Force, Takeover: c.Takeover, Taken: c.Taken,
		Effect: c.Effect, Nodes: slices.Concat(c.touched, c.consolidated), Unnamed: c.unnamed, UpTo: c.UpTo,
	}
	if c.Live != nil {
		d.UID = c.Live.GetUID()
	}
	if c.Action.Writes() {
		d.Object = c.objectTexts().object()
	}
	return d.sorted()
}

// sorted sorts the nodes, because a cache lists them in no order.
func (d write) sorted() write {
	slices.Sort(d.Nodes)
	return d
}

// Hash is Karpenter's hash of a definition, after the hash version: "v3 1234". Hashes of different versions cannot be
// compared. It is empty if Karpenter has not annotated one.
type Hash string

// version returns the hash version.
func (h Hash) version() string {
	version, _, _ := strings.Cut(string(h), " ")
	return version
}

// sum returns the hash without its version.
func (h Hash) sum() string {
	_, sum, _ := strings.Cut(string(h), " ")
	return sum
}

// Hashes are Karpenter's annotations of the NodePool hash and the EC2NodeClass hash on a NodeClaim, as one string,
// which many NodeClaims share.
type Hashes string

// HashesOf reads them from the annotations of a NodeClaim.
func HashesOf(annotations map[string]string) Hashes {
	pool, class := notedOfPool(annotations), notedOfClass(annotations)
	if pool == "" && class == "" {
		return ""
	}
	return Hashes(pool + "\n" + class)
}

// Pool returns the hash of its NodePool's template.
func (h Hashes) Pool() Hash {
	pool, _, _ := strings.Cut(string(h), "\n")
	return Hash(pool)
}

// Class returns the hash of its EC2NodeClass.
func (h Hashes) Class() Hash {
	_, class, _ := strings.Cut(string(h), "\n")
	return Hash(class)
}

// poolHash returns the hash of a NodePool computed with the linked library.
func poolHash(pool *karpv1.NodePool) Hash {
	return hash(karpv1.NodePoolHashVersion, pool.Hash())
}

// CABundle returns a PEM bundle as Karpenter uses it in the hash of an EC2NodeClass (GetCABundle in
// karpenter-provider-aws pkg/operator/operator.go, 1.14.1).
func CABundle(authorities []byte) string { return base64.StdEncoding.EncodeToString(authorities) }

// classHash returns the hash of an EC2NodeClass in one of Karpenter's hash versions, in a cluster with this CA bundle
// (base64; empty if it does not matter). It is empty if plumbline cannot compute it.
func classHash(object *unstructured.Unstructured, version, bundle string) Hash {
	class, err := typed[awsv1.EC2NodeClass](object)
	if err != nil || !Hashable(class) {
		return ""
	}
	switch version {
	case awsv1.EC2NodeClassHashVersion:
		return hash(version, class.Hash(&bundle))
	case hashv5.Version:
		spec, _ := object.Object["spec"].(map[string]any)
		sum, err := hashv5.Hash(spec, class.AMIFamily(), bundle)
		if err == nil {
			return hash(version, sum)
		}
	}
	return ""
}

// classHashes are the hash versions of EC2NodeClasses that plumbline computes, the newest first: that of the linked
// library, and that of the LTS line, which most clusters run.
func classHashes() []string { return []string{awsv1.EC2NodeClassHashVersion, hashv5.Version} }

// Hashed reports whether a NodeClaim has the hash of its NodePool, without which Karpenter does not detect its drift.
func Hashed(annotations map[string]string) bool {
	return annotations[karpv1.NodePoolHashAnnotationKey] != ""
}

// notedOfPool returns the NodePool hash in the annotations of a NodePool or NodeClaim. Karpenter's documents call the
// annotations of both hashes internal. Only this file reads them; without them, plumbline computes the hash of a
// definition, and Karpenter's condition Drifted shows which NodeClaims differ.
func notedOfPool(annotations map[string]string) Hash {
	return hash(annotations[karpv1.NodePoolHashVersionAnnotationKey], annotations[karpv1.NodePoolHashAnnotationKey])
}

// notedOfClass returns the EC2NodeClass hash likewise.
func notedOfClass(annotations map[string]string) Hash {
	return hash(annotations[awsv1.AnnotationEC2NodeClassHashVersion], annotations[awsv1.AnnotationEC2NodeClassHash])
}

// poolHashVersion returns the version of the NodePool hash that the controller has annotated on a NodePool, and
// classHashVersion that on an EC2NodeClass. If it has annotated none, it has hashed nothing yet, and the newest version
// that plumbline computes counts.
func poolHashVersion(pool *unstructured.Unstructured) string {
	return cmp.Or(pool.GetAnnotations()[karpv1.NodePoolHashVersionAnnotationKey], karpv1.NodePoolHashVersion)
}

func classHashVersion(class *unstructured.Unstructured) string {
	return cmp.Or(class.GetAnnotations()[awsv1.AnnotationEC2NodeClassHashVersion], awsv1.EC2NodeClassHashVersion)
}

func hash(version, sum string) Hash {
	if version == "" || sum == "" {
		return ""
	}
	return Hash(version + " " + sum)
}
