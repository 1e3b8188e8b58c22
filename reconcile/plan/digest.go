package plan

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// sum is what the Digest is made of.
type sum struct {
	Writes []write `json:"writes"`
	// Karpenter is what Git wants of its charts.
	Karpenter *render.Karpenter `json:"karpenter,omitempty"`
	// Inputs are the files that are values or charts, if there are any.
	Inputs string `json:"inputs,omitempty"`
	// Guard, Policies and Released are what it was weighed by.
	Guard    v1alpha1.Guard     `json:"guard"`
	Policies []v1alpha1.Policy  `json:"policies,omitempty"`
	Released map[types.UID]bool `json:"released,omitempty"`
	// Approved are the digests of what was approved, and NodeSync is set where one is made of what
	// is to be.
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
	// Object is what is written, whole.
	Object json.RawMessage `json:"object,omitempty"`
	Held   string          `json:"held,omitempty"`
	// Reasons are those for which it is held, and Pods those that would be pending, where people are asked to approve it.
	Reasons []string               `json:"reasons,omitempty"`
	Pods    []v1alpha1.PendingPods `json:"pods,omitempty"`
	// MovesTo are the entries that take the place of one that leaves.
	MovesTo []string `json:"movesTo,omitempty"`
	// Effect is what becomes of nodes: Nodes by the UIDs of their NodeClaims, Unnamed by
	// their number, and UpTo where nobody can tell which.
	Effect  Effect      `json:"effect,omitempty"`
	Nodes   []types.UID `json:"nodes,omitempty"`
	Unnamed int         `json:"unnamed,omitempty"`
	UpTo    bool        `json:"upTo,omitempty"`
}

// removes is the Action of an entry that is removed, and orphaned of one that is orphaned.
const (
	removes  Action = "Remove"
	orphaned Action = "Orphan"
)

// digest hashes what would be done, in the order in which it stands, and what it was
// weighed by. Messages and the revision are no part of it, and what came out of a Secret
// never is.
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
// definitions that they result in: a committer could vary an entry that nothing uses, in search of a digest.
func (m *maker) weighedBy(set *render.Set) sum {
	all := sum{Writes: []write{}, Guard: m.policy.Guard, Policies: m.policy.Policies, Released: m.policy.Released}
	if k := m.policy.Karpenter; k != nil {
		config := *k
		config.Approve, config.Nodes, config.IgnoreKinds, config.Substitute = nil, nil, nil, nil
		all.Karpenter = &config
		if set != nil && (len(k.ValuesFiles) > 0 || strings.HasPrefix(k.Repository, ".")) {
			all.Inputs = set.ChartsFingerprint(k, m.policy.ConfigFile)
		}
	}
	return all
}

// terms hashes it without the files, and without what was released by name: what was approved under
// it counts as long as it is the same.
func (m *maker) terms() string {
	all := m.weighedBy(nil)
	all.Released = nil
	return all.digest()
}

// removed is what becomes of an entry that leaves, and of its nodes.
func (m *maker) removed(c *Candidate) write {
	d := write{Ref: c.Ref.String(), UID: c.UID, Action: removes, Held: c.Reason, MovesTo: c.MovesTo}
	if c.Orphan {
		d.Action = orphaned
	}
	for _, claim := range m.claims()[c.Ref] {
		d.Nodes = append(d.Nodes, claim.UID)
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
		d.Object = c.said().object()
	}
	return d.sorted()
}

// sorted has the nodes in an order of their own: a cache lists them in none.
func (d write) sorted() write {
	slices.Sort(d.Nodes)
	return d
}

// Hash is Karpenter's hash of a definition, with the version of the hashing before it: "v3 1234".
// Two of different versions say nothing of each other. It is empty if Karpenter has noted none.
type Hash string

// version is that of the hashing.
func (h Hash) version() string {
	version, _, _ := strings.Cut(string(h), " ")
	return version
}

// sum is the hash without its version.
func (h Hash) sum() string {
	_, sum, _ := strings.Cut(string(h), " ")
	return sum
}

// Hashes are those that Karpenter has noted on a NodeClaim, of its NodePool and its EC2NodeClass,
// as one text, which many NodeClaims share.
type Hashes string

// HashesOf reads them from the annotations of a NodeClaim.
func HashesOf(annotations map[string]string) Hashes {
	pool, class := notedOfPool(annotations), notedOfClass(annotations)
	if pool == "" && class == "" {
		return ""
	}
	return Hashes(pool + "\n" + class)
}

// Pool is the hash of its NodePool's template.
func (h Hashes) Pool() Hash {
	pool, _, _ := strings.Cut(string(h), "\n")
	return Hash(pool)
}

// Class is the hash of its EC2NodeClass.
func (h Hashes) Class() Hash {
	_, class, _ := strings.Cut(string(h), "\n")
	return Hash(class)
}

// poolHash is the hash of a NodePool as the linked library counts it.
func poolHash(pool *karpv1.NodePool) Hash {
	return hash(karpv1.NodePoolHashVersion, pool.Hash())
}

// CABundle is a bundle of authorities, in PEM, as Karpenter has it in the hash of an EC2NodeClass
// (GetCABundle in karpenter-provider-aws pkg/operator/operator.go, 1.14.1).
func CABundle(authorities []byte) string { return base64.StdEncoding.EncodeToString(authorities) }

// classHash is the hash of an EC2NodeClass as the linked library counts it, in a cluster with a
// bundle of authorities (base64; empty if it does not matter). It is empty if the library
// cannot be asked.
func classHash(class *awsv1.EC2NodeClass, bundle string) Hash {
	if !Hashable(class) {
		return ""
	}
	return hash(awsv1.EC2NodeClassHashVersion, class.Hash(&bundle))
}

// notedOfPool is the hash of a NodePool that Karpenter has noted in annotations, of the pool or a
// NodeClaim.
func notedOfPool(annotations map[string]string) Hash {
	return hash(annotations[karpv1.NodePoolHashVersionAnnotationKey], annotations[karpv1.NodePoolHashAnnotationKey])
}

// notedOfClass is likewise that of an EC2NodeClass.
func notedOfClass(annotations map[string]string) Hash {
	return hash(annotations[awsv1.AnnotationEC2NodeClassHashVersion], annotations[awsv1.AnnotationEC2NodeClassHash])
}

func hash(version, sum string) Hash {
	if version == "" || sum == "" {
		return ""
	}
	return Hash(version + " " + sum)
}
